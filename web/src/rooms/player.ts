// The player of a room, synchronised with the room.

import {
  PlaybackSync,
  Refused as RefusedOnLine,
  type Playback,
  type PlaybackCommand,
  type Room,
  type RoomItem,
  type RoomItemSource,
} from "@stoa-dev/client";
import { Refused, Unreachable } from "../api";
import { h } from "../dom";
import { r } from "../texts/rooms";
import { sign } from "../chat/icons";
import type { Danmaku } from "./danmaku";
import { Watched } from "./camera";
import type { Seat } from "./seat";

const LOOK = 250; // ms between two checks of the player's position
const ASK_CLOCK = 10_000; // ms
const FIRST = 12; // requests for the clock at the start
const LOAD_AGAIN = 3000; // ms until the source of a video is requested again
const BREAKS = 4; // the largest number of consecutive reloads of an item with errors
const BREAK_PAUSE = 1000; // ms before the second reload, doubled each time
const CALM = 60_000; // ms without an error until the count starts again
const AGAIN = 1000; // ms between two seeks, so that the video can load in between
const BUFFERING = 5000; // ms between two reports that this player buffers
const END_AGAIN = 3000; // ms until an end without a next item is reported again, doubled each time
const END_LONGEST = 30_000; // ms
const RATES = [0.5, 0.75, 1, 1.25, 1.5, 2];
const STEP = 5000; // ms per press of an arrow key

/** Formats a position: 75 s are 1:15. */
export function clockOf(ms: number): string {
  const s = Math.max(0, Math.floor(ms / 1000));
  const two = (n: number) => String(n).padStart(2, "0");
  const hours = Math.floor(s / 3600);
  return hours > 0
    ? `${hours}:${two(Math.floor((s % 3600) / 60))}:${two(s % 60)}`
    : `${Math.floor(s / 60)}:${two(s % 60)}`;
}

export class Player {
  readonly el: HTMLElement;
  readonly video = h("video", { playsinline: true, preload: "auto", "aria-label": r.player });

  readonly #sync = new PlaybackSync(40, 1000);
  readonly #note = h("p", { class: "stage-note", role: "status" });
  readonly #play = h("button", { type: "button", class: "round", onclick: () => this.#toggle() });
  readonly #next = h(
    "button",
    { type: "button", class: "round", "aria-label": r.next, title: r.next, onclick: () => void this.#loadNext() },
    sign("next"),
  );
  readonly #seek = h("input", {
    type: "range",
    class: "seek",
    min: 0,
    max: 1000,
    step: 100,
    "aria-label": r.position,
    oninput: () => this.#preview(),
    onchange: () => this.#seekTo(Number(this.#seek.value)),
  });
  readonly #time = h("span", { class: "time" });
  readonly #rate = h(
    "select",
    { "aria-label": r.rate, onchange: () => void this.command({ do: "rate", rate: Number(this.#rate.value) }) },
    ...RATES.map((value) => h("option", { value }, r.rateOf(value))),
  );
  readonly #sound = h("button", {
    type: "button",
    class: "round",
    onclick: () => ((this.video.muted = !this.video.muted), this.#draw()),
  });
  readonly #full = h(
    "button",
    {
      type: "button",
      class: "round",
      "aria-label": r.fullscreen,
      title: r.fullscreen,
      onclick: () => void (document.fullscreenElement ? document.exitFullscreen() : this.#stage.requestFullscreen()),
    },
    sign("wide"),
  );
  readonly #stage: HTMLElement;
  readonly #controls: HTMLElement;

  #state: Playback | undefined;
  #room: Room | undefined;
  #items: RoomItem[] = [];
  #place = 0; // the present item's last index in the playlist
  #may = false;
  #item = ""; // the item of the video; "?" if its source is unknown
  #loaded = false; // its metadata has arrived
  #broken = { at: 0, times: 0 }; // the time of the last error, and the number of consecutive ones
  #timer: ReturnType<typeof setInterval> | undefined;
  #clock: ReturnType<typeof setInterval>;
  #jumped = 0;
  #dragged = false;
  #waits = false;
  #told: ReturnType<typeof setInterval> | undefined;
  #end = { of: "", next: 0, pause: 0 }; // the generation and version of the reported end, and the time of the next report
  #gone = false;
  #live: Watched | undefined; // set if the item is a live stream
  #onAir = false; // its picture arrives
  #removed = ""; // a present item that is no longer on the playlist
  /** The live item that this device publishes. Its sound is muted here. */
  own = "";

  constructor(
    private readonly seat: Seat,
    private readonly danmaku: Danmaku,
    private readonly failed: (err: unknown) => void,
  ) {
    const { video } = this;
    this.#stage = h("div", { class: "stage" }, video, danmaku.el, this.#note);
    this.#controls = h(
      "div",
      { class: "controls" },
      this.#play,
      this.#next,
      this.#seek,
      this.#time,
      this.#rate,
      this.#sound,
      this.#full,
    );
    this.el = h(
      "section",
      { class: "player", "aria-label": r.player, onkeydown: (e: KeyboardEvent) => this.#key(e) },
      this.#stage,
      this.#controls,
    );
    this.#full.hidden = !document.fullscreenEnabled;
    video.addEventListener("loadedmetadata", () => ((this.#loaded = true), this.#apply()));
    video.addEventListener("durationchange", () => this.#draw());
    for (const name of ["canplay", "playing"])
      video.addEventListener(name, () => (this.#buffers(false), this.#apply()));
    video.addEventListener("waiting", () => this.#buffers(true));
    video.addEventListener("ended", () => void this.#tellEnd());
    video.addEventListener("error", () => this.#broke());
    video.addEventListener("click", () => this.#toggle());
    this.#clock = setInterval(() => !document.hidden && void this.#askClock(), ASK_CLOCK);
    void (async () => {
      for (let i = 0; i < FIRST && !this.#gone; i++) await this.#askClock();
      this.#apply();
    })();
    this.#draw();
  }

  close(): void {
    this.#gone = true;
    clearInterval(this.#timer);
    clearInterval(this.#clock);
    clearInterval(this.#told);
    this.danmaku.close();
    this.#live?.close();
    this.video.removeAttribute("src");
    this.video.load();
  }

  /** The present item, and the room's position in it in ms. */
  get moment(): { item: string; position: number } {
    return { item: this.#state?.item ?? "", position: Math.max(0, Math.round(this.#where())) };
  }

  /** Sets the room, and whether the caller may control it. */
  room(room: Room, may: boolean): void {
    this.#room = room;
    [this.#sync.drift, this.#sync.jump] = [room.drift, room.jump];
    this.#may = may;
    this.#draw();
  }

  items(items: RoomItem[]): void {
    const at = this.#items.findIndex((i) => i.id === this.#state?.item);
    if (at >= 0) this.#place = at;
    this.#items = items;
    if (this.#live && !items.some((i) => i.id === this.#item)) this.#endRemoved();
    this.#draw();
  }

  /** Applies a playback state from any source. */
  take(state: Playback): void {
    const broken = this.#item === "?" || this.video.error !== null;
    if (this.#sync.take(state)) this.#state = state;
    else if (!broken) return;
    const { item = "", paused } = this.#state!;
    if (broken || item !== this.#item) void this.#load(item);
    else this.#apply();
    if (paused) (clearInterval(this.#timer), (this.#timer = undefined));
    else this.#timer ??= setInterval(() => this.#look(), LOOK);
    this.#draw();
  }

  /** Sends a command of the caller. If the state has just changed, the command is sent again. */
  async command(what: Pick<PlaybackCommand, "do"> & Partial<PlaybackCommand>): Promise<void> {
    for (let again = false; ; again = true) {
      const { generation = 0, version = 0 } = this.#state ?? {};
      try {
        return this.take(
          await this.seat.ask<Playback>("/playback", { method: "POST", body: { generation, version, ...what } }),
        );
      } catch (err) {
        if (
          again ||
          !(err instanceof Refused || err instanceof RefusedOnLine) ||
          codeOf(err) !== "room.playback_changed"
        ) {
          this.#draw(); // reset the controls
          return this.failed(err);
        }
        try {
          this.take(await this.seat.ask<Playback>("/playback"));
        } catch (err) {
          return this.failed(err);
        }
      }
    }
  }

  async #askClock(): Promise<void> {
    const sent = Date.now();
    try {
      const { time } = await this.seat.client.call("rooms.clock");
      this.#sync.clock(sent, Date.now(), time);
    } catch {
      // The known clock is sufficient until the connection is back.
    }
  }

  async #load(item: string): Promise<void> {
    const { video } = this;
    if (item !== this.#item) this.#broken.times = 0;
    this.#item = item;
    this.#loaded = false;
    this.danmaku.load(item);
    this.#buffers(false);
    this.#say("");
    this.#live?.close();
    this.#live = undefined;
    this.#onAir = false;
    video.removeAttribute("src");
    video.load();
    if (!item) return;
    const find = () => this.seat.ask<RoomItemSource>(`/playlist/${item}/source`);
    if (this.#items.find((i) => i.id === item)?.kind === "live") return this.#watch(item, find);
    try {
      const source = await find();
      if (this.#item !== item || this.#gone) return;
      if (source.kind === "live") return this.#watch(item, find);
      if (source.url) video.src = source.url;
      else this.#say(r.cannotPlay);
    } catch (err) {
      if (this.#item === item) {
        if (err instanceof Refused && err.problem.status === 404) return this.#endRemoved();
        this.#item = "?"; // the next playback state loads it again
        if (err instanceof Unreachable || (err instanceof Refused && err.problem.status === 503))
          setTimeout(() => !this.#gone && this.#item === "?" && void this.#load(this.#state?.item ?? ""), LOAD_AGAIN);
        this.failed(err);
      }
    }
  }

  // #watch shows a live stream. It has no seeking: all viewers see the newest picture.
  #watch(item: string, find: () => Promise<RoomItemSource>): void {
    if (item === this.own) this.video.muted = true;
    this.#live = new Watched(
      this.video,
      find,
      (waits) => {
        if (this.#item !== item) return;
        this.#onAir = !waits;
        this.#say(waits ? r.live.waits : "");
        this.#drawTime();
      },
      (err) => {
        if (this.#item !== item) return;
        if (err instanceof Refused && err.problem.status === 404) return this.#endRemoved();
        this.#say(r.cannotPlay);
        this.failed(err);
      },
    );
    this.#draw();
  }

  // #broke reloads a video after an error: its link may have expired, or the connection was cut. It waits longer after
  // each consecutive error, and then gives up.
  #broke(): void {
    if (!this.video.hasAttribute("src")) return;
    const at = performance.now();
    const times = at - this.#broken.at > CALM ? 1 : this.#broken.times + 1;
    this.#broken = { at, times };
    if (!this.#loaded || this.video.error?.code === MediaError.MEDIA_ERR_DECODE || times > BREAKS)
      return this.#say(r.cannotPlay);
    const item = this.#item;
    const again = () => this.#gone || this.#item !== item || !this.video.error || void this.#load(item);
    if (times === 1) again();
    else setTimeout(again, BREAK_PAUSE * 2 ** (times - 2));
  }

  #endRemoved(): void {
    this.#live?.close();
    this.#live = undefined;
    this.#onAir = false;
    this.#removed = this.#item;
    this.#draw();
  }

  #where(): number {
    return this.#sync.position(Date.now());
  }

  #length(): number {
    const { duration } = this.video;
    if (Number.isFinite(duration) && duration > 0) return duration * 1000;
    return this.#items.find((i) => i.id === this.#item)?.duration ?? 0;
  }

  // #apply sets the video to the state of the room.
  #apply(): void {
    const { video } = this;
    if (
      !this.#state?.item ||
      this.#state.item !== this.#item ||
      video.readyState < HTMLMediaElement.HAVE_METADATA ||
      this.#gone
    )
      return;
    if (this.#live) {
      if (this.#state.paused) video.pause();
      else if (video.paused) void this.#start();
      return;
    }
    const c = this.#sync.correct(Date.now(), video.currentTime * 1000);
    const length = this.#length();
    const to = (length > 0 ? Math.min(c.to, length) : c.to) / 1000;
    const now = performance.now();
    if (
      c.seek &&
      !video.seeking &&
      Math.abs(video.currentTime - to) > 0.001 &&
      (c.paused || now - this.#jumped > AGAIN)
    ) {
      this.#jumped = now;
      video.currentTime = to;
    }
    if (video.playbackRate !== c.rate) video.playbackRate = c.rate;
    if (c.paused) video.pause();
    else if (video.paused && !video.ended) void this.#start();
  }

  async #start(): Promise<void> {
    const { video } = this;
    try {
      await video.play();
    } catch (err) {
      // Browsers allow no sound before the user has acted on the page.
      if (!(err instanceof DOMException) || err.name !== "NotAllowedError" || video.muted) return;
      video.muted = true;
      this.#draw();
      await video.play().catch(() => {});
    }
  }

  #look(): void {
    this.#apply();
    this.danmaku.at(this.#where());
    this.#drawTime();
    if (this.video.ended && this.#where() >= this.#length()) void this.#tellEnd();
  }

  #buffers(waits: boolean): void {
    if (waits && (this.#live || !this.#room?.hold || this.#state?.paused)) return;
    if (waits === this.#waits) return;
    this.#waits = waits;
    clearInterval(this.#told);
    // without a report the room does not wait
    const tell = () =>
      void this.seat.ask("/playback/buffering", { method: "POST", body: { buffering: waits } }).catch(() => {});
    tell();
    if (waits) this.#told = setInterval(tell, BUFFERING);
  }

  // #tellEnd asks for the next item, because the server has no timer for it.
  async #tellEnd(): Promise<void> {
    const s = this.#state;
    if (!s || s.paused || this.#live) return;
    const of = `${s.generation} ${s.version}`;
    const now = performance.now();
    if (this.#end.of !== of) this.#end = { of, next: 0, pause: END_AGAIN };
    const end = this.#end;
    if (now < end.next) return;
    end.next = now + end.pause;
    end.pause = Math.min(END_LONGEST, 2 * end.pause);
    try {
      this.take(
        await this.seat.ask<Playback>("/playback/ended", {
          method: "POST",
          body: { generation: s.generation, version: s.version },
        }),
      );
    } catch {
      // A later check reports it again.
    }
  }

  #toggle(): void {
    if (!this.#may) return;
    if (this.#state?.item) void this.command({ do: this.#state.paused ? "play" : "pause" });
    else void this.#loadNext(); // after the end of the playlist it starts again
  }

  #seekTo(position: number): void {
    this.#dragged = false;
    void this.command({ do: "seek", position: Math.round(position) });
  }

  #preview(): void {
    this.#dragged = true;
    this.#time.textContent = this.#spoken(Number(this.#seek.value));
  }

  async #loadNext(): Promise<void> {
    const at = this.#items.findIndex((i) => i.id === this.#state?.item);
    const next = this.#items[at < 0 ? this.#place : at + 1] ?? this.#items[0];
    if (next) await this.command({ do: "load", item: next.id });
  }

  #key(e: KeyboardEvent): void {
    if (e.target !== this.el && !(e.target instanceof HTMLVideoElement)) return; // buttons handle their own keys
    if (!this.#may || !this.#state?.item || this.#live) return;
    const by = { ArrowLeft: -STEP, ArrowRight: STEP }[e.key];
    if (by !== undefined) this.#seekTo(Math.max(0, this.#where() + by));
    else if (e.key === " ") this.#toggle();
    else return;
    e.preventDefault();
  }

  #say(text: string): void {
    this.#note.textContent = text;
  }

  readonly #spoken = (position: number) => r.at(clockOf(position), clockOf(this.#length()));

  #drawTime(): void {
    if (this.#dragged) return;
    this.#time.className = this.#onAir ? "badge" : "time";
    if (this.#live || this.#state?.item === this.#removed)
      return void (this.#time.textContent = this.#onAir ? r.live.now : "");
    const length = this.#length();
    const at = Math.min(this.#where(), length || Infinity);
    this.#seek.max = String(Math.max(1000, length));
    this.#seek.value = String(at);
    this.#time.textContent = this.#state?.item ? this.#spoken(at) : "";
    this.#seek.setAttribute("aria-valuetext", this.#time.textContent);
  }

  #draw(): void {
    const s = this.#state;
    const plays = s !== undefined && Boolean(s.item) && !s.paused;
    const label = (el: HTMLElement, text: string, shape: Parameters<typeof sign>[0]) => {
      if (el.ariaLabel === text) return;
      el.ariaLabel = el.title = text;
      el.replaceChildren(sign(shape));
    };
    label(this.#play, plays ? r.pause : r.play, plays ? "pause" : "play");
    label(this.#sound, this.video.muted ? r.unmute : r.mute, this.video.muted ? "silent" : "loud");
    this.#sound.classList.toggle("calls", this.video.muted);
    this.#seek.disabled = !this.#may || !s?.item;
    this.#play.disabled = !this.#may || (!s?.item && this.#items.length === 0);
    this.#rate.disabled = !this.#may;
    this.#seek.hidden = this.#rate.hidden =
      this.#live !== undefined || (s?.item !== undefined && s.item === this.#removed);
    this.#next.disabled = !this.#may || this.#items.length === 0;
    this.#rate.value = String(RATES.find((x) => x === s?.rate) ?? 1);
    this.#controls.title = this.#may ? "" : r.onlyOthers;
    if (s?.held) this.#say(this.#may ? `${r.waits} ${r.goOn}` : r.waits);
    else if (s?.item && s.item === this.#removed) this.#say(r.removed);
    else if (s && !s.item) this.#say(this.#may ? `${r.nothing} ${r.nothingHint}` : r.nothing);
    else if (!this.video.error && !this.#live) this.#say("");
    this.#drawTime();
  }
}

const codeOf = (err: Refused | RefusedOnLine) => (err instanceof Refused ? err.problem.code : err.code);
