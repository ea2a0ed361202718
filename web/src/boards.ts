// The boards: one is shown at a time.

import type { Board, BoardRow } from "@stoa-dev/client";
import { Refused, type BoardName } from "./api";
import { nextTo, seasonName } from "./days";
import { h, icon, put } from "./dom";
import { say } from "./form";
import { face } from "./person";
import { t } from "./texts";

type Tab = BoardName;
const tabs: Tab[] = ["streak", "total_days", "week", "month"];

/** The card with the boards. ask gets one; refresh updates the shown board and marks the row of me. */
export function boardsCard(ask: (path: string) => Promise<Board>, failed: (err: unknown) => void) {
  let me = "";
  let shown = tabs[0]!;
  let season = ""; // requested; "" is the present season, or the board has none
  let present = ""; // the season of the last response for ""
  const answers = new Map<string, Board>(); // by path: shown while the next response is loading

  const turn = (by: -1 | 1, label: string, name: "left" | "right") =>
    h(
      "button",
      {
        type: "button",
        class: "round",
        "aria-label": label,
        title: label,
        onclick: () => to(nextTo(season || present, by)),
      },
      icon(name),
    );
  const back = turn(-1, t.boards.before, "left");
  const forth = turn(1, t.boards.after, "right");
  const seasonTitle = h("p", { role: "status" });
  const seasons = h("div", { class: "seasons" }, back, seasonTitle, forth);
  const body = h("div", { class: "board-body" });
  const panel = h("div", { id: "board", role: "tabpanel" }, seasons, body);
  const buttons = tabs.map((name) =>
    h(
      "button",
      {
        type: "button",
        role: "tab",
        id: `tab-${name}`,
        "data-tab": name,
        "aria-controls": "board",
        onclick: () => select(name),
      },
      t.boards.tabs[name],
    ),
  );
  const list = h(
    "div",
    { class: "tabs", role: "tablist", "aria-label": t.boards.title, onkeydown: turnTab },
    ...buttons,
  );
  // A switch between all users and the user's friends.
  const whose = (scope: "all" | "friends", text: string) => {
    const input = h("input", {
      type: "radio",
      name: "scope",
      value: scope,
      checked: scope === "all",
      onchange: () => to(season),
    });
    return { input, el: h("label", {}, input, h("span", {}, text)) };
  };
  const all = whose("all", t.boards.everybody);
  const { input: friends, el: friendsEl } = whose("friends", t.boards.friends);
  const scope = h(
    "fieldset",
    { class: "segmented scope" },
    h("legend", { class: "sr" }, t.boards.who),
    all.el,
    friendsEl,
  );
  const el = h(
    "section",
    { class: "card boards", "aria-labelledby": "boards-title" },
    h("header", {}, h("h2", { id: "boards-title" }, t.boards.title), scope, list),
    panel,
  );

  function turnTab(e: KeyboardEvent): void {
    const at = tabs.indexOf(shown);
    const next = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: tabs.length - 1 }[e.key];
    if (next === undefined) return;
    e.preventDefault();
    const i = (next + tabs.length) % tabs.length;
    select(tabs[i]!);
    buttons[i]!.focus();
  }

  function mark(): void {
    panel.dataset["board"] = shown;
    panel.setAttribute("aria-labelledby", `tab-${shown}`);
    buttons.forEach((b, i) => {
      b.setAttribute("aria-selected", String(tabs[i] === shown));
      b.tabIndex = tabs[i] === shown ? 0 : -1;
    });
  }

  function select(tab: Tab): void {
    if (tab === shown) return;
    shown = tab;
    present = "";
    mark();
    to("");
  }

  function to(s: string): void {
    season = s === present ? "" : s;
    draw(answers.get(path()));
    refresh(me).catch(failed);
  }

  const path = () =>
    `/v1/checkin/boards/${shown}?limit=10&around=3${season && `&season=${season}`}${friends.checked ? "&scope=friends" : ""}`;

  async function refresh(id: string, again = true): Promise<void> {
    me = id;
    const asked = path();
    try {
      const b = await ask(asked);
      answers.set(asked, b);
      if (asked === path()) draw(b);
      if (again && nameless(b, id)) setTimeout(() => void refresh(me, false).catch(failed), 3000);
    } catch (err) {
      if (!(err instanceof Refused)) throw err;
      if (asked === path()) put(body, h("p", { class: "muted" }, say(err)));
    }
  }

  function none(): string {
    if (friends.checked) return t.boards.noFriends;
    return season && (shown === "week" || shown === "month") ? t.boards.past[shown] : t.boards.none[shown];
  }

  function draw(b: Board | undefined): void {
    if (b?.season && !season) present = b.season;
    const at = b?.season ?? season;
    seasons.hidden = !at;
    if (at) seasonTitle.textContent = seasonName(at);
    forth.disabled = !season;
    back.disabled = !!b && !!season && b.entries.length === 0; // there are no seasons before the first entry
    if (!b) return put(body, h("p", { class: "muted" }, t.words.moment));
    if (b.entries.length === 0) return put(body, h("p", { class: "empty" }, none()));
    const top = b.entries[0]!.value;
    // A user below the top also sees their neighbours, or only their own row if the neighbours are unknown. Rows
    // without a user are identified by their rank.
    const there = new Set(b.entries.map((r) => r.user));
    const last = b.entries.at(-1)!.rank;
    const below = there.has(me)
      ? []
      : (b.around?.length ? b.around : b.me ? [b.me] : []).filter((r) => (r.user ? !there.has(r.user) : r.rank > last));
    const gap = below[0] && below[0].rank > last + 1;
    put(
      body,
      h(
        "ol",
        { class: "rows" },
        ...b.entries.map((r) => row(r, r.user === me, top)),
        gap && h("li", { class: "gap", "aria-hidden": "true" }, "···"),
        ...below.map((r) => row(r, r.user === me, top)),
      ),
    );
  }

  mark();
  draw(undefined);
  return { el, refresh };
}

// nameless reports whether no other user on a board has a name. They may all hide it. It is also the case while the
// server cannot load the settings for it.
function nameless(b: Board, me: string): boolean {
  const others = [...b.entries, ...(b.around ?? [])].filter((r) => r.user !== me);
  return others.length > 0 && others.every((r) => !r.user);
}

function row(r: BoardRow, mine: boolean, top: number): HTMLLIElement {
  const medal = r.rank <= 3 ? ["gold", "silver", "bronze"][r.rank - 1]! : "";
  const bar = h("span", { class: "bar", "aria-hidden": "true" });
  bar.style.width = `${(100 * r.value) / Math.max(1, top)}%`;
  return h(
    "li",
    { class: mine ? "mine" : "", value: r.rank, "data-user": r.user, "aria-current": mine ? "true" : null },
    bar,
    h("span", { class: `rank ${medal}` }, String(r.rank)),
    r.user
      ? face({ id: r.user, name: r.name ?? "", ...(r.avatar && { avatar: r.avatar }) })
      : h("span", { class: "face gone", "aria-hidden": "true" }, "–"),
    h(
      "span",
      { class: "who" },
      r.name ?? h("span", { class: "muted" }, t.boards.somebody),
      " ",
      mine && h("span", { class: "you" }, t.words.you),
    ),
    h("span", { class: "value" }, t.words.days(r.value)),
  );
}
