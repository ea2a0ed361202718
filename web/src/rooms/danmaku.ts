// Danmaku over the video. Each has a lane, so that none covers another of its mode. No component renders them, because
// each one is measured, animated and removed on its own.

import type { Danmaku as Comment, DanmakuList } from "@stoa-dev/client";
import { h } from "../dom";
import { storage } from "../storage";
import type { Seat } from "./seat";

const STORE = "stoa.danmaku";
const FLIGHT = 8000; // ms from one edge to the other
const STANDS = 5000; // ms that a danmaku at the top or the bottom is shown
const WAITS = 6000; // ms that a danmaku waits for a lane before it is dropped
const LOOK = 150; // ms between two searches for a lane
const MOST = 120; // danmaku at the same time
const CHUNK = 30_000; // ms of an item whose danmaku are loaded in one request
const JUMP = 2000; // ms between two positions that count as a jump
const SCALES = { small: 0.8, normal: 1, large: 1.35 };
const GAP = 24; // px between two in a lane

// Times in ms, by clock.
interface Lane {
  entered: number; // when the last one is completely visible
  gone: number; // when the last one has left
}

interface Waiting {
  comment: Comment;
  since: number;
}

interface Kept {
  on: boolean;
  opacity: number; // 0.1 to 1
}

function kept(): Kept {
  try {
    const k = JSON.parse(storage.getItem(STORE) ?? "") as Kept;
    return { on: k.on !== false, opacity: Math.min(1, Math.max(0.1, Number(k.opacity) || 0.9)) };
  } catch {
    return { on: true, opacity: 0.9 };
  }
}

export class Danmaku {
  /** The number of clears: responses to requests from before the last one are ignored. */
  clears = 0;
  // Screen readers have the chat, because moving text cannot be read at the user's own speed.
  readonly el = h("div", { class: "danmaku", "aria-hidden": "true" });

  #kept = kept();
  #lanes: Record<Comment["mode"], Lane[]> = { scroll: [], top: [], bottom: [] };
  #waiting: Waiting[] = [];
  #looking: ReturnType<typeof setTimeout> | undefined;
  #item = "";
  #last = -1; // the last position, ms
  #chunks = new Map<number, Comment[] | "asked">();
  #flown = new Map<string, number>(); // the time of each live danmaku
  readonly #still = matchMedia("(prefers-reduced-motion: reduce)");

  constructor(private readonly seat: Seat) {
    this.#show();
  }

  get on(): boolean {
    return this.#kept.on;
  }

  get opacity(): number {
    return this.#kept.opacity;
  }

  /** Shows or hides danmaku, or sets their opacity. This device stores the choice. */
  set(change: Partial<Kept>): void {
    this.#kept = { ...this.#kept, ...change };
    storage.setItem(STORE, JSON.stringify(this.#kept));
    if (!this.#kept.on) this.clear();
    this.#show();
  }

  #show(): void {
    this.el.hidden = !this.#kept.on;
    this.el.style.opacity = String(this.#kept.opacity);
  }

  /** Removes the visible danmaku, and those that were loaded for the item. */
  clear(): void {
    this.clears++;
    this.el.replaceChildren();
    this.#lanes = { scroll: [], top: [], bottom: [] };
    this.#waiting = [];
    this.#chunks.clear();
  }

  /** Starts another item. */
  load(item: string): void {
    this.#item = item;
    this.#last = -1;
    this.#chunks.clear();
  }

  close(): void {
    clearTimeout(this.#looking);
    this.clear();
  }

  /** Shows a danmaku that was sent just now. */
  live(comment: Comment): void {
    const now = performance.now();
    for (const [id, at] of this.#flown) if (now - at > 2 * FLIGHT) this.#flown.delete(id);
    if (this.#flown.has(comment.id)) return;
    this.#flown.set(comment.id, now);
    this.fly(comment);
  }

  /** Shows the danmaku of this position. Call it a few times a second during the playback. */
  at(position: number): void {
    const from = this.#last;
    this.#last = position;
    if (!this.on || !this.#item || from < 0 || position < from || position - from > JUMP)
      return void this.#read(position);
    for (const chunk of [Math.floor(from / CHUNK), Math.floor(position / CHUNK)].filter(
      (c, i, all) => all.indexOf(c) === i,
    )) {
      const comments = this.#chunks.get(chunk);
      if (comments === undefined || comments === "asked") continue;
      for (const c of comments) if (c.position > from && c.position <= position && !this.#flown.has(c.id)) this.fly(c);
    }
    this.#read(position);
  }

  #read(position: number): void {
    if (!this.on || !this.#item) return;
    const item = this.#item;
    const asked = this.clears;
    const chunk = Math.floor(position / CHUNK);
    const next = position % CHUNK > CHUNK - 5000 ? chunk + 1 : chunk;
    for (const c of [chunk, next]) {
      if (this.#chunks.has(c)) continue;
      this.#chunks.set(c, "asked");
      this.seat.ask<DanmakuList>(`/danmaku?item=${item}&from=${c * CHUNK}&to=${(c + 1) * CHUNK}&limit=200`).then(
        (got) => item === this.#item && asked === this.clears && this.#chunks.set(c, got.danmaku),
        () => this.#chunks.delete(c), // the next call retries
      );
    }
  }

  /** Shows one danmaku in the first free lane, now or a little later. */
  fly(comment: Comment): void {
    if (!this.on || !this.el.isConnected || this.el.childElementCount + this.#waiting.length >= MOST) return;
    if (!this.#place(comment)) {
      this.#waiting.push({ comment, since: performance.now() });
      this.#lookLater();
    }
  }

  #lookLater(): void {
    if (this.#looking !== undefined || this.#waiting.length === 0) return;
    this.#looking = setTimeout(() => {
      this.#looking = undefined;
      const now = performance.now();
      this.#waiting = this.#waiting.filter(({ comment, since }) => now - since < WAITS && !this.#place(comment));
      this.#lookLater();
    }, LOOK);
  }

  #place(c: Comment): boolean {
    const { clientWidth: width, clientHeight: height } = this.el;
    if (width === 0 || document.hidden) return true; // no viewer sees it
    const base = Math.min(28, Math.max(14, height / 15));
    const line = Math.ceil(base * SCALES.large * 1.3);
    const count = Math.max(1, Math.floor((height * 0.85) / line));
    const el = h("span", { class: luminance(c.color) < 0.2 ? "flying dark" : "flying" }, c.text);
    el.style.color = `#${c.color.toString(16).padStart(6, "0")}`;
    el.style.fontSize = `${base * SCALES[c.size]}px`;
    this.el.append(el);
    const still = this.#still.matches || c.mode !== "scroll";
    // With reduced motion, scrolling danmaku are shown at the top without movement.
    const lanes = this.#lanes[still && c.mode === "scroll" ? "top" : c.mode];
    const now = clock();
    const wide = el.offsetWidth + GAP;
    const speed = (width + wide) / FLIGHT; // px per ms
    const fits = (lane: Lane | undefined) =>
      !lane || (still ? lane.gone <= now : lane.entered <= now && now + width / speed >= lane.gone);
    const at = Array.from({ length: count }, (_, i) => i).find((i) => fits(lanes[i]));
    if (at === undefined) {
      el.remove();
      return false;
    }
    el.dataset["lane"] = String(at);
    lanes[at] = still ? { entered: now, gone: now + STANDS } : { entered: now + wide / speed, gone: now + FLIGHT };
    if (c.mode === "bottom") el.style.bottom = `${at * line + 4}px`;
    else el.style.top = `${at * line + 4}px`;
    el.classList.toggle("still", still);
    const flight = still
      ? el.animate([{ opacity: 1 }, { opacity: 1 }], { duration: STANDS })
      : el.animate([{ transform: `translateX(${width}px)` }, { transform: `translateX(${-wide}px)` }], {
          duration: FLIGHT,
        });
    // by default it starts with the next frame, later than its lane assumes
    flight.startTime = now;
    flight.onfinish = () => el.remove();
    return true;
  }
}

/** The clock of the document's animations, in ms. It stops while the browser draws no frames. */
function clock(): number {
  const now = document.timeline.currentTime;
  return typeof now === "number" ? now : performance.now();
}

function luminance(colour: number): number {
  return (0.2126 * (colour >> 16) + 0.7152 * ((colour >> 8) & 255) + 0.0722 * (colour & 255)) / 255;
}
