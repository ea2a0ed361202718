// The player of a room without its elements: the item that it plays, its seeks, and its reports to the server.

import { computed, signal } from "@preact/signals-core";
import {
  PlaybackSync,
  type Playback,
  type PlaybackCommand,
  type Room,
  type RoomItem,
  type RoomItemSource,
} from "@stoa-dev/client";

const CHECK = 250; // ms between two checks of the position
const CLOCK = 10_000; // ms between two requests for the clock
const FIRST = 12; // requests for the clock at the start
const LOAD_AGAIN = 3000; // ms until the source of a video is requested again
const BREAKS = 4; // the largest number of consecutive reloads of an item with errors
const BREAK_PAUSE = 1000; // ms before the second reload, doubled each time
const CALM = 60_000; // ms without an error until the count starts again
const SEEK_AGAIN = 1000; // ms between two seeks, so that the video can load in between
const BUFFERING = 5000; // ms between two reports that this player buffers
const END_AGAIN = 3000; // ms until an end without a next item is reported again, doubled each time
const END_LONGEST = 30_000; // ms
const STEP = 5000; // ms per press of an arrow key
const METADATA = 1; // HTMLMediaElement.HAVE_METADATA
const DECODE = 3; // MediaError.MEDIA_ERR_DECODE

/** Formats a position: 75 s are 1:15. */
export function clockOf(ms: number): string {
  const s = Math.max(0, Math.floor(ms / 1000));
  const two = (n: number) => String(n).padStart(2, "0");
  const hours = Math.floor(s / 3600);
  return hours > 0
    ? `${hours}:${two(Math.floor((s % 3600) / 60))}:${two(s % 60)}`
    : `${Math.floor(s / 60)}:${two(s % 60)}`;
}

/** The element that plays. */
export type Video = Pick<
  HTMLVideoElement,
  | "currentTime"
  | "duration"
  | "ended"
  | "error"
  | "hasAttribute"
  | "load"
  | "muted"
  | "pause"
  | "paused"
  | "play"
  | "playbackRate"
  | "readyState"
  | "removeAttribute"
  | "seeking"
  | "src"
>;

/** The requests of the player, and the kinds of their errors. */
export interface PlayerLoads {
  clock: () => Promise<{ time: number }>;
  source: (item: string) => Promise<RoomItemSource>;
  playback: () => Promise<Playback>;
  command: (body: PlaybackCommand) => Promise<Playback>;
  ended: (of: Pick<Playback, "generation" | "version">) => Promise<Playback>;
  buffering: (buffering: boolean) => Promise<unknown>;
  missing: (err: unknown) => boolean; // the item is no longer on the playlist
  temporary: (err: unknown) => boolean; // a retry may succeed
  outdated: (err: unknown) => boolean; // the command is for an older playback state
}

export interface PlayerListener {
  item: (item: string) => void; // another item is loaded
  position: (ms: number) => void; // a few times a second during the playback
  failed: (err: unknown) => void;
}

/** The place where the player plays. */
export interface Screen {
  video: Video;
  hidden: () => boolean; // the page is hidden
  /** Plays a live stream in the video, and waits for it while it is off air. */
  watch: (
    source: () => Promise<RoomItemSource>,
    waits: (waits: boolean) => void,
    failed: (err: unknown) => void,
  ) => { close: () => void };
}

export class RoomPlayer {
  readonly playback = signal<Playback | undefined>(undefined);
  readonly items = signal<readonly RoomItem[]>([]);
  /** The caller may control the player. */
  readonly mayControl = signal(false);
  /** The item is a live stream. */
  readonly live = signal(false);
  /** The picture of the live stream arrives. */
  readonly onAir = signal(false);
  /** The room's position in the item, and the item's duration. 0 is an unknown duration. */
  readonly time = signal({ position: 0, duration: 0 }); // ms
  readonly plays = computed(() => Boolean(this.playback.value?.item) && !this.playback.value?.paused);
  /** The item is no longer on the playlist. */
  readonly removed = computed(() => Boolean(this.#removed.value) && this.playback.value?.item === this.#removed.value);
  /** The reason why no picture moves; "" if there is none. */
  readonly note = computed(() => {
    const state = this.playback.value;
    if (state?.held) return "held";
    if (this.removed.value) return "removed";
    return state && !state.item ? "empty" : this.#trouble.value;
  });
  /** The live item that this device publishes. Its sound is muted here. */
  own = "";

  readonly #sync = new PlaybackSync(40, 1000);
  readonly #trouble = signal<"" | "broken" | "off air">("");
  readonly #removed = signal("");
  #screen!: Screen;
  #holds = false; // the room waits for players that buffer
  #place = 0; // the present item's last index in the playlist
  #item = ""; // the item of the video; "?" if its source is unknown
  #loaded = false; // its metadata has arrived
  #broken = { at: 0, times: 0 }; // the time of the last error, and the number of consecutive ones
  #timer: ReturnType<typeof setInterval> | undefined;
  #clock: ReturnType<typeof setInterval> | undefined;
  #jumped = -Infinity; // the time of the last seek
  #waits = false; // the video buffers
  #reports: ReturnType<typeof setInterval> | undefined;
  #end = { of: "", next: 0, pause: 0 }; // the generation and version of the reported end, and the time of the next report
  #closed = false;
  #watched: { close: () => void } | undefined; // set if the item is a live stream

  constructor(
    private readonly loads: PlayerLoads,
    private readonly on: PlayerListener,
  ) {}

  /** Starts the player. Call it before any other method. */
  async start(screen: Screen): Promise<void> {
    this.#screen = screen;
    this.#clock = setInterval(() => screen.hidden() || void this.#readClock(), CLOCK);
    for (let i = 0; i < FIRST && !this.#closed; i++) await this.#readClock();
    this.#apply();
  }

  get #video(): Video {
    return this.#screen.video;
  }

  close(): void {
    this.#closed = true;
    for (const timer of [this.#timer, this.#clock, this.#reports]) clearInterval(timer);
    this.#watched?.close();
    this.#video.removeAttribute("src");
    this.#video.load();
  }

  /** The present item, and the room's position in it in ms. */
  get moment(): { item: string; position: number } {
    return { item: this.playback.peek()?.item ?? "", position: Math.max(0, Math.round(this.#position())) };
  }

  /** Sets the room, and whether the caller may control it. */
  room(room: Room, mayControl: boolean): void {
    [this.#sync.drift, this.#sync.jump, this.#holds] = [room.drift, room.jump, room.hold];
    this.mayControl.value = mayControl;
  }

  setItems(items: readonly RoomItem[]): void {
    const at = this.#index();
    if (at >= 0) this.#place = at;
    this.items.value = items;
    if (this.#watched && !items.some((i) => i.id === this.#item)) this.#remove();
    this.show();
  }

  /** Applies a playback state from any source. */
  take(state: Playback): void {
    if (this.#closed) return;
    const broken = this.#item === "?" || this.#video.error !== null;
    if (this.#sync.take(state)) this.playback.value = state;
    const { item = "", paused } = this.playback.peek()!;
    if (broken || item !== this.#item) void this.#load(item);
    else this.#apply();
    clearInterval(this.#timer);
    if (!paused) this.#timer = setInterval(() => this.#check(), CHECK);
    this.show();
  }

  /** Sends a command of the caller. If the state has just changed, the command is sent again. */
  async command(what: Pick<PlaybackCommand, "do"> & Partial<PlaybackCommand>): Promise<void> {
    const send = async () => {
      const { generation = 0, version = 0 } = this.playback.peek() ?? {};
      this.take(await this.loads.command({ generation, version, ...what }));
    };
    try {
      await send().catch(async (err: unknown) => {
        if (!this.loads.outdated(err)) throw err;
        this.take(await this.loads.playback());
        await send();
      });
    } catch (err) {
      this.on.failed(err);
    }
  }

  /** Plays or pauses. After the end of the playlist, it starts again. */
  async toggle(): Promise<void> {
    if (!this.mayControl.peek()) return;
    const state = this.playback.peek();
    if (state?.item) await this.command({ do: state.paused ? "play" : "pause" });
    else await this.next();
  }

  async next(): Promise<void> {
    const items = this.items.peek();
    const at = this.#index();
    const next = items[at < 0 ? this.#place : at + 1] ?? items[0];
    if (next) await this.command({ do: "load", item: next.id });
  }

  seek = (position: number) => this.command({ do: "seek", position: Math.round(position) });

  /** Acts on a key, and reports whether the key has a meaning here. */
  key(key: string): boolean {
    if (!this.mayControl.peek() || !this.playback.peek()?.item || this.#watched) return false;
    const by = { ArrowLeft: -STEP, ArrowRight: STEP }[key];
    if (by !== undefined) void this.seek(Math.max(0, this.#position() + by));
    else if (key === " ") void this.toggle();
    return by !== undefined || key === " ";
  }

  /** The metadata of the video has arrived. */
  loaded(): void {
    this.#loaded = true;
    this.#apply();
  }

  /** The video plays, or can play. */
  ready(): void {
    this.buffers(false);
    this.#apply();
  }

  /** Reports to the server that the video starts or stops to buffer. Without a report, the room does not wait. */
  buffers(waits: boolean): void {
    if (waits && (this.#watched || !this.#holds || this.playback.peek()?.paused)) return;
    if (waits === this.#waits) return;
    this.#waits = waits;
    clearInterval(this.#reports);
    const report = () => void this.loads.buffering(waits).catch(() => {});
    report();
    if (waits) this.#reports = setInterval(report, BUFFERING);
  }

  /** Asks for the next item, because the server has no timer for it. */
  async ended(): Promise<void> {
    const s = this.playback.peek();
    if (!s || s.paused || this.#watched) return;
    const { generation, version } = s;
    const of = `${generation} ${version}`;
    const now = performance.now();
    if (this.#end.of !== of) this.#end = { of, next: 0, pause: END_AGAIN };
    const end = this.#end;
    if (now < end.next) return;
    end.next = now + end.pause;
    end.pause = Math.min(END_LONGEST, 2 * end.pause);
    try {
      this.take(await this.loads.ended({ generation, version }));
    } catch {
      // A later check reports it again.
    }
  }

  /**
   * Reloads the video after an error: its link may have expired, or the connection was cut. It waits longer after each
   * consecutive error, and then gives up.
   */
  broke(): void {
    const video = this.#video;
    if (!video.hasAttribute("src")) return;
    const at = performance.now();
    const times = at - this.#broken.at > CALM ? 1 : this.#broken.times + 1;
    this.#broken = { at, times };
    if (!this.#loaded || video.error?.code === DECODE || times > BREAKS) {
      this.#trouble.value = "broken";
      return;
    }
    const item = this.#item;
    const again = () => this.#closed || this.#item !== item || !video.error || void this.#load(item);
    if (times === 1) again();
    else setTimeout(again, BREAK_PAUSE * 2 ** (times - 2));
  }

  /** Shows the present position. */
  show(): void {
    const duration = this.#duration();
    this.time.value = { position: Math.min(this.#position(), duration || Infinity), duration };
  }

  async #readClock(): Promise<void> {
    const sent = Date.now();
    try {
      const { time } = await this.loads.clock();
      this.#sync.clock(sent, Date.now(), time);
    } catch {
      // The known clock is sufficient until the connection is back.
    }
  }

  async #load(item: string): Promise<void> {
    const video = this.#video;
    if (item !== this.#item) this.#broken.times = 0;
    this.#item = item;
    this.#loaded = false;
    this.on.item(item);
    this.buffers(false);
    this.#endLive();
    this.#trouble.value = "";
    video.removeAttribute("src");
    video.load();
    if (!item) return;
    const find = () => this.loads.source(item);
    if (this.items.peek().find((i) => i.id === item)?.kind === "live") return this.#watch(item, find);
    try {
      const source = await find();
      if (this.#item !== item || this.#closed) return;
      if (source.kind === "live") return this.#watch(item, find);
      if (source.url) video.src = source.url;
      else this.#trouble.value = "broken";
    } catch (err) {
      if (this.#item !== item || this.#closed) return;
      if (this.loads.missing(err)) return this.#remove();
      this.#item = "?"; // the next playback state loads it again
      const again = () => this.#closed || this.#item !== "?" || void this.#load(this.playback.peek()?.item ?? "");
      if (this.loads.temporary(err)) setTimeout(again, LOAD_AGAIN);
      this.on.failed(err);
    }
  }

  // #watch shows a live stream. It has no seeking: all viewers see the newest picture.
  #watch(item: string, find: () => Promise<RoomItemSource>): void {
    if (item === this.own) this.#video.muted = true;
    this.live.value = true;
    this.#watched = this.#screen.watch(
      find,
      (waits) => {
        if (this.#item !== item) return;
        this.onAir.value = !waits;
        this.#trouble.value = waits ? "off air" : "";
      },
      (err) => {
        if (this.#item !== item) return;
        if (this.loads.missing(err)) return this.#remove();
        this.#trouble.value = "broken";
        this.on.failed(err);
      },
    );
  }

  #endLive(): void {
    this.#watched?.close();
    this.#watched = undefined;
    this.live.value = this.onAir.value = false;
  }

  #remove(): void {
    this.#endLive();
    this.#removed.value = this.#item;
  }

  #index(): number {
    return this.items.peek().findIndex((i) => i.id === this.playback.peek()?.item);
  }

  #position(): number {
    return this.#sync.position(Date.now());
  }

  #duration(): number {
    const { duration } = this.#video;
    if (Number.isFinite(duration) && duration > 0) return duration * 1000;
    return this.items.peek().find((i) => i.id === this.#item)?.duration ?? 0;
  }

  // #apply sets the video to the state of the room.
  #apply(): void {
    const video = this.#video;
    const state = this.playback.peek();
    if (!state?.item || state.item !== this.#item || video.readyState < METADATA || this.#closed) return;
    let { paused } = state;
    if (!this.#watched) {
      const c = this.#sync.correct(Date.now(), video.currentTime * 1000);
      const to = Math.min(c.to, this.#duration() || Infinity) / 1000;
      const now = performance.now();
      const far = c.seek && Math.abs(video.currentTime - to) > 0.001;
      if (far && !video.seeking && (c.paused || now - this.#jumped > SEEK_AGAIN)) {
        this.#jumped = now;
        video.currentTime = to;
      }
      if (video.playbackRate !== c.rate) video.playbackRate = c.rate;
      paused = c.paused;
    }
    if (paused) video.pause();
    else if (video.paused && (this.#watched || !video.ended)) void this.#play();
  }

  async #play(): Promise<void> {
    const video = this.#video;
    try {
      await video.play();
    } catch (err) {
      // Browsers allow no sound before the user has acted on the page.
      if (!(err instanceof DOMException) || err.name !== "NotAllowedError" || video.muted) return;
      video.muted = true;
      await video.play().catch(() => {});
    }
  }

  #check(): void {
    this.#apply();
    this.on.position(this.#position());
    this.show();
    if (this.#video.ended && this.#position() >= this.#duration()) void this.ended();
  }
}
