// Notices about friends, groups, the account, and from operators. Opening the page marks them as read.

import type { Profile } from "@stoa-dev/client";
import type { StoaEvent } from "@stoa-dev/client";
import { now } from "./api";
import { act } from "./buttons";
import { ago } from "./days";
import { h, icon, put, type Child } from "./dom";
import { say } from "./form";
import { face, nameOf } from "./person";
import { Ended, json } from "./session";
import { t } from "./texts";
import { n } from "./texts/notices";
import type { View } from "./view";

interface Notice {
  seq: number;
  kind: string;
  at: string;
  read: boolean;
  user?: Profile;
  data: { group?: string; name?: string; user?: string; title?: string; text?: string; link?: string };
}

interface Notices {
  notices: Notice[];
  next?: string;
  counts: { last: number };
}

const AT_ONCE = 30;

export function noticesView(fail: (text: string) => void): View {
  const closed = new AbortController();
  const failed = (err: unknown) => {
    if (!(err instanceof Ended) && !closed.signal.aborted) fail(say(err));
  };
  const list = h("ul", { class: "persons notices" });
  const none = h("p", { class: "muted", role: "status" }, t.words.moment);
  const more = act(t.words.showMore, "link", () => read(cursor), failed);
  let cursor = "";
  let question = 0;

  async function read(from: string): Promise<void> {
    const mine = ++question;
    const page = await json<Notices>(`/v1/notices?limit=${AT_ONCE}${from && `&cursor=${encodeURIComponent(from)}`}`, {
      signal: closed.signal,
    });
    if (mine !== question) return; // a later request has been sent
    const rows = page.notices.map(row);
    if (from) list.append(...rows);
    else put(list, ...rows);
    cursor = page.next ?? "";
    more.hidden = !cursor;
    none.hidden = list.children.length > 0;
    none.textContent = n.none;
    if (!from && document.visibilityState === "visible")
      await json("/v1/notices/mark", { method: "PUT", body: { read: page.counts.last } });
  }

  const load = () => void read("").catch(failed);
  load();
  more.hidden = true;
  return {
    el: h(
      "div",
      { class: "narrow" },
      h("h1", {}, n.title),
      h("section", { class: "card", "aria-label": n.title }, none, list, more),
    ),
    close: () => closed.abort(),
    catchUp: load,
    event: (e: StoaEvent) => {
      if (e.type === "notice.new") load();
    },
  };
}

function row(of: Notice): HTMLLIElement {
  const { kind, user, data } = of;
  const words = n.says[kind];
  const said: Child[] = data.title
    ? [h("strong", {}, data.title), data.text ? h("span", { class: "notice-text" }, data.text) : null]
    : [words ? words((user && nameOf(user)) || n.somebody, data.name ?? "") : n.other];
  const href = leadsTo(of);
  return h(
    "li",
    { class: "person", "data-notice": kind },
    user ? face(user) : h("span", { class: "face", "aria-hidden": "true" }, icon("bell")),
    h(
      "div",
      { class: "person-text" },
      h("p", {}, ...said, of.read ? null : h("span", { class: "you" }, n.unread)),
      h(
        "p",
        { class: "muted" },
        ago(of.at, now()),
        href && " · ",
        href &&
          h("a", href.startsWith("#") ? { href } : { href, target: "_blank", rel: "noopener noreferrer" }, n.more),
      ),
    ),
  );
}

// leadsTo returns the address of a notice's source, "" for none.
function leadsTo({ kind, data }: Notice): string {
  if (data.link) return /^(https:\/\/|\/)/.test(data.link) ? data.link : "";
  if (kind === "friend.accepted") return `#/chats/${data.user}`;
  if (kind.startsWith("friend.")) return "#/friends";
  if (["group.added", "group.requested", "group.accepted"].includes(kind)) return `#/chats/g:${data.group}`;
  return kind.startsWith("account.") ? "#/profile" : "";
}
