// What can be done with one message.

import type { Message } from "@stoa-dev/client";
import { t } from "../texts";
import { c } from "../texts/chats";
import type { Bubble } from "./bubble";
import { openMenu, type Item } from "./menu";
import { pick } from "./pick";
import { chatWith, titleOf, type Talk } from "./talk";

const EMOJI = ["👍", "❤️", "😂", "😮", "😢", "🎉"];

export interface Own {
  reply: (m: Message) => void;
  edit: (m: Message) => void;
  said: (text: string) => void; // what was done and cannot be seen here
}

/** Opens the menu of a message. */
export function messageMenu(chat: string, b: Bubble, opener: HTMLElement, talk: Talk, on: Own): void {
  const m = b.message;
  if (!m) return;
  const { chats } = talk.line;
  const then = (work: Promise<unknown>) => void work.catch(talk.failed);
  const hide: Item = { text: c.deleteForMe, sure: c.deleteForMeSure, run: () => then(chats.hide(chat, m.seq)) };
  if (m.recalled) return openMenu(opener, [], [hide]);

  const mine = (emoji: string) => m.reactions?.find((r) => r.emoji === emoji)?.users.includes(talk.me.id) ?? false;
  const row = EMOJI.map((emoji) => ({
    text: emoji,
    label: mine(emoji) ? c.unreact(emoji) : c.react(emoji),
    run: () => then(chats.react(chat, m.seq, emoji, !mine(emoji))),
  }));
  const items: Item[] = [{ text: c.reply, run: () => on.reply(m) }];
  if (m.text) items.push({ text: c.copy, run: () => then(navigator.clipboard.writeText(m.text!).then(() => on.said(t.card.copied))) });
  items.push({ text: c.forward, run: () => then(forward(chat, m, talk, on.said)) });
  if (b.own && m.kind === "text" && !m.forwarded) items.push({ text: c.edit, run: () => on.edit(m) });
  if (b.own) items.push({ text: c.recall, sure: c.recallSure, run: () => then(chats.recall(chat, m.seq)) });
  items.push(hide);
  openMenu(opener, row, items);
}

function forward(chat: string, m: Message, talk: Talk, said: (text: string) => void): Promise<void> {
  return pick(c.forwardTo, talk, (user) => {
    talk.line.chats
      .send(chatWith(user), { kind: m.kind }, { forward: { chat, seq: m.seq } })
      .then(() => said(c.forwardedTo(titleOf(talk, user))), talk.failed);
  });
}
