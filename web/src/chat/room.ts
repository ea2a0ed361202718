// The open chat.

import type { Message, Transfer } from "@stoa-dev/client";
import { now } from "../api";
import { ago } from "../days";
import { h, icon, put } from "../dom";
import { c } from "../texts/chats";
import { g } from "../texts/groups";
import { sign } from "./icons";
import { Composer } from "./composer";
import { preview } from "./preview";
import { messageMenu } from "./doings";
import { groupOf } from "./groups";
import { openMenu, type Item } from "./menu";
import { Panel } from "./panel";
import { Strips } from "./strips";
import { Stream } from "./stream";
import { explain, faceOf, isMuted, nameIn, placeOf, profileOf, titleOf, type Talk } from "./talk";
import { says, transferRow } from "./transfer";
import { untilWords } from "./when";

const FOREVER = "9999-01-01T00:00:00Z";
const AGAIN = 3000; // ms until a failed opening is retried

export class Room {
  readonly el: HTMLElement;
  readonly group: string; // "" in a chat of two
  readonly user: string; // the peer; "" in a group

  readonly #title = h("h2", { tabindex: -1 });
  readonly #picture = h("span", { class: "room-face" });
  readonly #status = h("p", { class: "muted", role: "status" });
  readonly #note = h("p", { class: "room-note", role: "status", hidden: true });
  readonly #heard = h("p", { class: "sr", role: "status" }); // the text for screen readers
  readonly #empty = h("p", { class: "empty", hidden: true });
  readonly #newest: HTMLButtonElement;
  readonly #stream: Stream;
  readonly #composer: Composer;
  readonly #strips: Strips | undefined;
  readonly #offer = h("input", { type: "file", hidden: true, name: "offer", onchange: () => void this.#offerFile() });
  readonly #asking = h("span", { id: "asking", class: "badge", "data-requests": "", hidden: true });
  #panel: Panel | undefined;
  #ready = false;
  #loading = false;
  #closed = false;
  #stick = true; // the view is at the end, and follows it

  constructor(
    readonly chat: string,
    private readonly talk: Talk,
    at = 0, // the message to show
  ) {
    this.group = groupOf(chat);
    this.user = this.group ? "" : placeOf(chat);
    const doings = {
      menu: (b: Parameters<typeof messageMenu>[1], opener: HTMLElement) =>
        messageMenu(this.chat, b, opener, talk, {
          reply: (m) => this.#composer.begin(m, false),
          edit: (m) => this.#composer.begin(m, true),
          said: (text) => this.say(text),
          pinned: (seq) => this.#strips?.pinned(seq) ?? false,
        }),
      goTo: (seq: number) => void this.goTo(seq),
      react: (seq: number, emoji: string, on: boolean) =>
        void talk.line.chats.react(this.chat, seq, emoji, on).catch(talk.failed),
      retry: (id: string) => talk.line.chats.retry(id),
      discard: async (id: string) => {
        await talk.line.chats.discard(id);
        this.draw();
        this.#composer.field.focus();
      },
      leave: () => this.focus(),
      load: (way: "older" | "newer") => void this.#load(way),
      moved: () => this.#moved(),
    };
    this.#stream = new Stream(this.chat, talk, doings);
    this.#composer = new Composer(this.chat, talk, {
      sent: () => void this.#toNewest(),
      up: () => this.#stream.focusLast(),
      file: (file) => talk.line.files.send(chat, file),
      voice: (r) => talk.line.files.send(chat, r.file, "voice", { duration_ms: r.duration, waveform: r.waveform }),
    });
    this.#newest = h(
      "button",
      { type: "button", class: "newest", hidden: true, onclick: () => void this.#toNewest() },
      sign("down"),
      h("span", {}),
    );
    if (this.group)
      this.#strips = new Strips(this.group, talk, { goTo: (seq) => void this.goTo(seq), fill: () => this.draw() });
    const about: HTMLButtonElement | null = this.group
      ? h(
          "button",
          {
            type: "button",
            class: "round about",
            "aria-expanded": "false",
            "aria-label": g.about,
            "aria-describedby": "asking",
            title: g.about,
            onclick: () => this.#about(about!),
          },
          sign("people"),
          this.#asking,
        )
      : null;
    const opener: HTMLButtonElement = h(
      "button",
      {
        type: "button",
        class: "round",
        "aria-haspopup": "menu",
        "aria-label": c.options,
        onclick: () => this.#options(opener),
      },
      sign("more"),
    );
    this.el = h(
      "section",
      { class: "room", "aria-label": (this.group ? g.with : c.with)(titleOf(talk, chat)), "data-chat": placeOf(chat) },
      h(
        "header",
        { class: "room-head" },
        h("a", { class: "round back", href: "#/chats", "aria-label": c.back }, icon("left")),
        this.#picture,
        h("div", { class: "room-who" }, this.#title, this.#status),
        about,
        this.#offer,
        opener,
      ),
      this.#note,
      this.#strips?.el ?? null,
      h("div", { class: "room-body" }, this.#empty, this.#stream.el, this.#newest),
      this.#heard,
      this.#composer.el,
    );
    if (this.group) void talk.line.groups.want(this.group).catch(() => {}); // the next connection retries
    this.catchUp();
    this.#head();
    void this.#open(at);
  }

  /** Moves the focus to the field. If that would open a keyboard on the screen, the heading gets it. */
  focus(): void {
    if (matchMedia("(pointer: coarse)").matches) this.#title.focus({ preventScroll: true });
    else this.#composer.field.focus({ preventScroll: true });
  }

  /** Loads states that events may have missed. */
  catchUp(): void {
    if (this.user) void this.talk.line.presences.ask(this.user);
  }

  close(): void {
    this.#closed = true;
    this.#panel?.close();
    this.#strips?.close();
    this.#composer.close();
    this.talk.line.chats.close(this.chat);
  }

  say(text: string): void {
    this.#heard.textContent = text;
  }

  /** Handles a new message. */
  arrived(m: Message): void {
    if (m.system) this.#strips?.happened(m.system.event);
    if (m.from === this.talk.me.id) return void (this.#stream.newFrom = 0);
    const known = this.group ? this.talk.line.groups.meet(this.group, m.from) : Promise.resolve();
    void known.then(() =>
      this.say(
        (m.system ? "" : c.says(nameIn(this.talk, m.from, this.group)) + " ") + preview(m, this.talk, this.chat),
      ),
    );
    if (this.#stream.newFrom === 0 && (document.visibilityState !== "visible" || !this.#stick))
      this.#stream.newFrom = m.seq;
  }

  /** Handles the progress of a file. */
  transferred(f: Transfer): void {
    if (this.user && (f.from === this.user || f.to === this.user))
      this.say(`${f.name}: ${says(transferRow(f, this.talk.line.files, this.talk.me.id), this.talk)}`);
  }

  /** Handles a changed message; m is undefined if it is no longer visible. */
  changed(seq: number, m?: Message): void {
    this.#stream.takeQuote(seq, m);
    this.#strips?.changed(seq);
  }

  /** Draws the present state. */
  draw(): void {
    this.#head();
    this.#strips?.draw();
    this.#panel?.draw();
    if (!this.#ready) return;
    if (this.#stream.scroller.goneUp) this.#stick = false;
    this.#stream.draw(this.#stick && !this.talk.line.chats.hasNewer(this.chat));
    const none = this.#stream.list.children.length === 0;
    this.#empty.hidden = !none;
    this.#empty.textContent = none ? (this.group ? g.begin : c.begin(titleOf(this.talk, this.chat))) : "";
    this.#moved();
  }

  /** Scrolls to a message, and loads it if necessary; false if the load failed. */
  async goTo(seq: number): Promise<boolean> {
    const { chats } = this.talk.line;
    try {
      await chats.open(this.chat);
      await chats.around(this.chat, seq);
    } catch (err) {
      this.talk.failed(err);
      return false;
    }
    if (this.#closed) return true;
    this.#ready = true;
    this.#stick = false;
    this.draw();
    if (!this.#stream.show(seq)) this.say(c.quoteGone);
    this.#stream.scroller.look();
    return true;
  }

  #head(): void {
    const { presences, chats, client } = this.talk.line;
    const avatar =
      (this.user ? profileOf(this.talk, this.user).avatar : this.talk.line.groups.get(this.group)?.group.picture) ?? "";
    const title = titleOf(this.talk, this.chat);
    if (this.#title.textContent !== title || this.#picture.dataset["avatar"] !== avatar) {
      this.#title.textContent = title;
      this.#picture.dataset["avatar"] = avatar;
      put(this.#picture, faceOf(this.talk, this.chat), h("span", { class: "presence" }));
    }
    this.#picture.dataset["status"] = this.user ? presences.status(this.user) : "offline";
    const typing = chats.get(this.chat)?.typing ?? false;
    const said = this.user
      ? this.#stands(typing)
      : typing
        ? g.somebodyTypes
        : g.members(this.talk.line.groups.get(this.group)?.group.members ?? 0);
    const asking = this.talk.line.groups.requests(this.group).length;
    this.#asking.hidden = asking === 0;
    put(this.#asking, asking > 0 && String(asking), asking > 0 && h("span", { class: "sr" }, g.requestsCount(asking)));
    const silenced = this.group ? this.talk.line.groups.silenced(this.group) : undefined;
    this.#composer.silence(silenced ? (silenced.all ? g.allSilenced : g.silenced)(untilWords(silenced.until)) : "");
    if (this.#status.textContent !== said) this.#status.textContent = said;
    this.#status.classList.toggle("typing", typing);
    const away = client.state !== "online";
    if (this.#note.hidden === away) {
      this.#note.hidden = !away;
      this.#note.textContent = away ? c.away : "";
    }
  }

  // The status of the peer, as text.
  #stands(typing: boolean): string {
    const { presences } = this.talk.line;
    const status = presences.status(this.user);
    const seen = presences.lastSeen(this.user);
    if (profileOf(this.talk, this.user).deleted) return "";
    if (typing) return c.typing;
    if (status !== "offline") return c.presence[status];
    return seen ? c.lastSeen(ago(seen, now())) : "";
  }

  // #offerFile offers a file to the peer, who has to accept it.
  async #offerFile(): Promise<void> {
    const [file] = this.#offer.files ?? [];
    try {
      if (file) await this.talk.line.files.offer(this.user, file);
      await this.#toNewest();
    } catch (err) {
      this.talk.failed(err);
    }
    this.#offer.value = "";
  }

  // #about opens or closes the panel of the group.
  #about(opener: HTMLButtonElement): void {
    if (this.#panel) return this.#panel.close();
    this.#panel = new Panel(this.group, this.talk, () => {
      this.#panel = undefined;
      opener.setAttribute("aria-expanded", "false");
      if (!this.#closed) opener.focus();
    });
    opener.setAttribute("aria-expanded", "true");
    this.el.append(this.#panel.el);
    this.#panel.focus();
  }

  async #open(at: number): Promise<void> {
    const { chats } = this.talk.line;
    try {
      await chats.open(this.chat);
      if (at > 0 && (await this.goTo(at))) return;
      const state = chats.get(this.chat);
      if (state && state.unread > 0) this.#stream.newFrom = state.read + 1;
      // If the new messages exceed a page, load around the first unread one.
      const first = chats.messages(this.chat)[0];
      if (this.#stream.newFrom > 0 && first && first.seq > this.#stream.newFrom && chats.hasOlder(this.chat))
        await chats.around(this.chat, this.#stream.newFrom);
    } catch (err) {
      if (this.#closed) return;
      this.#empty.hidden = false;
      this.#empty.textContent = explain(err);
      setTimeout(() => this.#closed || void this.#open(at), AGAIN); // messages that were written meanwhile are in the outbox
      return;
    }
    if (this.#closed) return;
    this.#ready = true;
    this.draw();
    this.#stream.showNew();
    this.#stream.scroller.look(); // a page may not fill the screen
  }

  async #load(way: "older" | "newer"): Promise<void> {
    const { chats } = this.talk.line;
    if (!this.#ready || this.#loading || !(way === "older" ? chats.hasOlder(this.chat) : chats.hasNewer(this.chat)))
      return;
    this.#loading = true;
    try {
      await chats[way](this.chat);
    } catch {
      return; // the next scrolling retries
    } finally {
      this.#loading = false;
    }
    if (this.#closed) return;
    this.#stick = false;
    this.draw();
    this.#stream.scroller.look(); // the user may have scrolled on meanwhile
  }

  async #toNewest(): Promise<void> {
    const { chats } = this.talk.line;
    if (chats.hasNewer(this.chat)) await chats.newest(this.chat).catch(this.talk.failed);
    if (this.#closed) return;
    this.#stick = true; // a drawing or scrolling meanwhile may have reset it
    this.#stream.scroller.toEnd();
    this.draw();
    this.#stream.scroller.look();
  }

  // #moved marks the visible messages as read.
  #moved(): void {
    if (!this.#ready) return;
    const { chats } = this.talk.line;
    const { scroller } = this.#stream;
    this.#stick = scroller.atEnd && !chats.hasNewer(this.chat);
    if (document.visibilityState === "visible") {
      if (this.#stick) chats.read(this.chat);
      else chats.read(this.chat, scroller.lastSeen());
    }
    const unread = chats.get(this.chat)?.unread ?? 0;
    this.#newest.hidden = this.#stick;
    const label = unread > 0 ? c.newBelow(unread) : c.toNewest;
    if (this.#newest.lastChild!.textContent !== label) this.#newest.lastChild!.textContent = label;
  }

  #options(opener: HTMLElement): void {
    const { chats } = this.talk.line;
    const state = chats.get(this.chat);
    const then = (work: Promise<unknown>) => void work.catch(this.talk.failed);
    const items: Item[] = [];
    if (state?.seq) {
      const muted = isMuted(state.muted);
      items.push({
        text: state.pinned ? c.unpin : c.pin,
        run: () => then(chats.update(this.chat, { pinned: !state.pinned })),
      });
      items.push({
        text: muted ? c.unmute : c.mute,
        run: () => then(chats.update(this.chat, { muted: muted ? new Date(0).toISOString() : FOREVER })),
      });
      items.push({ text: c.clear, sure: c.clearSure, run: () => then(chats.clear(this.chat).then(() => this.draw())) });
    }
    items.push({ text: c.sendPicture, run: () => this.#composer.picture() });
    if (this.user) items.push({ text: c.files.offer, run: () => this.#offer.click() });
    if (this.user) items.push({ text: c.toFriends, run: () => void (location.hash = "#/friends") });
    openMenu(opener, [], items);
  }
}
