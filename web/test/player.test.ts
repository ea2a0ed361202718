import assert from "node:assert/strict";
import { mock, test, type TestContext } from "node:test";
import type { Playback, Room, RoomItem, RoomItemSource } from "@stoa-dev/client";
import { clockOf, RoomPlayer, type Video } from "../src/state/player";

const room = { drift: 40, jump: 1000, hold: true } as Room;
const items = (...ids: string[]) => ids.map((id) => ({ id, kind: id === "cam" ? "live" : "url" }) as RoomItem);
const settled = () => new Promise(setImmediate);

/** A video whose data has arrived. */
class FakeVideo {
  currentTime = 0;
  duration = 60;
  ended = false;
  error: { code: number } | null = null;
  muted = false;
  paused = true;
  playbackRate = 1;
  readyState = 1;
  seeking = false;
  src = "";
  silentOnly = false;
  load(): void {}
  hasAttribute = () => this.src !== "";
  removeAttribute = () => void (this.src = "");
  pause = () => void (this.paused = true);
  play = async () => {
    if (this.silentOnly && !this.muted) throw new DOMException("", "NotAllowedError");
    this.paused = false;
  };
}

async function begin(t: TestContext) {
  mock.timers.enable({ apis: ["Date", "setInterval", "setTimeout"], now: 1_000_000 });
  t.mock.method(performance, "now", () => Date.now());
  const video = new FakeVideo();
  const asked: string[] = [];
  const failures: unknown[] = [];
  const answers: Record<string, () => void> = {}; // they may throw
  const live = { waits: (_: boolean) => {}, closed: 0 };
  let version = 0;
  const state = (is: Partial<Playback>) =>
    ({
      generation: 1,
      version: ++version,
      item: "a",
      position: 0,
      rate: 1,
      paused: false,
      server_time: Date.now(),
      ...is,
    }) as Playback;
  const ask = async <T>(what: string, value: () => T): Promise<T> => {
    asked.push(what);
    answers[what.split(" ")[0]!]?.();
    return value();
  };
  const player = new RoomPlayer(
    {
      clock: async () => ({ time: Date.now() }),
      source: (item) => ask(`source ${item}`, () => ({ kind: "url", url: `/${item}` }) as RoomItemSource),
      playback: () => ask("playback", () => state({})),
      command: (body) =>
        ask(`command ${body.do} ${body.version} ${body.item ?? body.position ?? ""}`.trim(), () => state({})),
      ended: ({ version }) => ask(`ended ${version}`, () => state({ item: "" })),
      buffering: (waits) => ask(`buffering ${waits}`, () => undefined),
      missing: (err) => (err as Error).message === "404",
      temporary: (err) => (err as Error).message === "503",
      outdated: (err) => (err as Error).message === "409",
    },
    { item: () => {}, position: () => {}, failed: (err) => void failures.push((err as Error).message) },
  );
  const watch = (_: unknown, waits: (waits: boolean) => void) => {
    live.waits = waits;
    waits(true);
    return { close: () => void live.closed++ };
  };
  await player.start({ video: video as unknown as Video, hidden: () => false, watch });
  player.room(room, true);
  player.setItems(items("a", "b", "cam"));
  t.after(() => {
    player.close();
    mock.timers.reset();
  });
  const fail = (what: string, message: string, times = 1) => {
    answers[what] = () => {
      if (times-- > 0) throw new Error(message);
    };
  };
  /** Applies a state, and lets the video load. */
  const shows = async (is: Partial<Playback>) => {
    player.take(state(is));
    await settled();
    player.loaded();
    asked.splice(0);
  };
  return { player, video, asked, failures, live, state, fail, shows };
}

test("positions are read as times", () => {
  assert.deepEqual([75_000, 999, 3_661_000, -5].map(clockOf), ["1:15", "0:00", "1:01:01", "0:00"]);
});

test("a video follows the room: small differences change its rate, large ones seek", async (t) => {
  const { player, video, shows } = await begin(t);
  await shows({ position: 10_000 });
  assert.deepEqual([video.src, video.currentTime, video.paused], ["/a", 10, false]);
  mock.timers.tick(250);
  assert.equal(video.currentTime, 10);
  assert.equal(video.playbackRate, 1.1);
  video.currentTime = 5;
  mock.timers.tick(500);
  assert.equal(video.currentTime, 5, "it has loaded for less than a second");
  mock.timers.tick(500);
  assert.equal(video.currentTime, 11.25);
  assert.deepEqual(player.time.value, { position: 11_250, duration: 60_000 });
});

test("a paused video is at the room's position, and not behind its end", async (t) => {
  const { video, shows } = await begin(t);
  await shows({ position: 7_000, paused: true });
  assert.deepEqual([video.currentTime, video.paused], [7, true]);
  await shows({ position: 90_000, paused: true });
  assert.equal(video.currentTime, 60);
});

test("an older state is ignored, unless the video is broken", async (t) => {
  const { player, video, asked, state, shows } = await begin(t);
  const old = state({ item: "b" });
  await shows({});
  player.take(old);
  assert.equal(player.moment.item, "a");
  video.error = { code: 2 };
  player.take(old);
  assert.deepEqual(asked, ["source a"]);
});

test("a source is requested again after a temporary failure only", async (t) => {
  const { player, video, asked, failures, state, fail } = await begin(t);
  fail("source", "503");
  player.take(state({}));
  await settled();
  assert.deepEqual([video.src, failures], ["", ["503"]]);
  mock.timers.tick(3000);
  await settled();
  assert.equal(video.src, "/a");
  fail("source", "403");
  player.take(state({ item: "b" }));
  await settled();
  mock.timers.tick(10_000);
  assert.deepEqual(asked, ["source a", "source a", "source b"]);
});

test("a video with errors is reloaded after longer and longer pauses, and then given up", async (t) => {
  const { player, video, asked, shows } = await begin(t);
  await shows({ paused: true });
  const reloads = async (ms: number) => {
    video.error = { code: 2 };
    player.broke();
    if (ms > 0) mock.timers.tick(ms - 1);
    assert.equal(asked.length, ms > 0 ? 0 : 1, "it waits");
    if (ms > 0) mock.timers.tick(1);
    await settled();
    video.error = null;
    player.loaded();
    return asked.splice(0).length;
  };
  assert.equal(await reloads(0), 1);
  for (const ms of [1000, 2000, 4000]) assert.equal(await reloads(ms), 1, `${ms} ms`);
  assert.equal(player.note.value, "");
  assert.equal(await reloads(60_000), 0);
  assert.equal(player.note.value, "broken");
  mock.timers.tick(1000);
  assert.equal(await reloads(0), 1, "a minute without an error");
});

test("a video that cannot be decoded is not reloaded", async (t) => {
  const { player, video, asked, shows } = await begin(t);
  await shows({});
  video.error = { code: 3 };
  player.broke();
  assert.deepEqual([player.note.value, asked], ["broken", []]);
});

test("an end is reported again until the next item follows, less and less often", async (t) => {
  const { player, video, asked, fail, shows } = await begin(t);
  await shows({ position: 60_000 });
  fail("ended", "503", 9);
  video.ended = true;
  void player.ended();
  const times: number[] = [];
  for (let s = 0.25; s <= 80; s += 0.25) {
    const before = asked.length;
    mock.timers.tick(250);
    if (asked.length > before) times.push(s);
  }
  assert.deepEqual(times, [3, 9, 21, 45, 75]);
  assert.deepEqual(new Set(asked), new Set(["ended 1"]));
});

test("the end of a paused item or of a live stream is not reported", async (t) => {
  const { player, asked, shows } = await begin(t);
  await shows({ paused: true });
  await player.ended();
  await shows({ item: "cam" });
  await player.ended();
  assert.deepEqual(asked, []);
});

test("the server learns that a video buffers, and learns it again until the video plays", async (t) => {
  const { player, asked, shows } = await begin(t);
  await shows({});
  player.buffers(true);
  player.buffers(true);
  mock.timers.tick(5000);
  player.ready();
  mock.timers.tick(20_000);
  assert.deepEqual(asked, ["buffering true", "buffering true", "buffering false"]);
  player.room({ ...room, hold: false }, true);
  player.buffers(true);
  assert.equal(asked.length, 3, "the room does not wait");
});

test("a command for an older state is sent once more", async (t) => {
  const { player, asked, failures, fail, shows } = await begin(t);
  await shows({});
  fail("command", "409");
  await player.toggle();
  assert.deepEqual(asked.splice(0), ["command pause 1", "playback", "command pause 2"]);
  assert.deepEqual(failures, []);
  fail("command", "409", 2);
  await player.seek(1234.5);
  assert.deepEqual(failures, ["409"]);
  fail("command", "403");
  asked.splice(0);
  await player.seek(0);
  assert.equal(asked.length, 1);
});

test("the next item follows the present one, also if that one was removed", async (t) => {
  const { player, asked, shows } = await begin(t);
  player.setItems(items("a", "b", "c"));
  const next = async () => {
    await player.next();
    return asked
      .find((what) => what.startsWith("command load"))
      ?.split(" ")
      .at(-1);
  };
  await shows({ item: "b" });
  assert.equal(await next(), "c");
  await shows({ item: "b" });
  player.setItems(items("a", "c"));
  assert.equal(await next(), "c");
  await shows({ item: "c" });
  assert.equal(await next(), "a");
});

test("a live stream has no position, and ends with its item", async (t) => {
  const { player, video, live, shows } = await begin(t);
  player.own = "cam";
  await shows({ item: "cam", position: 5000 });
  assert.deepEqual([player.live.value, player.note.value, video.muted], [true, "off air", true]);
  live.waits(false);
  assert.deepEqual([player.onAir.value, player.note.value, video.currentTime], [true, "", 0]);
  player.setItems(items("a", "b"));
  assert.deepEqual([live.closed, player.live.value, player.note.value], [1, false, "removed"]);
});

test("a browser that allows no sound plays without it", async (t) => {
  const { video, shows } = await begin(t);
  video.silentOnly = true;
  await shows({});
  await settled();
  assert.deepEqual([video.paused, video.muted], [false, true]);
});

test("keys act for users who may control the player", async (t) => {
  const { player, asked, shows } = await begin(t);
  await shows({ position: 8000, paused: true });
  assert.deepEqual(
    ["ArrowRight", "ArrowLeft", " ", "a"].map((key) => player.key(key)),
    [true, true, true, false],
  );
  await settled();
  assert.deepEqual(
    asked.filter((what) => what.startsWith("command")),
    ["command seek 1 13000", "command seek 1 3000", "command play 1"],
  );
  player.room(room, false);
  assert.equal(player.key(" "), false);
});

test("a player that is closed plays nothing more", async (t) => {
  const { player, video, asked, state, shows } = await begin(t);
  await shows({});
  player.close();
  player.take(state({ item: "b" }));
  mock.timers.tick(20_000);
  await settled();
  assert.deepEqual([video.src, asked], ["", []]);
});
