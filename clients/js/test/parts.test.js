// Tests of the parts that need no server of their own, and of the types, which need one.

import "fake-indexeddb/auto";
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { reference, typesOf } from "../scripts/types.js";
import WebSocket, { WebSocketServer } from "ws";
import {
  Chats,
  Ended,
  IndexedStorage,
  MemoryStorage,
  newestOf,
  openStorage,
  refreshing,
  Refused,
  sendFile,
  StoaClient,
  Unreachable,
  uploadFile,
  WebStorage,
} from "../dist/index.js";
import { Device, Server, until } from "./world.js";

// localStorage, as a map.
class Area {
  values = new Map();
  get length() {
    return this.values.size;
  }
  key = (i) => [...this.values.keys()][i] ?? null;
  getItem = (key) => this.values.get(key) ?? null;
  setItem = (key, text) => void this.values.set(key, String(text));
  removeItem = (key) => void this.values.delete(key);
}

const storages = {
  memory: () => new MemoryStorage(),
  localStorage: () => new WebStorage(new Area()),
  IndexedDB: () => IndexedStorage.open("test"),
};

for (const [name, make] of Object.entries(storages)) {
  test(`${name} keeps values in the order of their keys`, async () => {
    const s = await make();
    await s.set("b/2", { two: [2] });
    await s.set("b/1", 1);
    await s.set("a/1", "other");
    await s.set("b/10", null);
    assert.deepEqual(await s.entries("b/"), [
      ["b/1", 1],
      ["b/10", null],
      ["b/2", { two: [2] }],
    ]);
    await s.set("b/1", "again");
    await s.delete("b/10");
    await s.delete("b/none");
    assert.deepEqual(await s.entries("b/"), [
      ["b/1", "again"],
      ["b/2", { two: [2] }],
    ]);
    assert.deepEqual(
      (await s.entries("")).map(([key]) => key),
      ["a/1", "b/1", "b/2"],
    );
  });
}

test("what IndexedDB kept is there when it is opened again", async () => {
  await (await IndexedStorage.open("again")).set("k", { v: 1 });
  assert.deepEqual(await (await IndexedStorage.open("again")).entries(""), [["k", { v: 1 }]]);
});

test("where IndexedDB and localStorage are refused, memory is taken", async () => {
  const there = globalThis.indexedDB;
  try {
    globalThis.indexedDB = undefined;
    assert.ok((await openStorage()) instanceof MemoryStorage);
    globalThis.localStorage = new Area();
    assert.ok((await openStorage()) instanceof WebStorage);
  } finally {
    globalThis.indexedDB = there;
    delete globalThis.localStorage;
  }
  assert.ok((await openStorage()) instanceof IndexedStorage);
});

test("the outbox lives in IndexedDB", async (t) => {
  const server = await Server.start();
  t.after(() => server.end());
  const password = "correct horse 9 battery";
  const [a, b] = await server.friends({ password });
  t.after(() => [a, b].forEach((d) => d.close()));
  const chat = b.person.chat;
  await b.chats.send(a.person.chat, { kind: "text", text: "first" });
  await until("a chat", () => a.chats.get(chat));
  await until("typing to be shown", () => (b.chats.typing(a.person.chat), a.chats.get(chat).typing)); // the notice may be lost
  const d = new Device(a.person, { storage: await IndexedStorage.open("outbox") });
  await d.line.open();
  await d.start();
  d.line.cut();
  await until("a device to notice", () => d.client.state === "offline");
  await d.chats.send(chat, { kind: "text", text: "kept" });
  d.close();
  const again = new Device(a.person, { storage: await IndexedStorage.open("outbox") });
  await again.line.open();
  t.after(() => again.close());
  await again.start();
  await until("the message", () => b.texts(a.person.chat).includes("kept"));
  await until("the outbox to be empty", async () => (await again.storage.entries("")).length === 0);

  await t.test("and is of one user", async () => {
    await again.storage.set(`outbox/${b.person.id}/1`, {
      chat: a.person.chat,
      body: { client_id: "foreign", kind: "text", text: "not a's" },
      at: 1,
      state: "sending",
    });
    await again.chats.send(chat, { kind: "text", text: "second" });
    await until("the message", () => b.texts(a.person.chat).includes("second"));
    const kept = async () => (await again.storage.entries("")).map(([, out]) => out.body.text).join();
    // the response may follow the event
    await until("the outbox to have what is another user's alone", async () => (await kept()) === "not a's");
  });

  await t.test("the types are those of the reference", async () => {
    assert.equal(
      await readFile(new URL("../src/wire.ts", import.meta.url), "utf8"),
      await typesOf(await reference("openapi.json")),
      'Run "npm run types".',
    );
  });

  await t.test("the example of the README runs", async () => {
    const readme = await readFile(new URL("../README.md", import.meta.url), "utf8");
    const [code, logIn, logOut] = [...readme.matchAll(/```js\n([^]*?)```/g)].map(([, text]) => text);
    const kept = new Area();
    const save = (tokens) => kept.setItem("tokens", JSON.stringify(tokens));
    const said = [];
    globalThis.WebSocket ??= WebSocket;
    const run = Object.getPrototypeOf(async () => {}).constructor;
    const play = (text, names) => new run(...Object.keys(names), text)(...Object.values(names));
    await play(logIn, {
      url: server.url,
      email: a.person.tokens.user.email,
      password,
      save,
    });
    const { access_token } = JSON.parse(kept.getItem("tokens"));
    const body =
      code.replace(/^import .*$/m, "").replace(/"http:[^"]*"/, JSON.stringify(server.url)) +
      "return { client, chats };";
    const { client, chats } = await play(body, {
      Chats,
      refreshing,
      StoaClient,
      localStorage: kept,
      friend: b.person.id,
      console: { log: (...args) => said.push(args.join(" ")) },
    });
    await until("the message", () => b.texts(a.person.chat).includes("Hello"));
    await until(
      () => "all that the example tells: " + said,
      () => said.some((s) => /^u:\S+ \d+ Hello$/.test(s)) && said.includes("Hello sent") && said.includes("online"),
    );
    await play(logOut, { chats, client, localStorage: kept });
    assert.equal(kept.getItem("tokens"), null);
    assert.equal(
      (await fetch(server.url + "/v1/me", { headers: { Authorization: `Bearer ${access_token}` } })).status,
      401,
    );
  });

  await t.test("typing ends by itself", async () => {
    await until("typing to end", () => !a.chats.get(chat).typing);
  });

  await t.test("tokens are renewed once for all who ask", async () => {
    let refreshes = 0;
    let tokens = a.person.tokens;
    const source = refreshing({
      url: server.url,
      load: () => tokens,
      save: (got) => void ((tokens = got), refreshes++),
    });
    const old = tokens.access_token;
    assert.equal(await source(), old);
    const got = await Promise.all([source(old), source(old), source(old)]);
    assert.equal(refreshes, 1);
    assert.deepEqual(new Set(got), new Set([tokens.access_token]));
    tokens = { ...tokens, refresh_token: "no such" };
    await assert.rejects(source(tokens.access_token), Ended);
    tokens = null;
    await assert.rejects(source(), Ended);
    const away = refreshing({
      url: "http://127.0.0.1:1",
      load: () => ({ access_token: "a", refresh_token: "r" }),
      save: () => {},
    });
    await assert.rejects(away("a"), { name: "Unreachable" });
  });
});

// A token is valid for at least a minute.
test(
  "a token that expires on an open connection is replaced",
  { skip: !process.env.STOA_TEST_SLOW && "STOA_TEST_SLOW is not set" },
  async (t) => {
    const server = await Server.start("--accounts-access-life=1m");
    t.after(() => server.end());
    const d = await (await server.person("Anna")).device();
    t.after(() => d.close());
    await until("two refreshes", () => d.refreshes >= 1);
    await d.client.call("me.get");
    assert.deepEqual(d.states, ["connecting", "online", "new"]);
  },
);

test("who sends a file waits for as long as the server says", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  let calls = 0;
  const client = {
    request: async (path, { method } = {}) => {
      if (method === "POST") return Response.json({ id: "t" });
      if (path.endsWith("/upload")) return new Response(null, { headers: { "Upload-Offset": "1" } });
      return Response.json({ id: "t", status: "done" });
    },
    call: async () => {
      if (++calls === 1) throw new Refused(429, "rate.limited", "Too many calls.", 30);
      return { seq: 1 };
    },
  };
  const settled = () => new Promise((done) => setImmediate(done));
  const sent = sendFile(client, "u:x", new Blob(["a"]));
  await settled();
  assert.equal(calls, 1);
  t.mock.timers.tick(29_000);
  await settled();
  assert.equal(calls, 1, "it is not asked again before its time");
  t.mock.timers.tick(1_000);
  assert.deepEqual(await sent, { seq: 1 });
  const spent = new Refused(
    429,
    "transfer.quota",
    "You have reached today's limit for files. Try again tomorrow.",
    3600,
  );
  client.request = async () => {
    throw spent;
  };
  await assert.rejects(uploadFile(client, new Blob(["a"])), spent);
});

test("an upload over a line that is cut again and again goes on while each try brings something", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const file = new Blob(["twenty bytes of text"]);
  let stored = 0;
  const client = {
    request: async (path, { method } = {}) => {
      if (method === "POST") return Response.json({ id: "t" });
      if (!path.endsWith("/upload")) return Response.json({ id: "t", status: "done" });
      if (method === "PATCH" && ++stored < file.size) throw new Unreachable("The line is cut.");
      return new Response(null, { headers: { "Upload-Offset": String(stored) } });
    },
  };
  let over = false;
  const sent = uploadFile(client, file)
    .catch((err) => err)
    .finally(() => (over = true));
  while (!over) {
    await new Promise((done) => setImmediate(done));
    t.mock.timers.tick(500);
  }
  assert.equal(await sent, "t");
});

test("uploads that break together do not all come back in one moment", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  for (const [chance, pause] of [
    [0, 250],
    [0.5, 375],
  ]) {
    t.mock.method(Math, "random", () => chance);
    let calls = 0;
    const client = {
      request: async (path, { method } = {}) => {
        if (method === "POST" && ++calls === 1) throw new Unreachable("The line is cut.");
        if (path.endsWith("/upload")) return new Response(null, { headers: { "Upload-Offset": "1" } });
        return Response.json({ id: "t", status: "done" });
      },
    };
    const settled = () => new Promise((done) => setImmediate(done));
    const sent = uploadFile(client, new Blob(["a"]));
    await settled();
    t.mock.timers.tick(pause - 1);
    await settled();
    assert.equal(calls, 1);
    t.mock.timers.tick(1);
    await settled();
    assert.equal(calls, 2, `after ${pause} ms`);
    assert.equal(await sent, "t");
  }
});

test("who has one connection too many is logged in still", async (t) => {
  const server = await Server.start("--gateway-max-user=1");
  t.after(() => server.end());
  const person = await server.person("Anna");
  const first = await person.device();
  t.after(() => first.close());
  const second = new Device(person);
  await second.line.open();
  t.after(() => second.close());
  await second.start({ offline: true });
  await until("the server to send it away", () => second.client.state === "ended");
  await assert.rejects(second.client.call("me.get"), { name: "Unreachable" });
  await server.post("/v1/auth/refresh", { refresh_token: person.tokens.refresh_token });
});

test("an answer to a renewal is not for who has logged in meanwhile", async () => {
  const ada = { access_token: "ada", refresh_token: "ada's" };
  const bob = { access_token: "bob", refresh_token: "bob's" };
  for (const answer of [
    () => Response.json({ access_token: "ada again", refresh_token: "ada's next" }),
    () => Response.json({ code: "auth.refresh_invalid" }, { status: 401 }),
    () => Promise.reject(new TypeError("The line is cut.")),
  ]) {
    for (const next of [bob, null]) {
      let kept = ada;
      const saved = [];
      const source = refreshing({
        url: "http://127.0.0.1:1",
        load: () => kept,
        save: (got) => void saved.push(got),
        fetch: async () => {
          kept = next; // in another tab
          return answer();
        },
      });
      if (next) assert.equal(await source("ada"), "bob");
      else await assert.rejects(source("ada"), { name: "Ended", code: "" });
      assert.deepEqual(saved, []);
    }
  }
});

test("a page that is in no secure context sends files", async (t) => {
  const { randomUUID } = crypto;
  crypto.randomUUID = undefined; // browsers lack it in insecure contexts
  t.after(() => (crypto.randomUUID = randomUUID));
  const sent = [];
  const client = {
    request: async (path, { method } = {}) => {
      if (method === "POST") return Response.json({ id: "t" });
      if (path.endsWith("/upload")) return new Response(null, { headers: { "Upload-Offset": "1" } });
      return Response.json({ id: "t", status: "done" });
    },
    call: async (_, { body }) => (sent.push(body.client_id), { seq: 1 }),
  };
  for (let i = 0; i < 2; i++) await sendFile(client, "u:x", new Blob(["a"]));
  assert.match(sent.join(), /^[0-9a-f]{32},[0-9a-f]{32}$/);
  assert.notEqual(sent[0], sent[1]);
});

test("a proxy that says by a date when to come back says no seconds", async (t) => {
  const client = new StoaClient({
    url: "http://127.0.0.1:1",
    getToken: async () => "token",
    storage: new MemoryStorage(),
  });
  t.mock.method(
    globalThis,
    "fetch",
    async () => new Response("", { status: 503, headers: { "Retry-After": "Thu, 26 Nov 2026 18:00:00 GMT" } }),
  );
  await assert.rejects(
    client.request("/v1/me"),
    (err) => err instanceof Refused && err.temporary && err.retryAfter === 0,
  );
});

test("a renewal whose answer is lost is asked for again, while the server gives the same tokens", async (t) => {
  const alive = setInterval(() => {}, 1000); // like a request
  t.after(() => clearInterval(alive));
  let calls = 0;
  const source = refreshing({
    url: "http://127.0.0.1:1",
    load: () => ({ access_token: "ada", refresh_token: "ada's" }),
    save: () => {},
    fetch: async (_, { signal }) => {
      if (++calls === 1) return new Promise((_, fail) => signal.addEventListener("abort", () => fail(signal.reason)));
      return Response.json({ access_token: "ada again", refresh_token: "ada's next" });
    },
  });
  assert.equal(await source("ada"), "ada again");
  assert.equal(calls, 2);
});

test("a database whose connection the browser has ended is opened anew", async () => {
  const opened = [];
  const factory = {
    open: (...args) => {
      const asked = indexedDB.open(...args);
      asked.addEventListener("success", () => opened.push(asked.result));
      return asked;
    },
  };
  const storage = await IndexedStorage.open("ended", factory);
  await storage.set("a", 1);
  opened.at(-1).close();
  await storage.set("b", 2);
  opened.at(-1).close();
  assert.deepEqual(await storage.entries(""), [
    ["a", 1],
    ["b", 2],
  ]);
  opened.at(-1).close();
  await storage.delete("a");
  assert.deepEqual(await storage.entries(""), [["b", 2]]);
});

test("messages are sent in the order of writing, also after the clock was set back", async (t) => {
  const client = new StoaClient({
    url: "http://127.0.0.1:1",
    getToken: async () => "token",
    storage: new MemoryStorage(),
  });
  t.after(() => client.disconnect());
  const { now } = Date;
  let ahead = 3_600_000;
  t.mock.method(Date, "now", () => now() + ahead);
  const before = new Chats(client, { user: "ada" });
  await before.start();
  await before.send("u:bob", { kind: "text", text: "first" });
  before.stop();
  ahead = 0;
  const after = new Chats(client, { user: "ada" });
  t.after(() => after.stop());
  await after.start();
  await after.send("u:bob", { kind: "text", text: "second" });
  assert.deepEqual(
    after.pending("u:bob").map((out) => out.body.text),
    ["first", "second"],
  );
});

test("who has too many unfinished transfers is told so after a second try", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  let calls = 0;
  const client = {
    request: async () => {
      calls++;
      throw new Refused(429, "transfer.open", "Finish or cancel some.", 60);
    },
  };
  const sent = assert.rejects(uploadFile(client, new Blob(["a"])), { code: "transfer.open" });
  for (let i = 0; i < 10; i++) {
    await new Promise(setImmediate);
    t.mock.timers.tick(60_000);
  }
  await sent;
  assert.equal(calls, 2);
});

test("the chat of a group that its user has left stays away, though they have just written there", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const chat = "g:rowing";
  const at = "2026-11-27T12:00:00Z";
  const listeners = {};
  const client = {
    user: "ada",
    state: "online",
    storage: Promise.resolve(new MemoryStorage()),
    on: (name, fn) => ((listeners[name] = fn), () => {}),
    call: async (operation) => {
      if (operation === "chats.list")
        return { sync: "1", chats: [{ chat, group: "rowing", seq: 0, rev: 0, read: 0, unread: 0, at }] };
      if (operation === "chats.send") return { id: "m", chat, seq: 1, at };
      throw new Refused(404, "chat.unknown", "There is no such chat.");
    },
  };
  const chats = new Chats(client, { user: "ada" });
  t.after(() => chats.stop());
  await chats.start();
  let sent = false;
  chats.on("outgoing", (out) => (sent ||= out.sent !== undefined));
  await chats.send(chat, { kind: "text", text: "bye" });
  while (!sent) await new Promise(setImmediate);
  assert.equal(chats.get(chat)?.group, "rowing");
  listeners["group.left"]({ group: "rowing" });
  t.mock.timers.tick(1_000); // no event has the message
  assert.deepEqual([chats.get(chat), chats.pending(chat)], [undefined, []]);
});

test("of two documents of a group the newest parts count, in either order", () => {
  const of = (group, own, role, remark, seen) => ({
    group: { id: "rowing", version: group, name: `name ${group}` },
    me: { role, notify: `notify ${own}`, version: own, ...(remark && { remark }), ...(seen && { seen }) },
  });
  const cases = [
    [
      "own settings that changed twice",
      of(5, 1, "member", "first"),
      of(5, 2, "member", "second", 3),
      of(5, 2, "member", "second", 3),
    ],
    ["a remark that was removed", of(5, 1, "member", "first", 3), of(5, 2, "member"), of(5, 2, "member")],
    [
      "a role that changed in between",
      of(6, 1, "admin", "first"),
      of(5, 2, "member", "second"),
      of(6, 2, "admin", "second"),
    ],
    ["a newer document", of(5, 1, "member", "first"), of(6, 2, "admin", "second"), of(6, 2, "admin", "second")],
  ];
  for (const [what, one, other, want] of cases) {
    assert.deepEqual(newestOf(one, other), want, what);
    assert.deepEqual(newestOf(other, one), want, `${what}, in the other order`);
  }
});

test("settings of a chat never go back to an older version", async () => {
  const handlers = {};
  const chat = (version, draft) => ({
    chat: "u:bob",
    peer: "bob",
    seq: 1,
    rev: 0,
    read: 1,
    unread: 0,
    at: "2026-11-28T12:00:00.000Z",
    version,
    draft,
  });
  let listed = [chat(3, "third")];
  const client = {
    state: "online",
    user: "ann",
    storage: new MemoryStorage(),
    on: (name, fn) => ((handlers[name] = fn), () => {}),
    call: async () => ({ chats: listed, sync: "1", unread: 0 }),
  };
  const chats = new Chats(client, { user: "ann" });
  const synced = () => new Promise((done) => chats.on("synced", done));
  let sync = synced();
  await chats.start();
  await sync;
  const draft = () => chats.get("u:bob").draft;
  handlers["chat.updated"](chat(5, "fifth"));
  handlers["chat.updated"](chat(4, "fourth"));
  assert.equal(draft(), "fifth"); // a late event
  listed = [chat(4, "fourth")];
  sync = synced();
  handlers.open({ resumed: false });
  await sync;
  assert.equal(draft(), "fifth"); // a late list
  listed = [chat(6, undefined)];
  sync = synced();
  handlers.open({ resumed: false });
  await sync;
  assert.equal(draft(), undefined); // a list that repairs
  chats.stop();
});

test("a client connects again after its connect command came too late", async () => {
  const server = new WebSocketServer({ port: 0, host: "127.0.0.1" });
  let connections = 0;
  server.on("connection", (socket) => {
    connections++;
    socket.close(3502, "stale");
  });
  await new Promise((done) => server.once("listening", done));
  const client = new StoaClient({
    url: `http://127.0.0.1:${server.address().port}`,
    getToken: async () => "t",
    storage: new MemoryStorage(),
    transports: ["websocket"],
    wire: { websocket: WebSocket },
  });
  const states = [];
  client.on("state", ({ state }) => states.push(state));
  client.connect();
  await until("a third connection", () => connections >= 3);
  assert.ok(!states.includes("ended"), states.join(", "));
  client.disconnect();
  server.close();
});
