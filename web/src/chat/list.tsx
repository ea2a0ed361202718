// The list of chats.

import type { ChatState, Outgoing } from "@stoa-dev/client";
import { useRef } from "preact/hooks";
import { groupOf } from "../state/groups";
import { t } from "../texts";
import { c } from "../texts/chats";
import { g } from "../texts/groups";
import { useKeptFocus } from "../ui/focus";
import { Icon, Sign } from "../ui/icon";
import { ChatFace } from "./face";
import { preview, previewOut } from "./preview";
import { isMuted, nameIn, addressPart, titleOf, type ChatContext } from "./context";
import { briefly } from "./when";

type Kind = "said" | "draft" | "typing" | "failed" | "waits";

interface ListProps {
  open: string; // the open chat
  ctx: ChatContext;
  rest: () => HTMLElement | null; // gets the focus of a row that is gone
}

export function ChatList({ open, ctx, rest }: ListProps) {
  const list = useRef<HTMLUListElement>(null);
  const chats = ctx.connection.signals.order.value;
  useKeptFocus(list, rest);
  return (
    <>
      <div class="empty" hidden={chats.length > 0}>
        <p>{c.none}</p>
        <a href="#/friends">{c.toFriends}</a>
      </div>
      <ul class="chat-list" ref={list} onKeyDown={(e) => walk(list.current!, e)}>
        {chats.map((chat) => (
          <ChatItem key={chat} chat={chat} open={chat === open} ctx={ctx} />
        ))}
      </ul>
    </>
  );
}

function ChatItem({ chat, open, ctx }: { chat: string; open: boolean; ctx: ChatContext }) {
  const { signals, groups } = ctx.connection;
  const state = signals.get(chat);
  ctx.clock.track();
  if (!state) return null;
  const place = addressPart(chat);
  const status = groupOf(chat) ? "offline" : signals.status(place);
  const [kind, line] = lastLine(state, signals.pending(chat).at(-1), ctx, open);
  const muted = isMuted(state.muted) || groups.notify(chat) === "none";
  return (
    <li data-user={place}>
      <a href={`#/chats/${place}`} class={`chat-row ${kind}`} aria-current={open ? "true" : undefined}>
        <span class="room-face" data-status={status}>
          <ChatFace chat={chat} ctx={ctx} />
          <span class="presence" />
        </span>
        <span class="chat-text">
          <span class="chat-top">
            <span class="chat-name">{titleOf(ctx, chat)}</span>
            {status !== "offline" && <span class="sr">{c.presence[status]}</span>}
            <time class="chat-at">{state.seq > 0 ? briefly(state.at) : ""}</time>
          </span>
          <span class="chat-bottom">
            <span class="chat-line">
              {kind === "draft" && <span class="draft">{c.draft}</span>}
              {kind === "failed" && <span class="draft">{c.failed}</span>}
              {kind === "waits" && <Sign name="clock" />}
              {line}
            </span>
            {state.unread > 0 && groups.hasMention(state) && (
              <span class="at-me" data-mentioned="">
                <span aria-hidden="true">@</span>
                <span class="sr">{g.mentioned}</span>
              </span>
            )}
            {muted && (
              <span class="sign">
                <Sign name="quiet" />
                <span class="sr">{c.isMuted}</span>
              </span>
            )}
            {state.pinned && (
              <span class="sign">
                <Sign name="pin" />
                <span class="sr">{c.isPinned}</span>
              </span>
            )}
            {state.unread > 0 && (
              <span class={muted ? "badge quiet" : "badge"} data-unread-chat="">
                {state.unread > 99 ? "99+" : state.unread}
                <span class="sr">{t.frame.newMessages(state.unread)}</span>
              </span>
            )}
          </span>
        </span>
      </a>
    </li>
  );
}

// lastLine returns the kind and the text of the line below the title.
function lastLine(chat: ChatState, waiting: Outgoing | undefined, ctx: ChatContext, open: boolean): [Kind, string] {
  const group = groupOf(chat.chat);
  if (chat.typing) return ["typing", group ? g.somebodyTypes : c.typing];
  if (waiting) return [waiting.state === "failed" ? "failed" : "waits", c.youSay + " " + previewOut(waiting, ctx)];
  if (chat.draft && !open) return ["draft", chat.draft];
  if (!chat.last) return ["said", ""];
  const { from, system } = chat.last;
  let who = "";
  if (from === ctx.me.id) who = c.youSay + " ";
  else if (group) who = c.says(nameIn(ctx, from, group)) + " ";
  return ["said", (system ? "" : who) + preview(chat.last, ctx, chat.chat)];
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

/** The files that other users offer, except those of the open chat. */
export function Offers({ user, ctx, rest }: { user: string; ctx: ChatContext; rest: () => HTMLElement | null }) {
  const list = useRef<HTMLUListElement>(null);
  const offers = ctx.connection.files.offers().filter((f) => f.from !== user);
  useKeptFocus(list, rest);
  return (
    <ul class="chat-list offers" aria-label={c.files.offersLabel} hidden={offers.length === 0} ref={list}>
      {offers.map((f) => (
        <li key={f.id}>
          <a class="chat-row" href={`#/chats/${f.from}`}>
            <Sign name="file" />
            <span class="chat-text">
              <span class="chat-name">{nameIn(ctx, f.from)}</span>
              <span class="chat-line">{c.files.offers(f.name)}</span>
            </span>
          </a>
        </li>
      ))}
    </ul>
  );
}

/** The place of the open chat while none is open. */
export const NoneOpen = () => (
  <section class="room none-open" aria-label={c.noneOpen}>
    <p class="muted">
      <Icon name="temple" />
      {c.noneOpen}
    </p>
  </section>
);
