/** The playback state of a room, from `rooms.playback` and the event `room.playback`. Times are in ms. */
export interface Register {
  generation: number;
  version: number;
  position: number;
  server_time: number;
  rate: number;
  paused: boolean;
}

/** The instruction for a player. */
export interface Correction {
  paused: boolean;
  /** Seek to `to` first. */
  seek: boolean;
  /** The room's position in ms. */
  to: number;
  /** The playback rate. */
  rate: number;
}

/** The numbers of clock responses that are stored, and of the best ones that are used. */
const pingsKept = 16;
const pingsUsed = 5;
/**
 * The largest difference in ms of the servers' clocks, together with this clock's drift during the stored responses.
 */
const clocksDiffer = 250;
/** The largest change of the rate, as a part of it. With the pitch preserved it is inaudible. */
const nudge = 0.1;
/** The time in ms to correct a small difference. */
const settle = 1000;

/**
 * PlaybackSync synchronises one player with a room. It gets the server's clock, the playback state and the player's
 * position, and returns what the player has to do. It uses no network and no timer. `now` is `Date.now()`.
 */
export class PlaybackSync {
  private pings: { trip: number; offset: number }[] = [];
  private state: Register | undefined;

  /** The room's `drift` and `jump`, ms. */
  constructor(
    public drift: number,
    public jump: number,
  ) {}

  /** clock records a response of `rooms.clock`: the times of the request and of the response, and its content. */
  clock(sent: number, came: number, time: number): void {
    const trip = came - sent;
    if (trip < 0) return; // this clock was set back meanwhile
    const offset = time - (sent + trip / 2);
    // The error of a response is at most half its round trip. If two differ by more, this clock was set between them.
    this.pings = this.pings.filter((p) => Math.abs(p.offset - offset) <= (p.trip + trip) / 2 + clocksDiffer);
    this.pings.push({ trip, offset });
    if (this.pings.length > pingsKept) this.pings.shift();
  }

  /**
   * offset returns how far the servers' clock is ahead, in ms: the median of the responses with the shortest round
   * trips.
   */
  offset(): number {
    const best = [...this.pings].sort((a, b) => a.trip - b.trip).slice(0, pingsUsed);
    best.sort((a, b) => a.offset - b.offset);
    return best[Math.floor(best.length / 2)]?.offset ?? 0;
  }

  /** take stores a playback state from any source, and reports whether it is newer than the known one. */
  take(r: Register): boolean {
    const s = this.state;
    if (s && (r.generation < s.generation || (r.generation === s.generation && r.version <= s.version))) return false;
    this.state = r;
    return true;
  }

  /** position returns the room's position in ms. */
  position(now: number): number {
    const s = this.state;
    if (!s) return 0;
    const since = now + this.offset() - s.server_time;
    return s.paused || since < 0 ? s.position : s.position + since * s.rate;
  }

  /** correct returns the instruction for a player at a position in ms. Call it a few times a second. */
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
