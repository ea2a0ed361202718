// Mentions: "@" opens a list of members above the field.

import { h, put } from "../dom";
import { face } from "../person";
import { g } from "../texts/groups";
import { groupFace, type Talk } from "./talk";

const SHOWN = 6;

interface Candidate {
  id: string; // a user's id, or "all"
  name: string;
  note: string; // another name of the same user
}

export class Mentions {
  readonly el = h("ul", {
    class: "mention-list",
    role: "listbox",
    id: "mention-list",
    "aria-label": g.mention,
    hidden: true,
  });

  #chosen = new Map<string, string>(); // ids by names
  #shown: Candidate[] = [];
  #at = 0;

  constructor(
    private readonly field: HTMLTextAreaElement,
    private readonly group: string,
    private readonly talk: Talk,
  ) {
    field.setAttribute("aria-controls", this.el.id);
    field.setAttribute("aria-autocomplete", "list");
    field.addEventListener("input", () => this.look());
    field.addEventListener("blur", () => this.#close());
  }

  /** Shows the members that match the text before the cursor. */
  look(): void {
    const query = this.#query();
    if (query === undefined) return this.#close();
    this.#shown = this.#candidates(query.toLowerCase()).slice(0, SHOWN);
    this.#at = 0;
    this.#draw();
  }

  /** Handles a key, and reports whether it was for the list. */
  key(e: KeyboardEvent): boolean {
    if (this.el.hidden) return false;
    const step = { ArrowDown: 1, ArrowUp: -1 }[e.key];
    if (step) {
      this.#at = (this.#at + step + this.#shown.length) % this.#shown.length;
      this.#draw();
    } else if (e.key === "Enter" || e.key === "Tab") this.#choose(this.#shown[this.#at]!);
    else if (e.key === "Escape") this.#close();
    else return false;
    e.preventDefault();
    e.stopPropagation();
    return true;
  }

  /** Returns the ids of the users that a text mentions. */
  of(text: string): string[] {
    return [...this.#chosen].filter(([name]) => text.includes("@" + name)).map(([, id]) => id);
  }

  #query(): string | undefined {
    const { value, selectionStart, selectionEnd } = this.field;
    if (selectionStart !== selectionEnd) return undefined;
    return /(?:^|[^\w@])@([^\s@]{0,40})$/.exec(value.slice(0, selectionStart))?.[1];
  }

  #candidates(query: string): Candidate[] {
    const { groups } = this.talk.line;
    const all: Candidate[] = groups.may(this.group, "mentionAll")
      ? [{ id: "all", name: g.everybody, note: g.everybodyLong }]
      : [];
    for (const m of groups.members(this.group)) {
      if (m.user.id === this.talk.me.id || m.user.deleted) continue;
      const remark = this.talk.people.friends.find((f) => f.user.id === m.user.id)?.remark;
      const name = groups.called(this.group, m.user.id); // the name that all members see, too
      all.push({ id: m.user.id, name, note: [remark, m.user.name].find((other) => other && other !== name) ?? "" });
    }
    const begins = (text: string) =>
      text
        .toLowerCase()
        .split(/\s+/)
        .some((word) => word.startsWith(query)) || text.toLowerCase().startsWith(query);
    return all.filter((who) => begins(who.name) || begins(who.note));
  }

  #draw(): void {
    put(
      this.el,
      ...this.#shown.map((who, i) =>
        h(
          "li",
          // A click must not move the focus from the field.
          {
            role: "option",
            id: `mention-${i}`,
            "aria-selected": String(i === this.#at),
            onmousedown: (e: MouseEvent) => e.preventDefault(),
            onclick: () => this.#choose(who),
          },
          who.id === "all" ? groupFace("@") : face(this.talk.line.groups.profile(this.group, who.id)),
          h("span", {}, who.name),
          who.note && h("span", { class: "muted" }, who.note),
        ),
      ),
    );
    this.el.hidden = this.#shown.length === 0;
    if (this.el.hidden) this.field.removeAttribute("aria-activedescendant");
    else this.field.setAttribute("aria-activedescendant", `mention-${this.#at}`);
  }

  #choose({ id, name }: Candidate): void {
    const { value, selectionStart } = this.field;
    const from = selectionStart - (this.#query() ?? "").length - 1;
    this.#chosen.set(name, id);
    this.field.setRangeText(`@${name} `, from, selectionStart, "end");
    if (value[selectionStart] === " ")
      this.field.setRangeText("", this.field.selectionStart, this.field.selectionStart + 1, "end");
    this.#close();
    this.field.focus();
  }

  #close(): void {
    this.#shown = [];
    this.#draw();
  }
}
