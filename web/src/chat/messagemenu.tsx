// The actions on one message.

import type { Message } from "@stoa-dev/client";
import { t } from "../texts";
import { c } from "../texts/chats";
import { g } from "../texts/groups";
import type { BubbleRow } from "../state/stream";
import { groupOf, SMALL } from "../state/groups";
import { openDialog } from "../ui/dialog";
import { Face } from "../ui/face";
import { CloseRow } from "../ui/form";
import { openMenu, type Item } from "./menu";
import { pick } from "./pick";
import { ask, nameIn, titleOf, type ChatContext } from "./context";

const EMOJI = ["👍", "❤️", "😂", "😮", "😢", "🎉"];

export interface Own {
  reply: (m: Message) => void;
  edit: (m: Message) => void;
  said: (text: string) => void; // reports a result that is not visible here
  pinned: (seq: number) => boolean;
}

/** Opens the menu of a message. */
export function messageMenu(chat: string, b: BubbleRow, opener: HTMLElement, ctx: ChatContext, on: Own): void {
  const m = b.message;
  if (!m) return;
  const { chats, groups } = ctx.connection;
  const group = groupOf(chat);
  const then = (work: Promise<unknown>) => void work.catch(ctx.failed);
  const hide: Item = { text: c.deleteForMe, sure: c.deleteForMeSure, run: () => then(chats.hide(chat, m.seq)) };
  if (m.recalled) return openMenu(opener, [], [hide]);

  const mine = (emoji: string) => m.reactions?.find((r) => r.emoji === emoji)?.users.includes(ctx.me.id) ?? false;
  const row = EMOJI.map((emoji) => ({
    text: emoji,
    label: mine(emoji) ? c.unreact(emoji) : c.react(emoji),
    run: () => then(chats.react(chat, m.seq, emoji, !mine(emoji))),
  }));
  const items: Item[] = [{ text: c.reply, run: () => on.reply(m) }];
  if (m.text && navigator.clipboard)
    items.push({
      text: c.copy,
      run: () => then(navigator.clipboard.writeText(m.text!).then(() => on.said(t.card.copied))),
    });
  items.push({ text: c.forward, run: () => then(forward(chat, m, ctx, on.said)) });
  if (b.own && m.kind === "text" && !m.forwarded) items.push({ text: c.edit, run: () => on.edit(m) });
  if (b.own && group && (groups.get(group)?.group.members ?? 0) <= SMALL)
    items.push({ text: g.readers, run: () => then(readers(chat, m.seq, ctx)) });
  if (group && groups.may(group, "pin")) {
    const pinned = on.pinned(m.seq);
    items.push({
      text: pinned ? g.unpin : g.pin,
      run: () => then(ctx.connection.client.call(pinned ? "chats.unpin" : "chats.pin", { path: { chat, seq: m.seq } })),
    });
  }
  if (b.own) items.push({ text: c.recall, sure: c.recallSure, run: () => then(chats.recall(chat, m.seq)) });
  else if (group && groups.may(group, "moderate") && groups.outranks(group, m.from))
    items.push({ text: g.recallOf, sure: c.recallSure, run: () => then(chats.recall(chat, m.seq)) });
  items.push(hide);
  openMenu(opener, row, items);
}

function forward(chat: string, m: Message, ctx: ChatContext, said: (text: string) => void): Promise<void> {
  return pick(c.forwardTo, ctx, (to) => {
    ctx.connection.chats
      .send(to, { kind: m.kind }, { forward: { chat, seq: m.seq } })
      .then(() => said(c.forwardedTo(titleOf(ctx, to))), ctx.failed);
  });
}

async function readers(chat: string, seq: number, ctx: ChatContext): Promise<void> {
  const { users } = await ask(ctx, "chats.readers", { path: { chat, seq } });
  const { groups } = ctx.connection;
  const group = groupOf(chat);
  openDialog(g.readers, (close) => (
    <>
      <p class="muted">{g.readBy(users.length)}</p>
      <ul class="picks">
        {users.map((user) => (
          <li key={user} class="pick">
            <Face profile={groups.profile(group, user)} />
            <span>{nameIn(ctx, user, group)}</span>
          </li>
        ))}
      </ul>
      <CloseRow close={close} />
    </>
  ));
}
