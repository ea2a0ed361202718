import assert from "node:assert/strict";
import { mock, test } from "node:test";
import type { ChatState, Message } from "@stoa-dev/client";
import type { ChatSignals, ChatSource } from "../src/state/chats";
import { OpenChat, type MessageList } from "../src/state/open";

const chat = "u:bob";

function begin(state: Partial<ChatState> = {}, first = 1) {
  const did: string[] = [];
  let fail: Error | undefined;
  let failing = ""; // the command that fails; "" for all
  const commands = new Proxy({} as ChatSource, {
    get: (_, name) => async (_chat: string, seq?: number) => {
      did.push(seq === undefined ? String(name) : `${String(name)} ${seq}`);
      if (fail && (!failing || failing === name)) throw fail;
    },
  });
  const signals = {
    run: (_: string, command: (chats: ChatSource) => Promise<unknown>) => command(commands),
    get: () => ({ chat, unread: 0, read: 0, ...state }),
    messages: () => [{ seq: first } as Message],
    hasOlder: () => first > 1,
    hasNewer: () => false,
  } as unknown as ChatSignals;
  const view = { end: true, visible: true, seen: 3 };
  const list: MessageList = {
    atEnd: () => view.end,
    lastSeen: () => view.seen,
    toEnd: () => void did.push("toEnd"),
    look: () => {},
    showNew: () => void did.push("showNew"),
    show: (seq) => (did.push(`show ${seq}`), seq !== 404),
    visible: () => view.visible,
    rendered: async () => {},
  };
  const reads: (number | undefined)[] = [];
  const failures: unknown[] = [];
  const open = new OpenChat(
    chat,
    { read: (_, seq) => void reads.push(seq), close: () => void did.push("close") },
    signals,
    { failed: (err) => void failures.push(err), gone: () => void did.push("gone") },
  );
  open.list = list;
  return { open, did, reads, view, failures, fail: (err: Error | undefined, of = "") => ([fail, failing] = [err, of]) };
}

test("a chat without unread messages opens at its end", async () => {
  const { open, did } = begin();
  await open.open();
  assert.equal(open.ready.value, true);
  assert.equal(open.newFrom.value, 0);
  assert.deepEqual(did, ["open", "showNew"]);
});

test("a chat opens at the first unread message, which is loaded if necessary", async () => {
  const { open, did } = begin({ unread: 90, read: 10 }, 51);
  await open.open();
  assert.equal(open.newFrom.value, 11);
  assert.deepEqual(did, ["open", "around 11", "showNew"]);
});

test("a chat opens at an addressed message", async () => {
  const { open, did } = begin();
  await open.open(5);
  assert.deepEqual(did, ["open", "open", "around 5", "show 5"]);
  assert.equal(open.atEnd.value, false);
});

test("a message that is no longer visible is reported", async () => {
  const { open, did } = begin();
  await open.goTo(404);
  assert.equal(did.at(-1), "gone");
});

test("a chat opens at its end if its addressed message is not loaded", async () => {
  const { open, did, failures, fail } = begin();
  fail(new Error("no connection"), "around");
  await open.open(5);
  assert.equal(open.ready.value, true);
  assert.equal(did.at(-1), "showNew");
  assert.equal(failures.length, 1);
});

test("a failed opening is shown and retried", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const { open, fail } = begin();
  fail(new Error("no connection"));
  await open.open();
  assert.match(String(open.fault.value), /no connection/);
  assert.equal(open.ready.value, false);
  fail(undefined);
  mock.timers.tick(3000);
  mock.timers.reset();
  await new Promise((done) => setTimeout(done));
  assert.equal(open.fault.value, undefined);
  assert.equal(open.ready.value, true);
});

test("at the end all messages are read, and otherwise the visible ones", async () => {
  const { open, reads, view } = begin();
  open.moved();
  assert.deepEqual(reads, [], "nothing is read before the messages are loaded");
  await open.open();
  open.moved();
  view.end = false;
  open.moved();
  view.visible = false;
  open.moved();
  assert.deepEqual(reads, [undefined, 3]);
});

test("a message is marked as new if the user does not see it arrive", async () => {
  const { open, view } = begin();
  await open.open();
  open.arrived(4);
  assert.equal(open.newFrom.value, 0);
  view.visible = false;
  open.arrived(5);
  open.arrived(6);
  assert.equal(open.newFrom.value, 5);
});

test("older messages are loaded only if there are any", async () => {
  const none = begin();
  await none.open.open();
  await none.open.load("older");
  assert.deepEqual(none.did, ["open", "showNew"]);
  const some = begin({}, 51);
  await some.open.open();
  await Promise.all([some.open.load("older"), some.open.load("older")]);
  assert.deepEqual(some.did, ["open", "showNew", "older"]);
});
