import assert from "node:assert/strict";
import { mock, test } from "node:test";
import type { Danmaku, Playback, Room, RoomItem, RoomLine, RoomMember, RoomSelf } from "@stoa-dev/client";
import { RoomChatState } from "../src/state/roomchat";
import { RoomPeople } from "../src/state/people";
import { OpenRoom, type Ending } from "../src/state/room";

const line = (seq: number) => ({ seq, text: `line ${seq}` }) as RoomLine;
const seqs = (lines: RoomChatState) => lines.all.value.map(({ seq }) => seq);
const member = (id: string, role: RoomMember["role"] = "member", version = 1) =>
  ({ user: { id, name: id }, role, may: [], joined: "2026-01-01T00:00:00Z", version }) as unknown as RoomMember;

test("lines are in order, each once", async () => {
  const lines = new RoomChatState(async () => ({ lines: [line(2), line(3)], more: true }));
  await lines.latest();
  lines.add(line(5));
  lines.add(line(4));
  lines.add(line(3));
  assert.deepEqual(seqs(lines), [2, 3, 4, 5]);
  assert.equal(lines.hasOlder.value, true);
});

test("older lines are loaded before the first one", async () => {
  const asked: number[] = [];
  const lines = new RoomChatState(async (before) => {
    asked.push(before);
    return before ? { lines: [line(1)], more: false } : { lines: [line(2)], more: true };
  });
  await lines.latest();
  await lines.older();
  assert.deepEqual(asked, [0, 2]);
  assert.deepEqual(seqs(lines), [1, 2]);
  assert.equal(lines.hasOlder.value, false);
});

test("lines from before a long break are removed", async () => {
  const pages = [
    { lines: [line(1), line(2)], more: false },
    { lines: [line(8), line(9)], more: true },
  ];
  const lines = new RoomChatState(async () => pages.shift()!);
  await lines.latest();
  await lines.latest();
  assert.deepEqual(seqs(lines), [8, 9]);
  assert.equal(lines.hasOlder.value, true);
});

test("a change during a load is newer than the loaded page", async () => {
  let answer = (_: RoomMember[]) => {};
  const people = new RoomPeople({
    members: () => new Promise((done) => (answer = (members) => done({ members }))),
    online: async () => ({ viewers: [] }),
  });
  const loading = people.page("");
  people.update("bob", undefined);
  people.update("carol", member("carol", "owner"));
  answer([member("ada"), member("bob")]);
  await loading;
  assert.deepEqual(
    people.sorted.value.map((m) => m.user.id),
    ["carol", "ada"],
  );
});

test("a list that is not shown is not loaded", async () => {
  const people = new RoomPeople({
    members: () => assert.fail("a request"),
    online: () => assert.fail("a request"),
  });
  await people.read();
});

function begin(answers: { me?: RoomSelf | undefined; fail?: Error; danmaku?: Danmaku[] } = {}) {
  const me =
    "me" in answers ? answers.me : ({ id: "ada", role: "owner", may: ["control"], version: 1 } as unknown as RoomSelf);
  const settings = { id: "cinema", name: "Cinema", viewers: 1 } as Room;
  const did: string[] = [];
  const failures: unknown[] = [];
  const endings: Ending[] = [];
  const lists: ((items: string[]) => void)[] = [];
  let clears = 0;
  const ask = async <T>(what: string, value: T): Promise<T> => {
    did.push(what);
    if (answers.fail) throw answers.fail;
    return value;
  };
  const membership = { room: settings, ...(me && { me }) };
  const items = (ids: string[]) => ({ items: ids.map((id) => ({ id }) as RoomItem) });
  const scene = { ...membership, playback: {} as Playback, playlist: items(["a"]), danmaku: answers.danmaku ?? [] };
  const people = new RoomPeople({
    members: () => ask("members", { members: [] }),
    online: () => ask("online", { viewers: [] }),
  });
  const room = new OpenRoom(
    "cinema",
    {
      room: () => ask("room", membership),
      scene: () => ask("scene", scene as never),
      playlist: () => new Promise((done) => lists.push((ids) => done(items(ids) as never))),
      missing: (err) => (err as Error).message === "404",
      temporary: () => false,
    },
    new RoomChatState(async () => ({ lines: [], more: false })),
    people,
    { failed: (err) => void failures.push(err), ended: (why) => (endings.push(why), room.close()) },
  );
  room.stage = {
    room: (_, may) => void did.push(`control ${may}`),
    items: () => {},
    playback: () => "a",
    danmaku: ({ text }) => void did.push(`fly ${text}`),
    clear: () => void clears++,
    clears: () => clears,
  };
  return { room, people, did, failures, endings, lists };
}

const event = (type: string, data: unknown) => ({ type, time: "", data });

test("a room is loaded with its scene", async () => {
  const { room } = begin();
  await room.load("all");
  assert.equal(room.room.value?.name, "Cinema");
  assert.equal(room.item.value, "a");
  assert.equal(room.may("control"), true);
  assert.deepEqual(
    room.items.value.map(({ id }) => id),
    ["a"],
  );
});

test("a load during a load causes one more", async () => {
  const { room, did } = begin();
  await Promise.all([room.load("all"), room.load("room"), room.load("room")]);
  assert.deepEqual(
    did.filter((what) => !what.startsWith("control")),
    ["scene", "room"],
  );
});

test("a user who is no member leaves", async () => {
  const { room, endings } = begin({ me: undefined });
  await room.load("all");
  assert.deepEqual(endings, ["unknown"]);
});

test("a room that no longer exists is left, and other errors are reported", async () => {
  const missing = begin({ fail: new Error("404") });
  await missing.room.load("all");
  assert.deepEqual(missing.endings, ["unknown"]);
  const failing = begin({ fail: new Error("500") });
  await failing.room.load("all");
  assert.deepEqual(failing.endings, []);
  assert.equal(failing.failures.length, 1);
});

test("an older response to a request for the playlist is ignored", async () => {
  const { room, lists } = begin();
  room.event(event("room.playlist", {}));
  room.event(event("room.playlist", {}));
  lists[1]!(["new"]);
  lists[0]!(["old"]);
  await new Promise((done) => setTimeout(done));
  assert.deepEqual(
    room.items.value.map(({ id }) => id),
    ["new"],
  );
});

test("an older event of a member changes nothing", async () => {
  const { room } = begin();
  await room.load("all");
  room.event(event("room.member", { ...member("ada", "admin", 5), may: [] }));
  assert.equal(room.may("control"), false);
  room.event(event("room.member", { ...member("ada", "owner", 4), may: ["control"] }));
  assert.equal(room.may("control"), false);
});

test("a recent event counts the viewers of a scene", async () => {
  const { room } = begin();
  await room.load("all");
  room.event(event("room.viewers", { viewers: 7 }));
  assert.equal(room.room.value?.viewers, 7);
  await room.load("room");
  assert.equal(room.room.value?.viewers, 7);
  room.close();
});

test("only the caller's own end and the room's end close the room", async () => {
  const { room, endings } = begin();
  await room.load("all");
  room.event(event("room.gone", { room: "cinema", user: "bob", why: "left", version: 2 }));
  room.event(event("room.gone", { room: "another", user: "ada", why: "kicked", version: 2 }));
  assert.deepEqual(endings, []);
  room.event(event("room.gone", { room: "cinema", user: "ada", why: "kicked", version: 2 }));
  assert.deepEqual(endings, ["kicked"]);
});

test("events during a load are newer than its response", async () => {
  const { room, did, lists } = begin({ danmaku: [{ text: "Spoiler" } as Danmaku] });
  const loading = room.load("all");
  room.event(event("room.playlist", {}));
  room.event(event("room.danmaku_cleared", {}));
  room.event(event("room.member", { ...member("ada", "admin", 5), may: [] }));
  lists[0]!(["new"]);
  await loading;
  assert.deepEqual(
    room.items.value.map(({ id }) => id),
    ["new"],
  );
  assert.equal(did.includes("fly Spoiler"), false);
});

test("the caller's state from an event during a load is newer", async () => {
  const { room } = begin();
  await room.load("all");
  const loading = room.load("room");
  room.event(event("room.member", { ...member("ada", "admin", 5), may: [] }));
  await loading;
  assert.equal(room.may("control"), false);
});

test("an event loads only the data that it changed", async (t) => {
  mock.timers.enable({ apis: ["setTimeout"] });
  t.after(() => mock.timers.reset());
  const { room, people, did } = begin();
  const loads = () => did.splice(0).filter((what) => !what.startsWith("control"));
  await room.load("all");
  loads();
  room.event(event("room.viewers", { viewers: 2 }));
  mock.timers.tick(10_000);
  assert.deepEqual(loads(), [], "the viewers are not shown");
  room.event(event("room.changed", {}));
  mock.timers.tick(10_000);
  assert.deepEqual(loads(), ["room"]);
  people.shown = true;
  room.event(event("room.viewers", { viewers: 3 }));
  mock.timers.tick(10_000);
  assert.deepEqual(loads(), ["online"]);
  room.close();
});
