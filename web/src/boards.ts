// The two boards.

import type { Board, BoardName, BoardRow } from "./api";
import { count } from "./days";
import { h, put } from "./dom";

const titles: Record<BoardName, [title: string, none: string]> = {
  streak: ["Longest running", "Nobody has a streak yet. Be the first."],
  total_days: ["Most days", "Nobody has checked in yet. Be the first."],
};

/** One board; show draws its rows with me marked. */
export function boardCard(name: BoardName) {
  const [title, none] = titles[name];
  const body = h("div", { class: "board-body" });
  const el = h("section", { class: "card board", "data-board": name, "aria-labelledby": `board-${name}` }, h("h2", { id: `board-${name}` }, title), body);

  const row = (r: BoardRow, me: string, top: number) => {
    const mine = r.user === me;
    const medal = r.rank <= 3 ? ["gold", "silver", "bronze"][r.rank - 1]! : "";
    const bar = h("span", { class: "bar", "aria-hidden": "true" });
    bar.style.width = `${(100 * r.value) / Math.max(1, top)}%`;
    return h(
      "li",
      { class: mine ? "mine" : "", value: r.rank, "data-user": r.user, "aria-current": mine ? "true" : null },
      bar,
      h("span", { class: `rank ${medal}` }, String(r.rank)),
      h("span", { class: "who" }, r.name, mine && h("span", { class: "you" }, "you")),
      h("span", { class: "value" }, count(r.value, "day")),
    );
  };

  const show = (b: Board, me: string) => {
    if (b.entries.length === 0) return put(body, h("p", { class: "muted" }, none));
    const top = b.entries[0]!.value;
    const below = b.me && !b.entries.some((r) => r.user === me) ? b.me : null;
    put(
      body,
      h(
        "ol",
        { class: "rows" },
        ...b.entries.map((r) => row(r, me, top)),
        below && h("li", { class: "gap", "aria-hidden": "true" }, "···"),
        below && row(below, me, top),
      ),
    );
  };
  return { el, show };
}
