// One message of a chat.

import type { Message, Outgoing } from "@stoa-dev/client";
import { useRef } from "preact/hooks";
import { groupOf } from "../state/groups";
import type { BubbleRow } from "../state/stream";
import { t } from "../texts";
import { c } from "../texts/chats";
import { g } from "../texts/groups";
import { Act } from "../ui/act";
import { Face } from "../ui/face";
import { Sign } from "../ui/icon";
import { MessageContent } from "./content";
import { happened, mentioned, preview } from "./preview";
import { nameIn, sayRefusal, type ChatContext } from "./context";
import { timeOf } from "./when";

/** The actions of the open chat on its messages. */
export interface Actions {
  menu: (row: BubbleRow, opener: HTMLElement) => void;
  goTo: (seq: number) => void;
  react: (seq: number, emoji: string, on: boolean) => void;
  retry: (clientId: string) => Promise<void>;
  discard: (clientId: string) => Promise<void>;
  quote: (seq: number) => Message | "gone" | undefined;
}

interface BubbleProps {
  row: BubbleRow;
  chat: string;
  ctx: ChatContext;
  on: Actions;
}

const shapes = { sending: "clock", failed: "cross", sent: "tick", delivered: "ticks", read: "ticks" } as const;

export function Bubble({ row, chat, ctx, on }: BubbleProps) {
  const opener = useRef<HTMLButtonElement>(null);
  const { message: m, out, own, seq, tick, follows } = row;
  const { groups } = ctx.connection;
  const group = groupOf(chat);
  const body = m ?? out!.body;
  const authored = Boolean(group) && !own;
  const forMe = !own && !m?.recalled && groups.mentionsMe(m?.mentions);
  const at = m?.at ?? out!.at;
  const forwarded = m ? m.forwarded : out!.body.forward;
  const bare = body.kind === "text" && !body.text && Boolean(out?.body.forward); // the server adds the content
  const classes = [
    "message",
    own ? "own" : "theirs",
    authored && "authored",
    forMe && "for-me",
    follows && "follows",
    tick,
  ];
  return (
    <li class={classes.filter(Boolean).join(" ")} tabindex={-1} data-seq={seq || undefined} data-tick={tick}>
      {authored && !follows && (
        <span class="author-face">
          <Face profile={groups.profile(group, row.from)} />
        </span>
      )}
      <div class="speech">
        {authored ? (
          <Author user={row.from} group={group} follows={follows} ctx={ctx} />
        ) : (
          <span class="sr">{own ? c.youSay : c.says(nameIn(ctx, row.from))}</span>
        )}
        {forMe && <span class="sr">{g.mentioned}</span>}
        {forwarded && <p class="forwarded">{c.forwarded}</p>}
        {body.reply_to ? <Quote seq={body.reply_to} chat={chat} ctx={ctx} on={on} /> : null}
        {!bare && (
          <MessageContent
            m={body as Message}
            ctx={ctx}
            at={{ chat, seq }}
            names={mentioned(body.mentions, ctx, group)}
          />
        )}
        <p class="meta">
          {m?.edited && !m.recalled && <span>{c.edited}</span>}
          <time datetime={new Date(at).toISOString()}>{timeOf(at)}</time>
          {tick && (
            <span class="tick">
              <Sign name={shapes[tick]} />
              <span class="sr">{c.ticks[tick]}</span>
            </span>
          )}
        </p>
      </div>
      {seq > 0 && (
        <button
          type="button"
          class="round more"
          tabindex={-1}
          aria-haspopup="menu"
          aria-label={c.actions}
          ref={opener}
          onClick={() => on.menu(row, opener.current!)}
        >
          <Sign name="more" />
        </button>
      )}
      {m && <Reactions message={m} chat={chat} ctx={ctx} on={on} />}
      {tick === "failed" && <Failure out={out!} ctx={ctx} on={on} />}
    </li>
  );
}

/** An event of a group, among its messages. */
export function Happening({ message: m, ctx }: { message: Message; ctx: ChatContext }) {
  return (
    <li class="happening" data-seq={m.seq}>
      <span>
        {happened(m, ctx, m.chat)} <time datetime={m.at}>{timeOf(m.at)}</time>
      </span>
    </li>
  );
}

interface AuthorProps {
  user: string;
  group: string;
  follows: boolean;
  ctx: ChatContext;
}

// The name above the first of several bubbles; for a screen reader above each.
function Author({ user, group, follows, ctx }: AuthorProps) {
  const role = ctx.connection.groups.member(group, user)?.role ?? "member";
  return (
    <p class={follows ? "sr" : "author"}>
      {nameIn(ctx, user, group)} {role !== "member" && !follows && <span class="role">{g.roles[role]}</span>}
    </p>
  );
}

interface QuoteProps {
  seq: number;
  chat: string;
  ctx: ChatContext;
  on: Actions;
}

function Quote({ seq, chat, ctx, on }: QuoteProps) {
  const quoted = on.quote(seq);
  if (quoted === "gone") return <p class="quoted">{c.quoteGone}</p>;
  const name = (user: string) => (user === ctx.me.id ? t.words.you : nameIn(ctx, user, groupOf(chat)));
  return (
    <button type="button" class="quoted" onClick={() => on.goTo(seq)}>
      <span class="quoted-from">
        <span class="sr">{c.inReplyTo} </span>
        {quoted ? name(quoted.from) : "…"}
      </span>
      <span class="quoted-text">{quoted ? preview(quoted, ctx, chat) : ""}</span>
    </button>
  );
}

interface ReactionsProps {
  message: Message;
  chat: string;
  ctx: ChatContext;
  on: Actions;
}

function Reactions({ message: m, chat, ctx, on }: ReactionsProps) {
  const all = m.recalled ? [] : (m.reactions ?? []);
  if (all.length === 0) return null;
  const name = (user: string) => (user === ctx.me.id ? t.words.you : nameIn(ctx, user, groupOf(chat)));
  return (
    <div class="reactions" role="group" aria-label={c.reactions}>
      {all.map(({ emoji, users }) => {
        const mine = users.includes(ctx.me.id);
        const names = users.map(name).join(", ");
        return (
          <button
            key={emoji}
            type="button"
            class="reaction"
            aria-pressed={mine}
            aria-label={c.reactionOf(emoji, names)}
            title={names}
            onClick={() => on.react(m.seq, emoji, !mine)}
          >
            {emoji}
            {users.length > 1 && <span>{users.length}</span>}
          </button>
        );
      })}
    </div>
  );
}

function Failure({ out: { body, reason }, ctx, on }: { out: Outgoing; ctx: ChatContext; on: Actions }) {
  return (
    <div class="failure">
      <p class="fault">{c.notSent(sayRefusal(reason?.code ?? "", reason?.detail ?? ""))}</p>
      <div class="row">
        <Act kind="link" run={() => on.retry(body.client_id)} failed={ctx.failed}>
          {t.words.tryAgain}
        </Act>
        <Act kind="link" run={() => on.discard(body.client_id)} failed={ctx.failed}>
          {c.discard}
        </Act>
      </div>
    </div>
  );
}
