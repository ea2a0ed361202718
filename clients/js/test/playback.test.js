import assert from "node:assert/strict";
import { test } from "node:test";

import { PlaybackSync } from "../dist/index.js";

test("the clock is the middle of the best pings", () => {
  const s = new PlaybackSync(40, 1000);
  assert.equal(s.offset(), 0);
  for (let i = 0; i < 40; i++) {
    const sent = 1_700_000_000_000 + i * 1000;
    s.clock(sent, sent + 100 + (i % 2) * 400, sent + 2050);
  }
  assert.equal(s.offset(), 2000);
});

test("a clock that is set counts at once", () => {
  const s = new PlaybackSync(40, 1000);
  const sent = 1_700_000_000_000;
  for (let i = 0; i < 16; i++) s.clock(sent + i * 10_000, sent + i * 10_000 + 20, sent + i * 10_000 + 10);
  s.clock(sent + 160_000, sent + 130_030, sent + 160_015); // the clock was set back by half a minute during the request
  assert.equal(s.offset(), 0);
  s.clock(sent + 140_000, sent + 140_040, sent + 170_020);
  assert.equal(s.offset(), 30_000);
});

test("a player drifts back before it seeks", () => {
  const s = new PlaybackSync(40, 1000);
  const now = 1_700_000_010_000;
  assert.deepEqual(s.correct(now, 0), { paused: true, seek: false, to: 0, rate: 1 });
  const playing = {
    generation: 1,
    version: 3,
    position: 5000,
    server_time: 1_700_000_000_000,
    rate: 1.5,
    paused: false,
  };
  assert.ok(s.take(playing));
  assert.ok(!s.take(playing));
  assert.ok(!s.take({ ...playing, version: 2 }));
  assert.ok(!s.take({ ...playing, generation: 0, version: 9 }));
  for (const [off, seek, rate] of [
    [0, false, 1.5],
    [40, false, 1.5],
    [50, false, 1.425],
    [-50, false, 1.575],
    [900, false, 1.35],
    [1000, true, 1.5],
    [-3000, true, 1.5],
  ]) {
    const c = s.correct(now, 20_000 + off);
    assert.equal(c.seek, seek, `off by ${off}`);
    assert.ok(Math.abs(c.rate - rate) < 1e-9, `off by ${off}: ${c.rate}`);
    assert.equal(c.to, 20_000);
  }
  assert.ok(s.take({ ...playing, generation: 2, version: 0, position: 7000, paused: true }));
  assert.deepEqual(s.correct(now, 7020), { paused: true, seek: true, to: 7000, rate: 1.5 });
});
