/** A room's register, as `rooms.playback` and the event `room.playback` have it. Times are in ms. */
export interface Register {
  generation: number;
  version: number;
  position: number;
  server_time: number;
  rate: number;
  paused: boolean;
}

/** What a player is to do. */
export interface Correction {
  paused: boolean;
  /** Go to `to` first. */
  seek: boolean;
  /** Where the room is, ms. */
  to: number;
  /** The rate to play at. */
  rate: number;
}

/** Of how many questions for the clock the best are taken, and how many of them are. */
const pingsKept = 16;
const pingsUsed = 5;
/** By how much, ms, the servers' clocks differ, and this one runs another way, while that many are asked. */
const clocksDiffer = 250;
/** By how much, as a part of the rate, a player drifts at most; with its pitch kept nobody hears it. */
const nudge = 0.1;
/** In which time, ms, a player that is off a little is to be back. */
const settle = 1000;

/**
 * PlaybackSync keeps one player in step with a room. It is told of the servers' clock, of the register, and of where the
 * player is, and says what the player is to do; it knows no network and no timer. `now` is `Date.now()`.
 */
export class PlaybackSync {
  private pings: { trip: number; offset: number }[] = [];
  private state: Register | undefined;

  /** The room's `drift` and `jump`, ms. */
  constructor(
    public drift: number,
    public jump: number,
  ) {}

  /** clock notes an answer of `rooms.clock`: when it was asked for and came, and what it says. */
  clock(sent: number, came: number, time: number): void {
    const trip = came - sent;
    if (trip < 0) return; // this clock was set back meanwhile
    const offset = time - (sent + trip / 2);
    // An answer is wrong by half its round trip at most: where two are farther apart, this clock was set between them.
    this.pings = this.pings.filter((p) => Math.abs(p.offset - offset) <= (p.trip + trip) / 2 + clocksDiffer);
    this.pings.push({ trip, offset });
    if (this.pings.length > pingsKept) this.pings.shift();
  }

  /** offset is how far the servers' clock is ahead: the middle of those that came with the shortest round trips. */
  offset(): number {
    const best = [...this.pings].sort((a, b) => a.trip - b.trip).slice(0, pingsUsed);
    best.sort((a, b) => a.offset - b.offset);
    return best[Math.floor(best.length / 2)]?.offset ?? 0;
  }

  /** take takes a register, from whichever way it came, and tells whether it is newer than the one that is known. */
  take(r: Register): boolean {
    const s = this.state;
    if (s && (r.generation < s.generation || (r.generation === s.generation && r.version <= s.version))) return false;
    this.state = r;
    return true;
  }

  /** position is where the room is, ms. */
  position(now: number): number {
    const s = this.state;
    if (!s) return 0;
    const since = now + this.offset() - s.server_time;
    return s.paused || since < 0 ? s.position : s.position + since * s.rate;
  }

  /** correct says what a player at a position, ms, is to do. Ask a few times a second. */
  correct(now: number, position: number): Correction {
    const s = this.state;
    if (!s) return { paused: true, seek: false, to: 0, rate: 1 };
    const to = this.position(now);
    const off = to - position;
    const c = { paused: s.paused, seek: false, to, rate: s.rate };
    if (s.paused) c.seek = Math.abs(off) > 1;
    else if (Math.abs(off) >= this.jump) c.seek = true;
    else if (Math.abs(off) > this.drift) c.rate *= 1 + Math.sign(off) * Math.min(nudge, Math.abs(off) / settle);
    return c;
  }
}
