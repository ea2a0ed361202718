import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { StoaClient } from "../dist/index.js";
import { Device, dice, Server, sleep, until } from "./world.js";

let server;
const open = new Set();

before(async () => (server = await Server.start()));
after(async () => {
  for (const d of open) d.close();
  await server?.end();
});

async function friends(options) {
  const [a, b] = await server.friends(options);
  open.add(a).add(b);
  return [a, b, b.person.chat, a.person.chat]; // the chat's name for a, and for b
}

const say = (d, chat, text) => d.chats.send(chat, { kind: "text", text });
const hears = (d, chat, want) =>
  until(
    () => `${d.person.tokens.user.name} hears ${want}, not ${d.texts(chat)}`,
    () => d.texts(chat).length >= want.length,
  ).then(() => assert.deepEqual(d.texts(chat), want));
const numbers = (n, from = 1) => Array.from({ length: n }, (_, i) => i + from);
const offline = (d) => until("a device to notice", () => d.client.state === "offline");
const online = (d) => until("a device to connect", () => d.client.state === "online");

test("two friends talk", async () => {
  const [a, b, ab, ba] = await friends();
  const out = await say(a, ab, " hello ");
  await hears(b, ba, ["hello"]);
  await hears(a, ab, ["hello"]);
  await until(
    "the outbox to be empty",
    async () => a.chats.pending(ab).length === 0 && (await a.storage.entries("")).length === 0,
  );
  assert.equal(a.heard[0].client_id, out.body.client_id);
  assert.equal(b.heard[0].client_id, undefined);
  assert.equal(b.chats.get(ba).unread, 1);
  assert.equal(b.chats.unread, 1);
  assert.equal(a.chats.get(ab).unread, 0);

  await b.chats.open(ba);
  assert.deepEqual(
    b.chats.messages(ba).map((m) => m.text),
    ["hello"],
  );
  b.chats.read(ba);
  assert.equal(b.chats.get(ba).unread, 0);
  await until("ticks", () => a.chats.get(ab).peer_read === 1 && a.chats.get(ab).peer_got === 1);
  b.chats.typing(ba);
  b.chats.typing(ba);
  await until("typing to be shown", () => (b.chats.typing(ba), a.chats.get(ab).typing));
  await say(b, ba, "hello yourself");
  await hears(a, ab, ["hello", "hello yourself"]);
  assert.equal(a.chats.get(ab).typing, false, "a message ends typing");
  assert.equal(a.chats.get(ab).peer_read, 2, "who answers has read");

  await b.chats.react(ba, 1, "👍");
  await a.chats.open(ab);
  await until("a reaction", () => a.chats.messages(ab)[0].reactions?.[0].emoji === "👍");
  await b.chats.react(ba, 1, "👍", false);
  await a.chats.edit(ab, 1, "hello!");
  await until("an edit", () => b.chats.messages(ba)[0].text === "hello!" && !b.chats.messages(ba)[0].reactions);
  await b.chats.hide(ba, 1);
  assert.deepEqual(
    b.chats.messages(ba).map((m) => m.seq),
    [2],
  );
  await a.chats.recall(ab, 1);
  await until("a recall", () => a.chats.messages(ab)[0].recalled);
  await a.chats.update(ab, { pinned: true, draft: "and" });
  assert.equal(a.chats.list()[0].draft, "and");
  await a.chats.clear(ab);
  await until("the chat to be gone", () => a.chats.list().length === 0); // an earlier event may follow the response
  assert.deepEqual(a.chats.messages(ab), []);
  await say(b, ba, "again");
  await until("a chat to be back", () => a.chats.list().length === 1);
  await until("a message after clearing", () => a.chats.messages(ab).length === 1 && a.seqs(ab).at(-1) === 3);

  await a.chats.setSettings({ messages_from: "nobody", receipts: false });
  assert.deepEqual(await a.chats.settings(), { messages_from: "nobody", receipts: false, version: 1 });
});

test("messages written while a line is cut come in order, each once", async () => {
  const [a, b, ab, ba] = await friends();
  await say(a, ab, "1");
  await hears(b, ba, ["1"]);
  b.line.cut();
  await offline(b);
  for (const n of numbers(9, 2)) await say(a, ab, String(n));
  await hears(a, ab, numbers(10).map(String));
  b.line.mend();
  await hears(b, ba, numbers(10).map(String));
  assert.deepEqual(b.seqs(ba), numbers(10));
  assert.ok(b.states.includes("resumed"), `${b.states}`);
});

test("what the server's history does not have any more is asked for", async () => {
  const [a, b, ab, ba] = await friends();
  await a.chats.open(ab);
  await b.chats.open(ba);
  await say(a, ab, "1");
  await hears(b, ba, ["1"]);
  b.line.cut();
  await offline(b);
  const send = (n) =>
    a.client.call("chats.send", { path: { chat: ab }, body: { client_id: `n${n}`, kind: "text", text: String(n) } });
  await Promise.all(numbers(230, 2).map(send)); // the history has 200 events
  await until("all to be heard", () => a.heard.length === 231);
  await a.chats.edit(ab, 1, "one");
  await a.chats.recall(ab, 2);
  await a.chats.react(ab, 3, "🎉");
  const phone = await b.person.device();
  open.add(phone);
  await phone.chats.hide(ba, 4);
  await phone.chats.hide(ba, 1);
  b.line.mend();
  await until("all to come", () => b.heard.length >= 230);
  assert.deepEqual(
    b.seqs(ba),
    numbers(231).filter((n) => n !== 4),
    "a message that was deleted meanwhile is not among them",
  );
  await until("what has changed", () => b.chats.messages(ba)[0].seq === 2);
  assert.deepEqual(a.chats.messages(ab)[0].text, "one");
  assert.ok(b.chats.messages(ba)[0].recalled);
  assert.equal(b.chats.messages(ba)[1].reactions[0].emoji, "🎉");
  assert.deepEqual(b.states.slice(-1), ["new"], "no resume");
});

test("an event that was lost is made up for by the next one", async () => {
  const [a, b, ab, ba] = await friends();
  const emit = b.client.emit.bind(b.client);
  b.client.emit = (name, data) =>
    (name === "message.new" && data.seq === 2) || (name === "message.changed" && data.rev === 1) || emit(name, data);
  await b.chats.open(ba);
  const changed = [];
  b.chats.on("changed", (m) => changed.push(m.rev));
  await say(a, ab, "1");
  await hears(b, ba, ["1"]);
  await say(a, ab, "2");
  await say(a, ab, "3");
  await hears(b, ba, ["1", "2", "3"]);
  await a.chats.edit(ab, 1, "one");
  await a.chats.edit(ab, 3, "three");
  await until("both changes", () => changed.length === 2);
  assert.deepEqual(changed, [1, 2]);
  assert.deepEqual(
    b.chats.messages(ba).map((m) => m.text),
    ["one", "2", "three"],
  );
});

test("a message that came with an earlier one is unread", async () => {
  const [a, b, ab, ba] = await friends();
  const emit = b.client.emit.bind(b.client);
  let third;
  b.client.emit = (name, data) => {
    if (name !== "message.new" || data.seq === 1) return emit(name, data);
    if (data.seq === 3) third = () => emit(name, data);
  };
  await b.chats.open(ba); // otherwise it still loads the chat when the next messages come
  await say(a, ab, "1");
  await hears(b, ba, ["1"]);
  for (const n of numbers(3, 2)) await say(a, ab, String(n));
  await hears(a, ab, ["1", "2", "3", "4"]);
  await until("an event", () => third);
  third(); // the client requests what is missing, and gets the fourth message, too
  await hears(b, ba, ["1", "2", "3", "4"]);
  assert.equal(b.chats.get(ba).unread, 4);
});

test("what is read while marks are sent is marked, too", async (t) => {
  const [a, b, ab, ba] = await friends();
  const c = await (await server.person("Cleo")).device();
  open.add(c);
  const { request } = await c.client.call("friends.ask", { body: { user: b.person.id } });
  await b.client.call("friends.accept", { path: { request: request.id }, body: {} });
  b.close();
  await say(a, ab, "1");
  await say(c, ab, "1");
  await until("both to be stored", () => a.chats.pending(ab).length + c.chats.pending(ab).length === 0);

  let first, goOn;
  const held = new Promise((done) => (goOn = done));
  const { call } = StoaClient.prototype;
  t.mock.method(StoaClient.prototype, "call", async function (id, ...more) {
    if (id === "chats.mark" && this.user === b.person.id && !first) {
      first = more[0].path.chat;
      await held;
    }
    return call.call(this, id, ...more);
  });
  const d = await b.person.device(); // it marks both chats as delivered, one after the other
  open.add(d);
  await until("a mark", () => first);
  const other = first === ba ? c.person.chat : ba;
  d.chats.read(other);
  goOn();
  await until("the mark", async () => (await d.client.call("chats.get", { path: { chat: other } })).read === 1);
});

test("where a chat stands tells what was lost, though nothing follows", async () => {
  const [a, b, ab, ba] = await friends();
  await say(a, ab, "1");
  await hears(b, ba, ["1"]);
  const emit = b.client.emit.bind(b.client);
  b.client.emit = (name, data) => name === "message.new" || name === "message.changed" || emit(name, data);
  await b.chats.open(ba);
  await say(a, ab, "2");
  await until("the answer", () => a.chats.get(ab)?.seq === 2);
  await a.chats.edit(ab, 1, "one");
  b.client.emit("chat.stands", { chat: ba, seq: 2, rev: 1 }); // another node sends it for a dead one
  await hears(b, ba, ["1", "2"]);
  await until("the change", () => b.chats.messages(ba)[0].text === "one");
});

test("the server is restarted", async () => {
  const [a, b, ab, ba] = await friends();
  await say(a, ab, "1");
  await hears(b, ba, ["1"]);
  await server.stop();
  await Promise.all([offline(a), offline(b)]);
  await say(a, ab, "2");
  await say(b, ba, "3");
  await server.run();
  await until("both to come", () => a.heard.length === 3 && b.heard.length === 3);
  assert.deepEqual(a.seqs(ab), [1, 2, 3]);
  assert.deepEqual(b.seqs(ba), [1, 2, 3]);
  assert.deepEqual(a.texts(ab), b.texts(ba));
});

test("the server is killed while messages are sent", async () => {
  const [a, b, ab, ba] = await friends();
  const texts = numbers(60).map(String);
  for (const text of texts.slice(0, 30)) await say(a, ab, text);
  await until("some to be sent", () => a.heard.length > 0);
  await server.stop("SIGKILL");
  for (const text of texts.slice(30)) await say(a, ab, text);
  await server.run();
  await hears(b, ba, texts);
  await hears(a, ab, texts);
});

test("what was written off line survives the page, and is sent once", async () => {
  const [a, b, ab, ba] = await friends();
  a.line.cut();
  await offline(a);
  const texts = numbers(5).map(String);
  for (const text of texts) await say(a, ab, text);
  a.close();
  const again = new Device(a.person, { storage: a.storage });
  open.add(again);
  again.line.isCut = true;
  await again.line.open();
  await again.start({ offline: true });
  assert.deepEqual(
    again.chats.pending(ab).map((o) => [o.body.text, o.state]),
    texts.map((t) => [t, "sending"]),
  );
  again.line.mend();
  await hears(b, ba, texts);
  await until(
    "the outbox to be empty",
    async () => again.chats.pending(ab).length === 0 && (await again.storage.entries("")).length === 0,
  );
  assert.deepEqual(
    again.heard.map((m) => m.text),
    texts,
  );
});

test("a message whose answer was lost is sent again, and is the same one", async () => {
  const [a, b, ab, ba] = await friends();
  a.line.isDeaf = true;
  await say(a, ab, "once");
  await hears(b, ba, ["once"]);
  a.close();
  assert.equal((await a.storage.entries("outbox/")).length, 1, "nobody has told that it was stored");
  const again = await a.person.device({ storage: a.storage });
  open.add(again);
  await until(
    "the outbox to be empty",
    async () => again.chats.pending(ab).length === 0 && (await again.storage.entries("")).length === 0,
  );
  await say(again, ab, "second");
  await hears(b, ba, ["once", "second"]);
});

test("two tabs share an outbox; one of them sends", async () => {
  const [a, b, ab, ba] = await friends();
  a.line.cut();
  await offline(a);
  const tab = await a.person.device({ storage: a.storage });
  open.add(tab);
  const sent = [];
  for (const { client } of [a, tab]) {
    const call = client.call.bind(client);
    client.call = (operation, input) => {
      if (operation === "chats.send") sent.push(input.body.text);
      return call(operation, input);
    };
  }
  for (const n of numbers(10)) await say(a, ab, `a${n}`);
  await until("the other tab to send", () => b.heard.length === 10);
  assert.deepEqual(
    b.texts(ba),
    numbers(10).map((n) => `a${n}`),
  );
  a.line.mend();
  await Promise.all(numbers(20).map((n) => say(n % 2 ? a : tab, ab, `b${n}`)));
  await until("all of both", () => b.heard.length === 30);
  for (const d of [a, tab])
    await until("a tab to have all", () => d.heard.length === 30 && d.chats.pending(ab).length === 0);
  for (const half of [0, 1]) {
    const mine = b
      .texts(ba)
      .slice(10)
      .filter((t) => Number(t.slice(1)) % 2 === half);
    assert.deepEqual(
      mine,
      numbers(20)
        .filter((n) => n % 2 === half)
        .map((n) => `b${n}`),
      "a tab's messages are in its order",
    );
  }
  assert.deepEqual(sent, b.texts(ba), "each is sent once, by one of them");
});

test("what is sent at the start comes as a message, and not as history", async (t) => {
  const [a, b, ab, ba] = await friends();
  const d = new Device(a.person);
  open.add(d);
  await d.line.open();
  let sent = false;
  const { call } = StoaClient.prototype;
  t.mock.method(StoaClient.prototype, "call", async function (id, ...more) {
    // A slow list would miss a message that did not wait for it.
    if (id === "chats.list") for (let i = 0; i < 100 && !sent; i++) await sleep(10);
    const answer = await call.call(this, id, ...more);
    sent ||= id === "chats.send";
    return answer;
  });
  await d.start({ offline: true });
  await say(d, ab, "at once");
  await hears(b, ba, ["at once"]);
  await hears(d, ab, ["at once"]);
});

test("an outbox waits for its own user", async () => {
  const [a, b, ab, ba] = await friends();
  await say(a, ab, "before");
  await hears(b, ba, ["before"]);
  await until("the first message is acknowledged", async () => (await a.storage.entries("outbox/")).length === 0);
  a.line.cut();
  await offline(a);
  await say(a, ab, "from a");
  const other = new Device(a.person, { storage: a.storage });
  open.add(other);
  await other.line.open();
  a.person.tokens = b.person.tokens; // another user has logged in
  await other.start({ offline: true });
  await online(other);
  assert.equal((await other.client.call("me.get")).id, b.person.id);
  await sleep(100);
  assert.deepEqual(other.chats.list(), []);
  assert.equal((await a.storage.entries("outbox/")).length, 1);
});

test("a refusal ends a message, and the next one goes on", async () => {
  const [a, b, ab, ba] = await friends();
  const states = [];
  a.chats.on("outgoing", (o) => states.push([o.body.text, o.state, o.reason?.code]));
  await b.chats.setSettings({ messages_from: "nobody", receipts: true });
  await until("a refusal", async () => {
    const out = await say(a, ab, "one");
    await until("an answer", () => states.some(([, s]) => s !== "sending"));
    const failed = a.chats.pending(ab).find((o) => o.body.client_id === out.body.client_id);
    return failed?.state === "failed" && failed.reason.code === "message.refused";
  });
  const [failed] = a.chats.pending(ab);
  a.storage.set = async () => {
    throw new Error("The disk is full.");
  };
  await assert.rejects(a.chats.retry(failed.body.client_id), { message: "The disk is full." });
  delete a.storage.set;
  assert.ok(
    (await a.storage.entries("")).some(([, out]) => out.body.client_id === failed.body.client_id),
    "what cannot be kept anew stays",
  );
  await b.chats.setSettings({ messages_from: "friends", receipts: true });
  await until("the retry to be taken", async () => {
    await a.chats.retry(failed.body.client_id);
    await until("an answer", () => a.chats.pending(ab)[0]?.state !== "sending");
    return a.chats.pending(ab)[0]?.state !== "failed";
  });
  await hears(b, ba, ["one"]);
  const bad = await a.chats.send(ab, { kind: "text", text: "" });
  await until(
    "a refusal",
    () => a.chats.pending(ab).find((o) => o.body.client_id === bad.body.client_id)?.reason?.code === "message.content",
  );
  await say(a, ab, "two");
  await hears(b, ba, ["one", "two"]);
  await a.chats.discard(bad.body.client_id);
  await until("the outbox to be empty", async () => (await a.storage.entries("")).length === 0);
});

test("edits, recalls, reactions and deletions while a device is away", async () => {
  const [a, b, ab, ba] = await friends();
  for (const n of numbers(6)) await say(a, ab, String(n));
  await until("all", () => b.heard.length === 6);
  const phone = await b.person.device();
  open.add(phone);
  await phone.chats.open(ba);
  phone.line.cut();
  await offline(phone);
  await a.chats.edit(ab, 1, "one");
  await a.chats.recall(ab, 2);
  await b.chats.react(ba, 3, "👍");
  await b.chats.hide(ba, 4);
  await b.chats.hide(ba, 6);
  phone.line.mend();
  await until("all changes", () => phone.chats.messages(ba).length === 4);
  await until("a reaction", () => phone.chats.messages(ba)[2].reactions);
  assert.deepEqual(
    phone.chats.messages(ba).map((m) => [m.seq, m.text, !!m.recalled]),
    [
      [1, "one", false],
      [2, undefined, true],
      [3, "3", false],
      [5, "5", false],
    ],
  );
  assert.equal(phone.chats.get(ba).last, undefined);
  assert.deepEqual(phone.heard, []);
});

test("a token that is refused is replaced, by one refresh", async () => {
  const [a] = await friends();
  const d = new Device(a.person);
  open.add(d);
  a.person.tokens = { ...a.person.tokens, access_token: "x" + a.person.tokens.access_token.slice(1) };
  await d.line.open();
  await d.start();
  assert.equal(d.refreshes, 1);
  assert.equal((await d.client.call("me.get")).id, a.person.id);
});

test("a session that ends is not taken up again", async () => {
  const [a, b] = await friends();
  const closed = new Promise((done) => a.client.on("state", (s) => s.state === "ended" && done(s)));
  await a.client.call("sessions.revoke", { path: { device: a.client.device } }).catch(() => {}); // the break may come before the response
  const { code } = await closed;
  assert.equal(code, 4500);
  await assert.rejects(a.client.call("me.get"), { name: "Ended" });

  const d = new Device(a.person);
  open.add(d);
  await d.line.open();
  await d.start({ offline: true });
  await until("an end", () => d.client.state === "ended"); // the server refuses its refresh
  assert.equal((await b.client.call("me.get")).id, b.person.id);
});

test("where no WebSocket goes through, a stream does", async () => {
  const [a, , ab] = await friends();
  const d = new Device(a.person);
  open.add(d);
  d.line.noSockets = true;
  await d.line.open();
  await d.start();
  await say(d, ab, "by stream");
  await hears(d, ab, ["by stream"]);
  d.line.cut();
  await offline(d);
  await say(a, ab, "meanwhile");
  d.line.mend();
  await hears(d, ab, ["by stream", "meanwhile"]);
});

test("a call takes a list in its query", async () => {
  const [a, b] = await friends();
  const { users } = await a.client.call("presence.get", {
    query: { users: [b.person.id, a.person.id], last_seen: true },
  });
  assert.deepEqual(
    users.map((p) => p.user),
    [b.person.id, a.person.id],
  );
});

test("calls are refused with the code of the problem", async () => {
  const [a] = await friends();
  await assert.rejects(a.client.call("chats.get", { path: { chat: "u:nobody" } }), {
    name: "Refused",
    status: 404,
    code: "chat.unknown",
  });
  await assert.rejects(a.client.call("no.such"), { name: "Refused", status: 404, code: "operation.unknown" });
  a.line.isDeaf = true;
  const call = a.client.call("me.get");
  await sleep(10); // the request has to be sent first
  a.client.disconnect();
  await assert.rejects(call, { name: "Unreachable" });
});

test("a group talks, and its chat is gone for who is removed", async () => {
  const [a, b] = await friends();
  const id = b.person.tokens.user.id;
  const { group } = await a.client.call("groups.create", { body: { name: "Rowing", members: [id] } });
  const chat = `g:${group.id}`;
  await until("the group", () => b.chats.get(chat)?.group_name === "Rowing");
  await b.chats.open(chat);
  const gone = [];
  b.chats.on("gone", (name) => gone.push(name));
  await say(a, chat, "hello");
  await until("a message", () => b.chats.messages(chat).at(-1)?.text === "hello");
  await say(b, chat, "hi");
  await until("an answer", () => a.texts(chat).at(-1) === "hi");
  await a.client.call("groups.remove", { path: { group: group.id, user: id } });
  await until("the end", () => gone.length > 0);
  assert.deepEqual([gone, b.chats.get(chat), b.chats.messages(chat)], [[chat], undefined, []]);
  await say(a, chat, "alone");
  await until("one's own", () => a.texts(chat).at(-1) === "alone");
  await b.chats.open(a.person.chat); // its requests follow earlier events
  assert.equal(b.chats.get(chat), undefined);
});

test("unread leaves out messages that need no reading", async () => {
  const [a, b, ab, ba] = await friends();
  for (const n of numbers(5)) await say(a, ab, String(n));
  await hears(b, ba, ["1", "2", "3", "4", "5"]);
  assert.equal(b.chats.get(ba).unread, 5);
  await hears(a, ab, ["1", "2", "3", "4", "5"]);
  const [shown, changed] = [[], []];
  b.chats.on("chat", (c) => shown.push(c.unread));
  b.chats.on("changed", (m) => changed.push(m.text));
  await a.chats.recall(ab, 2);
  await until("a recall", () => shown.includes(4));
  await a.chats.edit(ab, 1, "one");
  await until("an edit", () => changed.includes("one"));
  assert.equal(b.chats.get(ba).unread, 4);
  await b.chats.hide(ba, 3);
  await until("a hidden message", () => b.chats.get(ba).unread === 3);
  await a.chats.recall(ab, 3);
  b.line.cut();
  await offline(b);
  await a.chats.recall(ab, 4);
  const fresh = await b.person.device();
  open.add(fresh);
  assert.equal(fresh.chats.get(ba).unread, 2, "the list has what needs no reading");
  assert.deepEqual(fresh.chats.get(ba).uncounted, [2, 3, 4]);
  b.line.mend();
  await until("a recall that was missed", () => b.chats.get(ba).unread === 2);
  b.chats.read(ba, 1);
  await until("a mark", () => fresh.chats.get(ba).unread === 1 && b.chats.get(ba).unread === 1);

  const { group } = await a.client.call("groups.create", { body: { name: "Rowing", members: [b.person.id] } });
  const chat = `g:${group.id}`;
  await until("the group", () => b.chats.get(chat)?.group_name === "Rowing" && b.seqs(chat).at(-1) === 1);
  assert.equal(b.chats.get(chat).unread, 0, "a system message");
  await say(b, chat, "hello");
  await until("a message", () => a.chats.get(chat)?.unread === 1);
  await a.client.call("groups.update", { path: { group: group.id }, body: { name: "Sailing" } });
  await until("a system message of one's own", () => a.chats.get(chat).seq === 3);
  assert.equal(a.chats.get(chat).unread, 1, "it does not read what is before it");
  assert.equal((await a.client.call("chats.get", { path: { chat } })).unread, 1);
  assert.equal(b.chats.unread, 1);
});

test("a large group tells its messages to those who have it open, and the others how many there are", async () => {
  const [a, b] = await friends();
  const id = b.person.tokens.user.id;
  const { group } = await a.client.call("groups.create", { body: { name: "Rowing", members: [id] } });
  const chat = `g:${group.id}`;
  await until("the group", () => b.chats.get(chat)?.group_name === "Rowing" && b.seqs(chat).at(-1) === 1);
  // A member of a group of more than 200 gets this event in place of the messages.
  for (const { client } of [a, b]) {
    const emit = client.emit.bind(client);
    client.emit = (name, data) =>
      /^message\.(new|changed)$/.test(name) && data.chat === chat
        ? emit("chat.stands", { chat, seq: data.seq, rev: data.rev ?? 0 })
        : emit(name, data);
  }
  // The channel may be later than that.
  const subscribe = b.client.subscribe.bind(b.client);
  b.client.subscribe = (channel, fn) => subscribe(channel, (e) => setTimeout(fn, 20, e));
  const asked = [];
  const call = b.client.call.bind(b.client);
  b.client.call = (operation, input) => (asked.push(operation), call(operation, input));
  for (const n of numbers(3)) await say(a, chat, String(n));
  await until("the number", () => b.chats.get(chat).unread >= 3 && b.chats.get(chat).seq >= 4);
  assert.deepEqual(b.seqs(chat), [1], "nobody who does not look is told what was said");
  assert.deepEqual(
    asked.filter((o) => o !== "chats.mark"),
    ["chats.get"],
    "three messages cost one question",
  );
  await until("synced to be told again", async () => b.synced > 0);

  await b.chats.open(chat);
  assert.deepEqual(
    b.chats.messages(chat).map((m) => m.text),
    [undefined, "1", "2", "3"],
  );
  assert.deepEqual(b.seqs(chat), [1], "what was there before is history");
  await until("the channel", () => b.client.wire.getSubscription(`chat/${group.id}`)?.state === "subscribed");
  asked.length = 0;
  await say(a, chat, "4");
  await until("a message", () => b.texts(chat).at(-1) === "4");
  await a.chats.edit(chat, 5, "four");
  await until("an edit", () => b.chats.messages(chat).at(-1).text === "four");
  await say(b, chat, "5");
  await until("one's own", () => b.chats.pending(chat).length === 0 && b.texts(chat).at(-1) === "5");
  assert.equal(b.heard.at(-1).client_id !== undefined, true, "one's own message is known again");
  // One request is allowed, because a slow machine delays the channel.
  assert.ok(
    asked.filter((o) => /messages|changes/.test(o)).length <= 1,
    `what the channel brings is not asked for: ${asked}`,
  );
  b.chats.read(chat);
  assert.equal(b.chats.get(chat).unread, 0);

  b.chats.close(chat);
  assert.equal(b.client.wire.getSubscription(`chat/${group.id}`), null);
  await say(a, chat, "6");
  await until("the number", () => b.chats.get(chat).unread === 1);
  assert.equal(b.texts(chat).at(-1), "5");

  // Events of the break are loaded after it.
  await b.chats.open(chat);
  await until("the channel", () => b.client.wire.getSubscription(`chat/${group.id}`)?.state === "subscribed");
  b.line.cut();
  await offline(b);
  await say(a, chat, "7");
  await until("it to be stored", () => a.chats.pending(chat).length === 0);
  b.line.mend();
  await until("what was missed", () => b.texts(chat).at(-1) === "7");
});

test("a chat is shown around a message, and led to its end again", async () => {
  const [a, b, ab, ba] = await friends();
  const total = 240;
  for (let i = 1; i <= total; i++) await say(a, ab, `${i}`);
  await until("all of them", () => b.heard.length === total);
  const shown = () => b.chats.messages(ba).map((m) => m.seq);
  await b.chats.open(ba);
  assert.deepEqual(shown(), numbers(50, 191));
  assert.equal((await b.chats.message(ba, 7)).text, "7");
  assert.equal(await b.chats.message(ba, total + 1), undefined);

  await b.chats.around(ba, 100);
  assert.deepEqual([shown()[0], shown().length, b.chats.hasOlder(ba), b.chats.hasNewer(ba)], [76, 50, true, true]);
  await say(a, ab, "meanwhile");
  await until("a message to be told", () => b.heard.at(-1).text === "meanwhile");
  assert.equal(shown().at(-1), 125, "what does not follow is not put in");
  await a.chats.edit(ab, 100, "edited");
  await until("an edit", () => b.chats.messages(ba).find((m) => m.seq === 100).text === "edited");
  await b.chats.older(ba);
  assert.deepEqual(shown(), numbers(100, 26));
  for (let i = 0; b.chats.hasNewer(ba); i++) {
    await say(a, ab, `while it is led to the end: ${i}`);
    await b.chats.newer(ba);
  }
  await until(
    "all that follows",
    () =>
      a.chats.pending(ab).length === 0 &&
      shown().at(-1) === b.chats.get(ba).seq &&
      b.heard.length === a.chats.get(ab).seq,
  );
  assert.deepEqual(shown(), numbers(shown().length, 26));

  await b.chats.around(ba, 30);
  await b.chats.around(ba, 1);
  assert.deepEqual([shown()[0], b.chats.hasOlder(ba)], [1, false]);
  await b.chats.newest(ba);
  assert.deepEqual([shown().length, shown().at(-1), b.chats.hasNewer(ba)], [50, b.chats.get(ba).seq, false]);
  await say(b, ba, "the last");
  await until("a message at the end", () => b.chats.messages(ba).at(-1).text === "the last");
});

test("random steps with cuts end as a fresh client reads them", async (t) => {
  const seed = Number(process.env.STOA_TEST_SEED ?? Date.now() % 1e6);
  t.diagnostic(`STOA_TEST_SEED=${seed}`);
  const roll = dice(seed);
  const [a, b, ab, ba] = await friends();
  const phone = await a.person.device();
  open.add(phone);
  const devices = [
    [a, ab],
    [b, ba],
    [phone, ab],
  ];
  await Promise.all(devices.map(([d, chat]) => d.chats.open(chat)));
  const written = new Map(devices.map(([d]) => [d, []]));
  const changes = [];
  for (const [d, chat] of [devices[0], devices[1]]) {
    written.get(d).push("first");
    await say(d, chat, "first");
  }
  await until("both", () => b.heard.length === 2 && a.heard.length === 2);
  a.chats.read(ab, 2);
  b.chats.read(ba, 2);
  for (let step = 0; step < 500; step++) {
    const [d, chat] = devices[roll(3)];
    const top = d.heard.length;
    const seq = 1 + roll(Math.max(1, top));
    const own = d.chats.messages(chat).filter((m) => m.from === d.person.id);
    const mine = own[roll(Math.max(1, own.length))]?.seq;
    const ask = (promise) =>
      changes.push(promise.catch((err) => err.name === "Refused" || err.name === "Unreachable" || assert.fail(err)));
    switch (roll(15)) {
      case 0:
      case 1:
      case 2:
      case 3:
        written.get(d).push(`${step}`);
        await say(d, chat, `${step}`);
        break;
      case 4:
        if (mine) ask(d.chats.edit(chat, mine, `edited ${step}`));
        break;
      case 5:
        if (mine && roll(4) === 0) ask(d.chats.recall(chat, mine));
        break;
      case 6:
        if (top && roll(4) === 0) ask(d.chats.hide(chat, seq));
        break;
      case 7:
        if (top) ask(d.chats.react(chat, seq, ["👍", "🎉", "😀"][roll(3)], roll(3) > 0));
        break;
      case 8:
        d.chats.read(chat, seq);
        break;
      case 9:
        d.chats.typing(chat, roll(2) === 0);
        break;
      case 10:
        if (roll(2)) d.line.cut();
        else await sleep(roll(20));
        break;
      case 11:
        d.line.mend();
        break;
      case 12:
        if (top) ask(d.chats.around(chat, seq));
        break;
      case 13:
        ask(d.chats.newer(chat));
        break;
      case 14:
        ask(roll(2) ? d.chats.newest(chat) : d.chats.older(chat));
        break;
    }
  }
  for (const [d] of devices) d.line.mend();
  await Promise.all(devices.map(([d]) => online(d)));
  await Promise.all(changes);
  const total = [...written.values()].flat().length;
  for (const [d, chat] of devices) {
    const fresh = await d.person.device();
    open.add(fresh);
    const read = async () => {
      await sleep(300); // calls are rate limited
      fresh.chats.close(chat);
      await fresh.chats.open(chat);
      while (fresh.chats.hasOlder(chat)) await fresh.chats.older(chat);
      return JSON.stringify(fresh.chats.messages(chat));
    };
    const hidden = (await fresh.client.call("chats.changes", { path: { chat }, query: { since: 0 } })).hidden ?? [];
    let want;
    await until(
      () => `a device to be whole: it has\n${JSON.stringify(d.chats.messages(chat))}\nand a fresh one\n${want}`,
      async () => {
        if (d.chats.get(chat)?.seq !== total || d.chats.pending(chat).length) return false;
        while (d.chats.hasNewer(chat)) await d.chats.newer(chat);
        while (d.chats.hasOlder(chat)) await d.chats.older(chat);
        return JSON.stringify(d.chats.messages(chat)) === (want = await read());
      },
    );
    const seqs = d.seqs(chat);
    assert.deepEqual(
      seqs,
      [...seqs].sort((x, y) => x - y),
      "in order",
    );
    assert.equal(new Set(seqs).size, seqs.length, "each once");
    const missing = numbers(total).filter((n) => !seqs.includes(n) && !hidden.includes(n));
    assert.deepEqual(missing, [], "none missing");
    const { chat: _, typing: __, ...state } = d.chats.get(chat);
    await until("marks to be as fresh ones", async () => {
      const now = await fresh.client.call("chats.get", { path: { chat } });
      const shown = d.chats.get(chat);
      return (
        shown.read === now.read &&
        shown.unread === now.unread &&
        (shown.peer_read ?? 0) === (now.peer_read ?? 0) &&
        (shown.peer_got ?? 0) === (now.peer_got ?? 0)
      );
    });
    assert.ok(state.peer);
  }
  // Messages of a device are in the order of writing.
  const at = new Map(b.heard.map((m, i) => [m.client_id ?? m.id, i]));
  assert.equal(new Set(at.keys()).size, b.heard.length);
});
