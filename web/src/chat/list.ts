// The list of chats.

import type { ChatState, Outgoing } from "@stoa-dev/client";
import { h } from "../dom";
import { rows } from "../rows";
import { t } from "../texts";
import { c } from "../texts/chats";
import { g } from "../texts/groups";
import { sign } from "./icons";
import { preview, previewOut } from "./preview";
import { groupOf } from "./groups";
import { faceOf, isMuted, nameIn, placeOf, profileOf, titleOf, type Talk } from "./talk";
import { briefly } from "./when";

interface Row {
  chat: string;
  avatar: string;
  title: string;
  status: string;
  line: string;
  kind: "said" | "draft" | "typing" | "failed" | "waits";
  at: string;
  unread: number;
  mentioned: boolean;
  pinned: boolean;
  muted: boolean;
  open: boolean;
}

/** Shows the chats in el. show draws their present state, with one of them as open. */
export function chatList(talk: Talk, rest: HTMLElement): { el: HTMLElement; show: (open: string) => void } {
  const el = h("ul", { class: "chat-list", onkeydown: (e: KeyboardEvent) => walk(el, e) });
  const set = rows<Row>(
    el,
    (r) => r.chat,
    (r) => draw(r, talk),
    rest,
  );
  return {
    el,
    show: (open) => set(talk.line.chats.list().map((chat) => row(chat, talk, open))),
  };
}

function row(chat: ChatState, talk: Talk, open: string): Row {
  const user = groupOf(chat.chat) ? "" : placeOf(chat.chat);
  const waiting = talk.line.chats.pending(chat.chat).at(-1);
  const [kind, line] = said(chat, waiting, talk, chat.chat === open);
  return {
    chat: chat.chat,
    avatar: (user ? profileOf(talk, user).avatar : talk.line.groups.get(groupOf(chat.chat))?.group.picture) ?? "",
    title: titleOf(talk, chat.chat),
    status: user ? talk.line.presences.status(user) : "offline",
    line,
    kind,
    at: chat.seq > 0 ? briefly(chat.at) : "",
    unread: chat.unread,
    mentioned: chat.unread > 0 && talk.line.groups.hasMention(chat),
    pinned: Boolean(chat.pinned),
    muted: isMuted(chat.muted) || talk.line.groups.notify(chat.chat) === "none",
    open: chat.chat === open,
  };
}

function said(chat: ChatState, waiting: Outgoing | undefined, talk: Talk, open: boolean): [Row["kind"], string] {
  const group = groupOf(chat.chat);
  if (chat.typing) return ["typing", group ? g.somebodyTypes : c.typing];
  if (waiting) return [waiting.state === "failed" ? "failed" : "waits", c.youSay + " " + previewOut(waiting, talk)];
  if (chat.draft && !open) return ["draft", chat.draft];
  if (!chat.last) return ["said", ""];
  const { from, system } = chat.last;
  let who = "";
  if (from === talk.me.id) who = c.youSay + " ";
  else if (group) who = c.says(nameIn(talk, from, group)) + " ";
  return ["said", (system ? "" : who) + preview(chat.last, talk, chat.chat)];
}

function draw(r: Row, talk: Talk): HTMLLIElement {
  const place = placeOf(r.chat);
  return h(
    "li",
    { "data-user": place },
    h(
      "a",
      { href: `#/chats/${place}`, class: `chat-row ${r.kind}`, "aria-current": r.open ? "true" : null },
      h(
        "span",
        { class: "room-face", "data-status": r.status },
        faceOf(talk, r.chat),
        h("span", { class: "presence" }),
      ),
      h(
        "span",
        { class: "chat-text" },
        h(
          "span",
          { class: "chat-top" },
          h("span", { class: "chat-name" }, r.title),
          r.status !== "offline" && h("span", { class: "sr" }, c.presence[r.status as "online"]),
          h("time", { class: "chat-at" }, r.at),
        ),
        h(
          "span",
          { class: "chat-bottom" },
          h(
            "span",
            { class: "chat-line" },
            r.kind === "draft" && h("span", { class: "draft" }, c.draft),
            r.kind === "failed" && h("span", { class: "draft" }, c.failed),
            r.kind === "waits" && sign("clock"),
            r.line,
          ),
          r.mentioned &&
            h(
              "span",
              { class: "at-me", "data-mentioned": "" },
              h("span", { "aria-hidden": "true" }, "@"),
              h("span", { class: "sr" }, g.mentioned),
            ),
          r.muted && h("span", { class: "sign" }, sign("quiet"), h("span", { class: "sr" }, c.isMuted)),
          r.pinned && h("span", { class: "sign" }, sign("pin"), h("span", { class: "sr" }, c.isPinned)),
          r.unread > 0 &&
            h(
              "span",
              { class: r.muted ? "badge quiet" : "badge", "data-unread-chat": "" },
              r.unread > 99 ? "99+" : String(r.unread),
              h("span", { class: "sr" }, t.frame.newMessages(r.unread)),
            ),
        ),
      ),
    ),
  );
}

// The arrow keys move from chat to chat, as the Tab key does.
function walk(el: HTMLElement, e: KeyboardEvent): void {
  const step = { ArrowDown: 1, ArrowUp: -1 }[e.key];
  if (!step) return;
  const all = [...el.querySelectorAll<HTMLElement>("a")];
  const to = all[all.indexOf(document.activeElement as HTMLElement) + step];
  if (!to) return;
  e.preventDefault();
  to.focus();
}
