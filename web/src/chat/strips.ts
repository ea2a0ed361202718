// The strips above the messages of a group: a new announcement, and pinned messages.

import type { Message, System } from "@stoa-dev/client";
import { act } from "../buttons";
import { dialog } from "../dialog";
import { h, put } from "../dom";
import { t } from "../texts";
import { g } from "../texts/groups";
import { preview } from "./preview";
import { sign } from "./icons";
import { ask, nameIn, type Talk } from "./talk";

export class Strips {
  readonly el: HTMLElement;
  readonly #announced = h("section", { class: "strip announced", "aria-label": g.announcement, hidden: true });
  readonly #pinned = h("button", { type: "button", class: "strip pins", hidden: true, onclick: () => this.#open() });
  #pins: Message[] = [];
  #known = false; // the pinned messages are loaded
  readonly close: () => void;
  #shown = 0; // the announcement
  #text = "";

  constructor(
    private readonly group: string,
    private readonly talk: Talk,
    private readonly on: { goTo: (seq: number) => void; fill: () => void },
  ) {
    this.el = h("div", { class: "strips" }, this.#announced, this.#pinned);
    this.close = talk.line.client.on("open", ({ resumed }) => {
      if (!resumed || !this.#known) void this.#read();
    });
    void this.#read();
  }

  pinned(seq: number): boolean {
    return this.#pins.some((m) => m.seq === seq);
  }

  /** Handles an event of the group. */
  happened(event: System["event"]): void {
    if (event === "pinned" || event === "unpinned") void this.#read();
  }

  /** Handles a changed or removed message. */
  changed(seq: number): void {
    if (this.pinned(seq)) void this.#read();
  }

  draw(): void {
    const there = this.talk.line.groups.get(this.group);
    const { announced = 0, announcement = "" } = there?.group ?? {};
    const fresh = announcement && (there?.me.seen ?? 0) < announced ? announced : 0;
    this.#announced.hidden = fresh === 0;
    if (fresh && fresh !== this.#shown) {
      const seen = async () =>
        void (await ask(this.talk, "groups.set_me", { path: { group: this.group }, body: { seen: announced } }));
      put(
        this.#announced,
        sign("horn"),
        h(
          "div",
          { class: "strip-text" },
          h("p", { class: "strip-title" }, g.announcement),
          h("p", { class: "strip-said" }, announcement),
        ),
        act(g.read, "secondary", seen, this.talk.failed),
      );
    }
    this.#shown = fresh;
    const newest = this.#pins[0];
    const text = newest ? preview(newest, this.talk, newest.chat) + this.#pins.length : "";
    this.#pinned.hidden = !newest;
    if (newest && text !== this.#text)
      put(
        this.#pinned,
        sign("pin"),
        h("span", { class: "strip-text" }, preview(newest, this.talk, newest.chat)),
        this.#pins.length > 1 && h("span", { class: "muted" }, g.pinnedMore(this.#pins.length)),
        h("span", { class: "sr" }, g.pinned),
      );
    this.#text = text;
  }

  async #read(): Promise<void> {
    try {
      const { messages } = await this.talk.line.client.call("chats.pins", { path: { chat: `g:${this.group}` } });
      this.#pins = messages ?? [];
      this.#known = true;
      this.on.fill();
    } catch {
      // The next pin, or the next connection, retries.
    }
  }

  #open(): void {
    const [only] = this.#pins;
    if (only && this.#pins.length === 1) return this.on.goTo(only.seq);
    dialog(g.pinned, (close) => [
      h(
        "ul",
        { class: "picks" },
        ...this.#pins.map((m) =>
          h(
            "li",
            {},
            h(
              "button",
              { type: "button", class: "pick pinned-message", onclick: () => (close(), this.on.goTo(m.seq)) },
              h(
                "span",
                { class: "author" },
                m.from === this.talk.me.id ? t.words.you : nameIn(this.talk, m.from, this.group),
              ),
              h("span", {}, preview(m, this.talk, m.chat)),
            ),
          ),
        ),
      ),
      h("div", { class: "row" }, h("button", { type: "button", class: "link", onclick: close }, g.close)),
    ]);
  }
}
