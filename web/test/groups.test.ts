import assert from "node:assert/strict";
import { test } from "node:test";
import { effect } from "@preact/signals-core";
import type { Chats, ChatState, GroupMember, GroupMembership } from "@stoa-dev/client";
import { groupOf, Groups } from "../src/state/groups";
import { Scripted } from "./script";

const now = Date.parse("2026-01-05T12:00:00Z");

function membership(role: "member" | "admin" | "owner", more: { version?: number; muted_until?: string } = {}) {
  return {
    group: { id: "rowing", name: "Rowing", version: 1, members: 3, joins: "invited", inviters: "member", ...more },
    me: { role, notify: "all", joined: "2026-01-01T00:00:00Z", version: 1 },
  } as GroupMembership & { me: object };
}

const member = (id: string, role: GroupMember["role"] = "member") =>
  ({ user: { id, name: id }, role, joined: "2026-01-01T00:00:00Z" }) as GroupMember;

const settled = () => new Promise((done) => setTimeout(done));

function begin() {
  const script = new Scripted();
  const chats = new Scripted();
  const source = { on: chats.on, get: () => undefined, list: () => [] } as unknown as Chats;
  return { script, chats, groups: new Groups(script.client, source, "ada", () => now) };
}

test("a chat of a group has the group's id", () => {
  assert.equal(groupOf("g:rowing"), "rowing");
  assert.equal(groupOf("u:bob"), "");
});

test("the role decides what a member may do", () => {
  const { groups } = begin();
  groups.applyMembership(membership("member"));
  assert.deepEqual(
    (["invite", "mute", "dissolve"] as const).map((verb) => groups.may("rowing", verb)),
    [true, false, false],
  );
  groups.applyMembership({ ...membership("admin"), me: { ...membership("admin").me, version: 2 } as never });
  assert.equal(groups.may("rowing", "mute"), true);
  assert.equal(groups.may("another", "invite"), false);
});

test("a mute ends by the server's clock", () => {
  const { groups } = begin();
  groups.applyMembership(membership("member", { muted_until: "2026-01-05T13:00:00Z" }));
  assert.deepEqual(groups.silenced("rowing"), { until: Date.parse("2026-01-05T13:00:00Z"), all: true });
  groups.applyMembership(membership("member", { version: 2, muted_until: "2026-01-05T11:00:00Z" }));
  assert.equal(groups.silenced("rowing"), undefined);
});

test("a change of the members follows the version that is loaded", async () => {
  const { script, groups } = begin();
  groups.applyMembership(membership("admin"));
  script.responses.set("groups.members", { members: [member("ada", "admin"), member("bob")], version: 1 });
  script.responses.set("groups.requests", { requests: [] });
  await groups.loadMembers("rowing");
  assert.deepEqual(
    groups.members("rowing").map((m) => m.user.id),
    ["ada", "bob"],
  );
  const { group } = membership("admin", { version: 2 });
  script.emit("group.changed", { group, changed: [member("carol", "owner")], removed: ["bob"] });
  assert.deepEqual(
    groups.members("rowing").map((m) => m.user.id),
    ["carol", "ada"],
  );
  assert.equal(groups.outranks("rowing", "carol"), false);
});

test("an older event does not change a group", () => {
  const { script, groups } = begin();
  groups.applyMembership(membership("member", { version: 3 }));
  const { group } = membership("member", { version: 2 });
  script.emit("group.changed", { group: { ...group, name: "Old" }, changed: [], removed: [] });
  assert.equal(groups.title("rowing"), "Rowing");
});

test("a mention is unread until its message is read", () => {
  const { chats, groups } = begin();
  chats.emit("message", { chat: "g:rowing", seq: 5, from: "bob", mentions: ["all"] });
  assert.equal(groups.hasMention({ chat: "g:rowing", read: 4 } as ChatState), true);
  assert.equal(groups.hasMention({ chat: "g:rowing", read: 5 } as ChatState), false);
});

test("readers of a group run again after a change", () => {
  const { script, groups } = begin();
  const titles: string[] = [];
  effect(() => void titles.push(groups.title("rowing")));
  groups.applyMembership(membership("member"));
  script.emit("group.left", { group: "rowing", version: 2 });
  assert.deepEqual(titles, ["", "Rowing", ""]);
});

test("an event is newer than the response to an earlier request for changes", async () => {
  const { script, groups } = begin();
  groups.applyMembership(membership("member"));
  script.responses.set("groups.members", { members: [member("ada")], version: 1 });
  await groups.loadMembers("rowing");
  let respond = (_: unknown) => {};
  script.responses.set("groups.changes", new Promise((done) => (respond = done)));
  const renamed = (version: number, name: string) => ({ ...membership("member", { version }).group, name });
  script.emit("group.changed", { group: renamed(2, "One"), changed: [], removed: [] });
  script.emit("group.changed", { group: renamed(3, "Two"), changed: [], removed: [] });
  respond({ group: renamed(2, "One"), changed: [], removed: [], version: 2, more: false });
  script.responses.set("groups.changes", {
    group: renamed(3, "Two"),
    changed: [],
    removed: [],
    version: 3,
    more: false,
  });
  await settled();
  assert.equal(groups.title("rowing"), "Two");
});

test("a request to join that arrives during a load stays", async () => {
  const { script, groups } = begin();
  groups.applyMembership(membership("admin"));
  script.responses.set("groups.members", { members: [member("ada", "admin")], version: 1 });
  let respond = (_: unknown) => {};
  script.responses.set("groups.requests", new Promise((done) => (respond = done)));
  const loading = groups.loadMembers("rowing");
  await settled();
  script.emit("group.requested", { id: "r1", group: "rowing", user: { id: "bob", name: "Bob" } });
  respond({ requests: [] });
  await loading;
  assert.deepEqual(
    groups.requests("rowing").map((r) => r.id),
    ["r1"],
  );
});

test("members that were not loaded without a connection are loaded later", async () => {
  const { script, groups } = begin();
  script.responses.set("groups.list", { groups: [membership("member")] });
  script.emit("open", { resumed: false });
  await settled();
  await assert.rejects(groups.loadMembers("rowing"));
  script.responses.set("groups.members", { members: [member("ada"), member("bob")], version: 1 });
  script.emit("open", { resumed: true });
  await settled();
  assert.deepEqual(
    groups.members("rowing").map((m) => m.user.id),
    ["ada", "bob"],
  );
});
