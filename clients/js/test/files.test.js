// Files of messages: sending, resuming, fetching.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, before, test } from "node:test";
import { fetchFile, fileLink, Refused, sendFile, uploadFile } from "../dist/index.js";
import { Server, until } from "./world.js";

let server;
before(async () => {
  server = await Server.start();
});
after(() => server.end());

const bytes = async (answer) => Buffer.from(await answer.arrayBuffer());

// wav returns a recording of silence.
function wav(ms) {
  const head = Buffer.from("524946460000000057415645666d74201000000001000100401f0000803e00000200100064617461", "hex");
  const n = Buffer.alloc(4);
  n.writeUInt32LE(ms * 16);
  return new Blob([head, n, Buffer.alloc(ms * 16)]);
}

test("a file goes to a chat, with progress, and is fetched by the other", async () => {
  const [a, b] = await server.friends();
  const data = randomBytes((9 << 20) + 5);
  const steps = [];
  const sent = await sendFile(a.client, b.person.chat, new Blob([data], { type: "image/png" }), {
    name: "holiday.png",
    text: "look",
    onProgress: (n) => steps.push(n),
  });
  assert.deepEqual(steps, [0, 4 << 20, 8 << 20, data.length]);
  await until("the file to come", () => b.heard.length === 1);
  const [m] = b.heard;
  assert.equal(m.seq, sent.seq);
  assert.equal(m.text, "look");
  assert.equal(m.media.name, "holiday.png");
  assert.equal(m.media.size, data.length);
  assert.ok(!m.media.url);
  assert.ok((await bytes(await fetchFile(b.client, m.chat, m.seq))).equals(data));
  assert.ok((await bytes(await fetchFile(b.client, m.chat, m.seq, { from: 5 << 20 }))).equals(data.subarray(5 << 20)));
  const { url } = await fileLink(b.client, m.chat, m.seq);
  assert.equal((await fetch(b.client.at(url))).headers.get("content-type"), "application/octet-stream");
  await a.chats.recall(b.person.chat, m.seq);
  await assert.rejects(
    fetchFile(b.client, m.chat, m.seq),
    (err) => err instanceof Refused && err.code === "message.recalled",
  );
});

test("a recording tells how long it is, and how loud", async () => {
  const [a, b] = await server.friends();
  await sendFile(a.client, b.person.chat, wav(1500), {
    kind: "voice",
    name: "voice.wav",
    media: { duration_ms: 9, waveform: [1, 100] },
  });
  await until("the recording to come", () => b.heard.length === 1);
  const { kind, media, chat, seq } = b.heard[0];
  assert.deepEqual([kind, media.type, media.duration_ms, media.waveform], ["voice", "audio/wav", 1500, [1, 100]]);
  assert.equal((await fetchFile(b.client, chat, seq)).headers.get("content-type"), "audio/wav");
  await assert.rejects(
    sendFile(a.client, b.person.chat, wav(10), { kind: "image" }),
    (err) => err instanceof Refused && err.code === "message.content",
  );
});

test("an upload goes on where a cut line has left it", async () => {
  const [a, b] = await server.friends();
  const data = randomBytes(9 << 20);
  let cuts = 0;
  const sent = await sendFile(a.client, b.person.chat, new Blob([data]), {
    onProgress: (n) => {
      if (n < 4 << 20 || cuts > 0) return;
      cuts++;
      a.line.cut();
      setTimeout(() => a.line.mend(), 100);
    },
  });
  assert.equal(cuts, 1);
  assert.ok((await bytes(await fetchFile(b.client, a.person.chat, sent.seq))).equals(data));
});

test("an upload that was given up is resumed by its id", async () => {
  const [a, b] = await server.friends();
  const data = randomBytes(6 << 20);
  const stop = new AbortController();
  let id = "";
  await assert.rejects(
    uploadFile(a.client, new Blob([data]), {
      signal: stop.signal,
      onBegun: (begun) => (id = begun),
      onProgress: (n) => n > 0 && stop.abort(),
    }),
  );
  const steps = [];
  const sent = await sendFile(a.client, b.person.chat, new Blob([data]), {
    resume: id,
    onProgress: (n) => steps.push(n),
  });
  assert.deepEqual(steps, [4 << 20, data.length]);
  assert.ok((await bytes(await fetchFile(b.client, a.person.chat, sent.seq))).equals(data));
});

test("an upload goes on where the server has cut a line that stood still, or had no place", async () => {
  const [a, b] = await server.friends();
  const data = randomBytes(5 << 20);
  const cuts = [
    new Refused(422, "transfer.cut", "The upload was cut off.", 0),
    new Refused(429, "transfer.busy", "Too many of your uploads are under way.", 1),
  ];
  const request = a.client.request.bind(a.client);
  a.client.request = async (path, init) => {
    if (init?.method === "PATCH" && cuts.length > 0) throw cuts.pop();
    return request(path, init);
  };
  const sent = await sendFile(a.client, b.person.chat, new Blob([data]));
  assert.equal(cuts.length, 0);
  assert.ok((await bytes(await fetchFile(b.client, a.person.chat, sent.seq))).equals(data));
});
