// Search in the user's chats.

import type { Message } from "@stoa-dev/client";
import { act } from "../buttons";
import { h, put, type Child } from "../dom";
import { t } from "../texts";
import { c } from "../texts/chats";
import { preview } from "./preview";
import { groupOf } from "./groups";
import { faceOf, nameIn, placeOf, titleOf, type Talk } from "./talk";
import { briefly } from "./when";

const AFTER = 300; // ms without a key until a search starts
const LEAD = 24; // letters before the match

/** The field and the results. searching hides the list of chats while the field has a text. */
export function chatSearch(talk: Talk, searching: (on: boolean) => void): { field: HTMLElement; el: HTMLElement } {
  const input = h("input", {
    type: "search",
    name: "search",
    maxlength: 100,
    autocomplete: "off",
    "aria-label": c.search,
    placeholder: c.search,
  });
  const list = h("ul", { class: "chat-list" });
  const said = h("p", { class: "muted found-count", role: "status" });
  const more = act(t.words.showMore, "link", () => read(query, cursor), talk.failed);
  const el = h("div", { class: "search-found", hidden: true }, said, list, more);
  let query = "";
  let cursor = "";
  let timer: ReturnType<typeof setTimeout> | undefined;

  async function read(q: string, from: string): Promise<void> {
    const { messages, next = "" } = await talk.line.chats.search(q, { limit: 20, ...(from && { cursor: from }) });
    if (q !== query || talk.signal.aborted) return;
    const rows = messages.map((m) => found(m, q, talk));
    if (from) list.append(...rows);
    else put(list, ...rows);
    cursor = next;
    more.hidden = !next;
    said.textContent = c.found(list.children.length, next !== "");
  }

  function begin(): void {
    const q = input.value.trim();
    if (q === query) return;
    query = q;
    searching(q !== "");
    el.hidden = q === "";
    clearTimeout(timer);
    if (!q) return;
    more.hidden = true;
    put(list);
    said.textContent = t.words.moment;
    timer = setTimeout(
      () =>
        read(q, "").catch((err) => {
          if (q === query) said.textContent = "";
          talk.failed(err);
        }),
      AFTER,
    );
  }

  input.addEventListener("input", begin);
  input.addEventListener("keydown", (e) => {
    if (e.key !== "Escape" || !input.value) return;
    e.preventDefault();
    input.value = "";
    begin();
  });
  talk.signal.addEventListener("abort", () => clearTimeout(timer));
  return {
    field: h("form", { class: "chat-search", role: "search", onsubmit: (e: SubmitEvent) => e.preventDefault() }, input),
    el,
  };
}

function found(m: Message, q: string, talk: Talk): HTMLLIElement {
  const group = groupOf(m.chat);
  const who = m.from === talk.me.id ? c.youSay : group && c.says(nameIn(talk, m.from, group));
  return h(
    "li",
    {},
    h(
      "a",
      { class: "chat-row", href: `#/chats/${placeOf(m.chat)}/${m.seq}` },
      faceOf(talk, m.chat),
      h(
        "span",
        { class: "chat-text" },
        h(
          "span",
          { class: "chat-top" },
          h("span", { class: "chat-name" }, titleOf(talk, m.chat)),
          h("time", { class: "chat-at" }, briefly(m.at)),
        ),
        h("span", { class: "chat-line" }, who && who + " ", ...marked(preview(m, talk, m.chat), q)),
      ),
    ),
  );
}

// marked highlights the first of the words. The server matches more than letter cases: such a match is not highlighted.
function marked(text: string, q: string): Child[] {
  const word = q.split(/\s+/)[0]!.toLowerCase();
  const at = text.toLowerCase().indexOf(word);
  if (at < 0 || text.toLowerCase().length !== text.length) return [text];
  const from = at > LEAD ? at - LEAD : 0;
  return [
    (from > 0 ? "…" : "") + text.slice(from, at),
    h("mark", {}, text.slice(at, at + word.length)),
    text.slice(at + word.length),
  ];
}
