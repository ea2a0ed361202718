// The drawing of one message.

import type { Message, Outgoing, Profile } from "@stoa-dev/client";
import { act } from "../buttons";
import { h, type Child } from "../dom";
import { face } from "../person";
import { t } from "../texts";
import { c } from "../texts/chats";
import { g } from "../texts/groups";
import { sign } from "./icons";
import { content } from "./content";
import { happened, preview } from "./preview";
import { groupOf } from "./groups";
import { nameIn, sayRefusal, type Talk } from "./talk";
import { timeOf } from "./when";

/** The progress of one of the user's messages. */
export type Tick = "sending" | "failed" | "sent" | "delivered" | "read";

/** The content of a quoted message; "gone" if it is no longer visible, undefined while it is loading. */
export type Quoted = Pick<Message, "from" | "kind" | "text" | "media" | "location" | "card" | "custom" | "system"> & {
  recalled?: string;
};

/** The author of a message in a group, with the role. */
export interface Author {
  name: string;
  role: "member" | "admin" | "owner";
  profile: Profile;
}

export interface Bubble {
  key: string;
  chat: string;
  author: Author | undefined; // only for other users' messages in a group
  names: string[]; // of the mentioned users
  forMe: boolean; // it mentions the user
  seq: number; // 0 until the message is sent
  own: boolean;
  follows: boolean; // it follows one of the same sender
  tick: Tick | undefined;
  message: Message | undefined;
  out: Outgoing | undefined;
  quote: Quoted | "gone" | undefined;
}

export interface Doings {
  menu: (b: Bubble, opener: HTMLElement) => void;
  goTo: (seq: number) => void;
  react: (seq: number, emoji: string, on: boolean) => void;
  retry: (client_id: string) => Promise<void>;
  discard: (client_id: string) => Promise<void>;
}

const shapes = { sending: "clock", failed: "cross", sent: "tick", delivered: "ticks", read: "ticks" } as const;

export function drawBubble(b: Bubble, talk: Talk, on: Doings): HTMLLIElement {
  const m = b.message;
  const body = m ?? b.out!.body;
  const who = b.own ? c.youSay : b.author ? "" : c.says(nameIn(talk, m?.from ?? ""));
  const group = groupOf(b.chat);
  const replyTo = m ? m.reply_to : b.out!.body.reply_to;
  const forwarded = m?.forwarded ?? (b.out?.body.forward && !m);
  const at = m?.at ?? b.out!.at;
  const opener: HTMLButtonElement = h(
    "button",
    {
      type: "button",
      class: "round more",
      tabindex: -1,
      "aria-haspopup": "menu",
      "aria-label": c.actions,
      onclick: () => on.menu(b, opener),
    },
    sign("more"),
  );
  const bare = body.kind === "text" && !body.text && b.out?.body.forward;
  return h(
    "li",
    {
      class: `message ${b.own ? "own" : "theirs"} ${b.author ? "authored" : ""} ${b.forMe ? "for-me" : ""} ${b.follows ? "follows" : ""} ${b.tick ?? ""}`,
      tabindex: -1,
      "data-seq": b.seq || null,
      "data-tick": b.tick,
    },
    b.author && !b.follows ? h("span", { class: "author-face" }, face(b.author.profile)) : null,
    h(
      "div",
      { class: "speech" },
      b.author ? author(b.author, b.follows) : h("span", { class: "sr" }, who),
      b.forMe ? h("span", { class: "sr" }, g.mentioned) : null,
      forwarded ? h("p", { class: "forwarded" }, c.forwarded) : null,
      replyTo ? quote(replyTo, b.quote, talk, group, b.chat, on) : null,
      ...(bare ? [] : content(body as Message, talk, { chat: b.chat, seq: b.seq }, b.names)),
      h(
        "p",
        { class: "meta" },
        m?.edited && !m.recalled ? h("span", {}, c.edited) : null,
        h("time", { datetime: new Date(at).toISOString() }, timeOf(at)),
        b.tick ? h("span", { class: "tick" }, sign(shapes[b.tick]), h("span", { class: "sr" }, c.ticks[b.tick])) : null,
      ),
    ),
    b.seq ? opener : null,
    ...reactions(b, talk, on),
    b.tick === "failed" ? failure(b.out!, talk, on) : null,
  );
}

/** An event of a group, among its messages. */
export function drawHappening(m: Message, talk: Talk): HTMLLIElement {
  return h(
    "li",
    { class: "happening", "data-seq": m.seq },
    h("span", {}, happened(m, talk, m.chat), " ", h("time", { datetime: m.at }, timeOf(m.at))),
  );
}

// The name above the first of several bubbles; for a screen reader above each.
function author({ name, role }: Author, follows: boolean): HTMLElement {
  return h(
    "p",
    { class: follows ? "sr" : "author" },
    name,
    " ",
    role !== "member" && !follows && h("span", { class: "role" }, g.roles[role]),
  );
}

function quote(
  seq: number,
  quoted: Quoted | "gone" | undefined,
  talk: Talk,
  group: string,
  chat: string,
  on: Doings,
): Child {
  if (quoted === "gone") return h("p", { class: "quoted" }, c.quoteGone);
  const from = quoted && (quoted.from === talk.me.id ? t.words.you : nameIn(talk, quoted.from, group));
  return h(
    "button",
    { type: "button", class: "quoted", onclick: () => on.goTo(seq) },
    h("span", { class: "quoted-from" }, h("span", { class: "sr" }, c.inReplyTo, " "), from ?? "…"),
    h("span", { class: "quoted-text" }, quoted ? preview(quoted, talk, chat) : ""),
  );
}

function reactions(b: Bubble, talk: Talk, on: Doings): Child[] {
  const all = b.message?.recalled ? [] : (b.message?.reactions ?? []);
  if (all.length === 0) return [];
  const chip = ({ emoji, users }: { emoji: string; users: string[] }) => {
    const mine = users.includes(talk.me.id);
    const names = users.map((u) => (u === talk.me.id ? t.words.you : nameIn(talk, u, groupOf(b.chat)))).join(", ");
    return h(
      "button",
      {
        type: "button",
        class: "reaction",
        "aria-pressed": String(mine),
        "aria-label": c.reactionOf(emoji, names),
        title: names,
        onclick: () => on.react(b.seq, emoji, !mine),
      },
      emoji,
      users.length > 1 && h("span", {}, String(users.length)),
    );
  };
  return [h("div", { class: "reactions", role: "group", "aria-label": c.reactions }, ...all.map(chip))];
}

function failure({ body, reason }: Outgoing, talk: Talk, on: Doings): HTMLElement {
  return h(
    "div",
    { class: "failure" },
    h("p", { class: "fault" }, c.notSent(sayRefusal(reason?.code ?? "", reason?.detail ?? ""))),
    h(
      "div",
      { class: "row" },
      act(t.words.tryAgain, "link", () => on.retry(body.client_id), talk.failed),
      act(c.discard, "link", () => on.discard(body.client_id), talk.failed),
    ),
  );
}
