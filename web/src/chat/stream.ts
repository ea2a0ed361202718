// The messages of an open chat: bubbles, lines of days, and the line before the new ones.

import type { Message, Outgoing, Transfer } from "@stoa-dev/client";
import { h } from "../dom";
import { c } from "../texts/chats";
import { drawBubble, drawHappening, type Author, type Bubble, type Doings, type Quoted, type Tick } from "./bubble";
import { happened, mentioned } from "./preview";
import { groupOf } from "./groups";
import { Scroller } from "./scroller";
import { nameIn, placeOf, type Talk } from "./talk";
import { drawSending, drawTransfer, showProgress, showSent, transferRow } from "./transfer";
import { dayLine, dayOf } from "./when";

const TOGETHER = 5 * 60_000; // ms within which messages of one sender form a group

export class Stream {
  readonly list = h("ol", { class: "messages" });
  readonly el = h(
    "div",
    {
      class: "stream",
      role: "log",
      "aria-live": "off",
      tabindex: 0,
      "aria-label": c.messages,
      onkeydown: (e: KeyboardEvent) => this.#walk(e),
    },
    this.list,
  );
  readonly scroller: Scroller;
  newFrom = 0; // the first message that was new on arrival; 0 for none

  #drawn = new Map<string, { text: string; row: HTMLElement }>();
  #quotes = new Map<number, Quoted | "gone">();
  #asked = new Set<number>();

  constructor(
    private readonly chat: string,
    private readonly talk: Talk,
    private readonly on: Doings & { leave: () => void; load: (way: "older" | "newer") => void; moved: () => void },
  ) {
    this.scroller = new Scroller(this.el, this.list, {
      top: () => on.load("older"),
      bottom: () => on.load("newer"),
      moved: () => on.moved(),
    });
  }

  /** Draws the present state. */
  draw(stick: boolean): void {
    const { chats } = this.talk.line;
    const messages = chats.messages(this.chat);
    const state = chats.get(this.chat);
    const rows: HTMLElement[] = [];
    const next = new Map<string, { text: string; row: HTMLElement }>();
    const focused = document.activeElement;
    const place = (key: string, text: string, make: () => HTMLElement) => {
      const old = this.#drawn.get(key);
      const kept = old?.text === text ? old : { text, row: make() };
      next.set(key, kept);
      rows.push(kept.row);
      if (old && old !== kept && old.row.contains(focused)) moveFocus(old.row, focused as HTMLElement, kept.row);
    };
    const line = (key: string, cls: string, text: string) =>
      place(key, text, () => h("li", { class: cls }, h("span", {}, text)));

    let day = "";
    let before: { from: string; at: number } | undefined;
    const lines = (from: string, at: number, seq: number) => {
      if (dayOf(at) !== day) {
        day = dayOf(at);
        line(`day ${day}`, "day", dayLine(at));
        before = undefined;
      }
      if (this.newFrom > 0 && seq >= this.newFrom && !next.has("new") && from !== this.talk.me.id) {
        line("new", "newline", c.newFromHere);
        before = undefined;
      }
    };
    const happens = (m: Message) => {
      lines(m.from, Date.parse(m.at), m.seq);
      before = undefined;
      place(`${m.seq}`, happened(m, this.talk, this.chat), () => drawHappening(m, this.talk));
    };
    const add = (
      from: string,
      at: number,
      bubble: Omit<Bubble, "follows" | "own" | "chat" | "author" | "names" | "forMe">,
    ) => {
      lines(from, at, bubble.seq);
      const own = from === this.talk.me.id;
      const forMe = !own && !bubble.message?.recalled && this.talk.line.groups.mentionsMe(bubble.message?.mentions);
      const names = mentioned((bubble.message ?? bubble.out?.body)?.mentions, this.talk, groupOf(this.chat));
      const b: Bubble = {
        ...bubble,
        chat: this.chat,
        own,
        forMe,
        names,
        author: own ? undefined : this.#author(from),
        follows: before?.from === from && at - before.at < TOGETHER,
      };
      before = { from, at };
      // The names of quoted and reacting users may be loaded after the message.
      const others = [
        ...(typeof b.quote === "object" ? [b.quote.from] : []),
        ...(b.message?.reactions ?? []).flatMap((r) => r.users),
      ];
      const named = others.map((user) => nameIn(this.talk, user, groupOf(this.chat)));
      place(b.key, JSON.stringify([b, named]), () => drawBubble(b, this.talk, this.on));
    };
    const files = groupOf(this.chat) ? [] : this.talk.line.files.with(placeOf(this.chat));
    const file = (f: Transfer) => {
      lines(f.from, Date.parse(f.created), 0);
      before = undefined;
      const r = transferRow(f, this.talk.line.files, this.talk.me.id);
      place(`file ${f.id}`, JSON.stringify(r), () => drawTransfer(r, this.talk));
      showProgress(rows.at(-1)!, f, this.talk.line.files);
    };
    // Files are ordered by time among the messages, in the loaded range.
    const filesUntil = (at: number) => {
      while (files[0] && Date.parse(files[0].created) < at) file(files.shift()!);
    };
    if (chats.hasOlder(this.chat) && messages[0])
      while (files[0] && Date.parse(files[0].created) < Date.parse(messages[0].at)) files.shift();
    const quote = (seq: number | undefined) => (seq ? this.#quote(seq, messages) : undefined);
    for (const m of messages) {
      const own = m.from === this.talk.me.id;
      filesUntil(Date.parse(m.at));
      if (m.system) {
        happens(m);
        continue;
      }
      // The client_id is the key, so that a sent message keeps its bubble.
      add(m.from, Date.parse(m.at), {
        key: m.client_id ?? `${m.seq}`,
        seq: m.seq,
        tick: own && !m.recalled ? far(m.seq, state) : undefined,
        message: m,
        out: undefined,
        quote: quote(m.reply_to),
      });
    }
    if (!chats.hasNewer(this.chat)) filesUntil(Infinity);
    if (!chats.hasNewer(this.chat))
      for (const out of chats.pending(this.chat))
        add(this.talk.me.id, out.at, {
          key: out.body.client_id,
          seq: 0,
          tick: outTick(out),
          message: undefined,
          out,
          quote: quote(out.body.reply_to),
        });
    const there = new Set(messages.map((m) => m.client_id));
    for (const of of chats.hasNewer(this.chat) ? [] : this.talk.line.files.sending(this.chat)) {
      if (there.has(of.key)) continue;
      lines(this.talk.me.id, of.at, 0);
      place(`sending ${of.key}`, String(of.fault), () => drawSending(of, this.talk));
      showSent(rows.at(-1)!, of);
    }
    this.#drawn = next;
    this.scroller.set(rows, stick);
  }

  /** Updates a quoted message; m is undefined if it is no longer visible. */
  takeQuote(seq: number, m: Message | undefined): void {
    if (this.#quotes.has(seq)) this.#quotes.set(seq, m ? brief(m) : "gone");
  }

  /** Scrolls a message into the middle, and moves the focus to it. */
  show(seq: number): boolean {
    const row = this.list.querySelector<HTMLElement>(`[data-seq="${seq}"]`);
    if (!row) return false;
    row.scrollIntoView({ block: "center" });
    row.focus({ preventScroll: true });
    row.classList.remove("found-here");
    void row.offsetWidth; // restarts the animation
    row.classList.add("found-here");
    return true;
  }

  /** Scrolls to the line before the new messages. */
  showNew(): void {
    this.list.querySelector(".newline")?.scrollIntoView({ block: "start" });
  }

  /** Moves the focus to the last message. */
  focusLast(): void {
    ([...this.list.querySelectorAll<HTMLElement>(".message")].at(-1) ?? this.el).focus();
  }

  // #author returns the author of a message in a group.
  #author(user: string): Author | undefined {
    const group = groupOf(this.chat);
    if (!group) return undefined;
    const { groups } = this.talk.line;
    return {
      name: nameIn(this.talk, user, group),
      role: groups.member(group, user)?.role ?? "member",
      profile: groups.profile(group, user),
    };
  }

  // #quote returns the content of a quoted message. If it is not loaded, it is requested once.
  #quote(seq: number, here: readonly Message[]): Quoted | "gone" | undefined {
    const m = here.find((m) => m.seq === seq);
    if (m) this.#quotes.set(seq, brief(m));
    if (this.#quotes.has(seq) || this.#asked.has(seq)) return this.#quotes.get(seq);
    this.#asked.add(seq);
    this.talk.line.chats
      .message(this.chat, seq)
      .then((m) => {
        this.#quotes.set(seq, m ? brief(m) : "gone");
        this.draw(this.scroller.atEnd);
      })
      .catch(() => this.#asked.delete(seq)); // the next drawing retries
    return undefined;
  }

  // The arrow keys move from message to message; Enter opens the menu of one.
  #walk(e: KeyboardEvent): void {
    const all = [...this.list.querySelectorAll<HTMLElement>(".message")];
    const at = all.indexOf(document.activeElement as HTMLElement);
    const on = document.activeElement;
    if (at < 0 && on !== this.el) return;
    const to = {
      ArrowUp: at < 0 ? all.length - 1 : at - 1,
      ArrowDown: at < 0 ? all.length : at + 1,
      Home: 0,
      End: all.length - 1,
    }[e.key];
    if (to !== undefined) {
      e.preventDefault();
      if (to >= all.length) return this.on.leave();
      all[Math.max(0, to)]?.focus();
    } else if (e.key === "Enter" && at >= 0) {
      e.preventDefault();
      all[at]!.querySelector<HTMLElement>(".more")?.click();
    } else if (e.key === "Escape") this.on.leave();
  }
}

const brief = ({ from, kind, text, media, location, card, custom, system, recalled }: Message): Quoted => ({
  ...{ from, kind },
  ...(text !== undefined && { text }),
  ...(media && { media }),
  ...(location && { location }),
  ...(card && { card }),
  ...(custom && { custom }),
  ...(system && { system }),
  ...(recalled && { recalled }),
});

function far(seq: number, state: { peer_read?: number; peer_got?: number } | undefined): Tick {
  if (seq <= (state?.peer_read ?? 0)) return "read";
  return seq <= (state?.peer_got ?? 0) ? "delivered" : "sent";
}

const outTick = ({ state }: Outgoing): Tick => state;

// moveFocus moves the focus from a row to its new version.
function moveFocus(old: HTMLElement, focused: HTMLElement, row: HTMLElement): void {
  const controls = (el: HTMLElement) => [el, ...el.querySelectorAll<HTMLElement>("button, a")];
  const at = controls(old).indexOf(focused);
  queueMicrotask(() => (controls(row)[at] ?? row).focus({ preventScroll: true }));
}
