import assert from "node:assert/strict";
import { test } from "node:test";
import { effect } from "@preact/signals-core";
import type { ChatState, Friend } from "@stoa-dev/client";
import { ChatSignals, type ChatSource } from "../src/state/chats";
import { Scripted } from "./script";

const state = (chat: string, unread = 0) => ({ chat, unread }) as ChatState;

function begin() {
  const script = new Scripted();
  const chats = [state("u:ada"), state("u:bob")];
  const source = {
    on: script.on,
    list: () => [...chats],
    get: (chat: string) => chats.find((c) => c.chat === chat),
    messages: () => [],
    open: async () => [],
  } as unknown as ChatSource;
  let online = () => {};
  const presences = {
    status: () => "online" as const,
    lastSeen: () => undefined,
    watch: (fn: () => void) => (online = fn),
  };
  let friendsChanged = () => {};
  const people = { friends: [] as Friend[], watch: (fn: () => void) => (friendsChanged = fn) };
  const end = new AbortController();
  const signals = new ChatSignals(source, presences, people, end.signal);
  return { script, chats, signals, people, end, online: () => online(), friendsChanged: () => friendsChanged() };
}

// count returns the number of runs of an effect.
function count(read: () => unknown): () => number {
  let runs = 0;
  effect(() => {
    read();
    runs++;
  });
  return () => runs;
}

test("a chat's state is read again after its own changes only", () => {
  const { script, signals } = begin();
  const ada = count(() => signals.get("u:ada"));
  const bob = count(() => signals.get("u:bob"));
  script.emit("chat", state("u:ada", 1));
  assert.deepEqual([ada(), bob()], [2, 1]);
  script.emit("outgoing", { chat: "u:bob" });
  script.emit("message", { chat: "u:bob" });
  assert.deepEqual([ada(), bob()], [2, 3]);
});

test("the order changes only when a chat moves", () => {
  const { script, chats, signals } = begin();
  const runs = count(() => signals.order.value);
  script.emit("chat", state("u:bob", 1));
  assert.equal(runs(), 1);
  chats.reverse();
  script.emit("chat", state("u:bob", 1));
  assert.equal(runs(), 2);
  assert.deepEqual(signals.order.value, ["u:bob", "u:ada"]);
});

test("a command that loads messages updates its chat, even if it fails", async () => {
  const { signals } = begin();
  const runs = count(() => signals.messages("u:ada"));
  await signals.run("u:ada", (chats) => chats.open("u:ada"));
  assert.equal(runs(), 2);
  await assert.rejects(signals.run("u:ada", () => Promise.reject(new Error("no connection"))));
  assert.equal(runs(), 3);
});

test("friends and presences are signals", () => {
  const { signals, people, online, friendsChanged } = begin();
  const friend = count(() => signals.friend("bob"));
  const status = count(() => signals.status("bob"));
  people.friends = [{ user: { id: "bob", name: "Bob" } } as Friend];
  friendsChanged();
  assert.equal(signals.friend("bob")?.user.name, "Bob");
  online();
  assert.deepEqual([friend(), status()], [2, 2]);
});

test("a log-out ends the subscriptions", () => {
  const { script, signals, end } = begin();
  const runs = count(() => signals.get("u:ada"));
  end.abort();
  script.emit("chat", state("u:ada", 1));
  assert.equal(runs(), 1);
});
