import assert from "node:assert/strict";
import { test } from "node:test";
import type { Message, Outgoing, Transfer } from "@stoa-dev/client";
import { streamRows, type StreamInput, type Upload } from "../src/state/stream";

const noon = new Date(2026, 0, 5, 12).getTime();
const minute = 60_000;
const day = 24 * 60 * minute;
const iso = (at: number) => new Date(at).toISOString();

const message = (seq: number, from: string, at: number, more: Partial<Message> = {}): Message => ({
  id: `m${seq}`,
  chat: "u:bob",
  seq,
  from,
  at: iso(at),
  kind: "text",
  text: `message ${seq}`,
  ...more,
});

const file = (id: string, at: number) => ({ id, from: "bob", to: "ada", created: iso(at) }) as Transfer;

function rows(input: Partial<StreamInput<Upload>>) {
  return streamRows({
    me: "ada",
    chat: undefined,
    messages: [],
    pending: [],
    files: [],
    uploads: [],
    hasOlder: false,
    hasNewer: false,
    newFrom: 0,
    ...input,
  });
}

const kinds = (input: Partial<StreamInput<Upload>>) => rows(input).map((row) => row.kind);
const bubbles = (input: Partial<StreamInput<Upload>>) => rows(input).flatMap((r) => (r.kind === "bubble" ? [r] : []));

test("a chat without messages has no rows", () => {
  assert.deepEqual(rows({}), []);
});

test("each day begins with a line", () => {
  const messages = [message(1, "bob", noon), message(2, "bob", noon + minute), message(3, "bob", noon + day)];
  assert.deepEqual(kinds({ messages }), ["day", "bubble", "bubble", "day", "bubble"]);
});

test("messages of one sender within five minutes form a group", () => {
  const messages = [
    message(1, "bob", noon),
    message(2, "bob", noon + minute),
    message(3, "ada", noon + 2 * minute),
    message(4, "ada", noon + 8 * minute),
  ];
  assert.deepEqual(
    bubbles({ messages }).map((b) => b.follows),
    [false, true, false, false],
  );
});

test("the line before the new messages precedes the first one of another user", () => {
  const messages = [message(1, "bob", noon), message(2, "ada", noon), message(3, "bob", noon), message(4, "bob", noon)];
  assert.deepEqual(kinds({ messages, newFrom: 2 }), ["day", "bubble", "bubble", "new", "bubble", "bubble"]);
});

test("the ticks of own messages follow the marks of the peer", () => {
  const messages = [1, 2, 3].map((seq) => message(seq, "ada", noon));
  const recalled = message(4, "ada", noon, { recalled: iso(noon) });
  const got = bubbles({ messages: [...messages, recalled], chat: { peer_read: 1, peer_got: 2 } });
  assert.deepEqual(
    got.map((b) => b.tick),
    ["read", "delivered", "sent", undefined],
  );
});

test("a sent message keeps the key of its outgoing one", () => {
  const out: Outgoing = {
    chat: "u:bob",
    body: { client_id: "c1", kind: "text", text: "Hi" },
    at: noon,
    state: "sending",
  };
  const sending = bubbles({ pending: [out] });
  const sent = bubbles({ messages: [message(1, "ada", noon, { client_id: "c1" })] });
  assert.equal(sending[0]!.key, sent[0]!.key);
  assert.equal(sending[0]!.tick, "sending");
});

test("files are among the messages by their time", () => {
  const messages = [message(1, "bob", noon), message(2, "bob", noon + 2 * minute)];
  const files = [file("early", noon - minute), file("between", noon + minute), file("late", noon + 3 * minute)];
  const keys = (input: Partial<StreamInput<Upload>>) => rows(input).map((row) => row.key);
  const whole = keys({ messages, files }).filter((key) => !key.startsWith("day"));
  assert.deepEqual(whole, ["file early", "1", "file between", "2", "file late"]);
  const part = keys({ messages, files, hasOlder: true, hasNewer: true }).filter((key) => !key.startsWith("day"));
  assert.deepEqual(part, ["1", "file between", "2"], "files outside of the loaded messages are not shown");
});

test("messages after the loaded ones hide what is being sent", () => {
  const out = { chat: "u:bob", body: { client_id: "c1", kind: "text" }, at: noon, state: "sending" } as Outgoing;
  assert.deepEqual(rows({ pending: [out], uploads: [{ key: "k", at: noon }], hasNewer: true }), []);
});

test("an upload disappears when its message arrives", () => {
  const uploads = [{ key: "c1", at: noon }];
  assert.deepEqual(kinds({ uploads }), ["day", "upload"]);
  assert.deepEqual(kinds({ uploads, messages: [message(1, "ada", noon, { client_id: "c1" })] }), ["day", "bubble"]);
});

test("an event of a group interrupts a group of messages", () => {
  const event = message(2, "bob", noon, { kind: "system", system: { event: "joined" } as Message["system"] & object });
  const messages = [message(1, "bob", noon), event, message(3, "bob", noon)];
  assert.deepEqual(kinds({ messages }), ["day", "bubble", "event", "bubble"]);
  assert.deepEqual(
    bubbles({ messages }).map((b) => b.follows),
    [false, false],
  );
});
