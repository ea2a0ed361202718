// The chat of a room.

import type { RoomLine, RoomLines } from "@stoa-dev/client";
import { act } from "../buttons";
import { h } from "../dom";
import { form, taken } from "../form";
import { r } from "../texts/rooms";
import { timeOf } from "../chat/when";
import type { Seat } from "./seat";

const MOST = 500; // lines, the same limit as the server's
const PAGE = 100;
const NEAR = 60; // px: this near to the end, the view scrolls to new lines

export class RoomChat {
  readonly el: HTMLElement;

  readonly #list = h("div", { class: "said-list", role: "log", "aria-label": r.tabs.chat, tabindex: 0 });
  readonly #none = h("p", { class: "muted", hidden: true }, r.saidNothing);
  readonly #older: HTMLButtonElement;
  readonly #text = h("input", {
    name: "say",
    maxlength: 500,
    autocomplete: "off",
    "aria-label": r.say,
    placeholder: r.say,
  });
  readonly #form: HTMLFormElement;
  readonly #silent = h("p", { class: "muted", hidden: true }, r.silent);
  #lines = new Map<number, HTMLElement>();

  constructor(
    private readonly seat: Seat,
    failed: (err: unknown) => void,
  ) {
    this.#older = act(r.older, "link", () => this.#read(Math.min(...this.#lines.keys())), failed);
    this.#older.hidden = true;
    this.#form = form(
      { class: "say" },
      [],
      async () => {
        const text = this.#text.value.trim();
        if (!text) return;
        this.add(await taken(this.#text, () => this.seat.ask<RoomLine>("/chat", { method: "POST", body: { text } })));
        this.#list.scrollTop = this.#list.scrollHeight;
      },
      h("div", { class: "say-row" }, this.#text, h("button", { type: "submit", class: "primary small" }, r.send)),
    );
    this.el = h("div", { class: "room-chat" }, this.#older, this.#none, this.#list, this.#form, this.#silent);
  }

  may(chat: boolean): void {
    this.#form.hidden = !chat;
    this.#silent.hidden = chat;
  }

  /** Loads the latest lines, as after a break. */
  read = () => this.#read(0);

  async #read(before: number): Promise<void> {
    const known = Math.max(0, ...this.#lines.keys());
    const page = await this.seat.ask<RoomLines>(`/chat?limit=${PAGE}${before > 0 ? `&before=${before}` : ""}`);
    // After a long break, the latest lines do not follow the old ones, which are removed.
    const apart = before === 0 && Math.min(...page.lines.map((line) => line.seq)) > known + 1;
    if (apart) for (const seq of this.#lines.keys()) if (seq <= known) this.#drop(seq);
    if (before > 0 || known === 0 || apart) this.#older.hidden = !page.more;
    for (const line of page.lines) this.add(line);
    this.#none.hidden = this.#lines.size > 0;
  }

  add(line: RoomLine): void {
    if (this.#lines.has(line.seq)) return;
    const el = h(
      "p",
      { "data-seq": line.seq },
      h("span", { class: "said-name" }, line.name),
      " ",
      ...(line.guest ? [h("span", { class: "role" }, r.roles.guest), " "] : []),
      h("span", { class: "said-text" }, line.text),
      " ",
      h("time", { class: "said-at", datetime: line.at }, timeOf(line.at)),
    );
    const near = this.#list.scrollHeight - this.#list.scrollTop - this.#list.clientHeight < NEAR;
    const after = [...this.#list.children].findLast(
      (other) => Number((other as HTMLElement).dataset["seq"]) < line.seq,
    );
    if (after) after.after(el);
    else this.#list.prepend(el);
    this.#lines.set(line.seq, el);
    if (this.#lines.size > MOST) this.#drop(Math.min(...this.#lines.keys()));
    this.#none.hidden = true;
    if (near) this.#list.scrollTop = this.#list.scrollHeight;
  }

  #drop(seq: number): void {
    this.#lines.get(seq)!.remove();
    this.#lines.delete(seq);
  }
}
