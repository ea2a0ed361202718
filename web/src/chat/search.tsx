// Search in the user's chats.

import { useSignal } from "@preact/signals";
import type { Message } from "@stoa-dev/client";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { groupOf } from "../state/groups";
import { t } from "../texts";
import { c } from "../texts/chats";
import { Act } from "../ui/act";
import { ChatFace } from "./face";
import { preview } from "./preview";
import { nameIn, addressPart, titleOf, type ChatContext } from "./context";
import { briefly } from "./when";

const AFTER = 300; // ms without a key until a search starts
const LEAD = 24; // letters before the match

interface Found {
  query: string;
  messages: Message[];
  next: string; // cursor
}

/** The field and the results. The children are hidden while the field has a text. */
export function ChatSearch({ ctx, children }: { ctx: ChatContext; children: ComponentChildren }) {
  const query = useSignal("");
  const found = useSignal<Found | undefined>(undefined); // of the present query
  const failed = useSignal(false);
  const input = useRef<HTMLInputElement>(null);

  const read = async (q: string, from?: Found) => {
    const { messages, next = "" } = await ctx.connection.chats.search(q, {
      limit: 20,
      ...(from && { cursor: from.next }),
    });
    if (q !== query.peek() || ctx.signal.aborted) return;
    found.value = { query: q, messages: [...(from?.messages ?? []), ...messages], next };
  };
  const type = () => {
    query.value = input.current!.value.trim();
  };
  useEffect(() => {
    const q = query.value;
    found.value = undefined;
    failed.value = false;
    if (!q) return;
    const search = () =>
      read(q).catch((err: unknown) => {
        if (q === query.peek()) failed.value = true;
        ctx.failed(err);
      });
    const timer = setTimeout(() => void search(), AFTER);
    return () => clearTimeout(timer);
  }, [query.value]);
  const escape = (e: KeyboardEvent) => {
    if (e.key !== "Escape" || !input.current!.value) return;
    e.preventDefault();
    input.current!.value = "";
    type();
  };

  const result = found.value;
  let count = failed.value ? "" : t.words.moment;
  if (result) count = c.found(result.messages.length, result.next !== "");
  return (
    <>
      <form class="chat-search" role="search" onSubmit={(e) => e.preventDefault()}>
        <input
          type="search"
          name="search"
          maxlength={100}
          autocomplete="off"
          aria-label={c.search}
          placeholder={c.search}
          ref={input}
          onInput={type}
          onKeyDown={escape}
        />
      </form>
      <div class="search-found" hidden={!query.value}>
        <p class="muted found-count" role="status">
          {query.value && count}
        </p>
        <ul class="chat-list">
          {result?.messages.map((m) => (
            <FoundItem key={`${m.chat} ${m.seq}`} message={m} query={result.query} ctx={ctx} />
          ))}
        </ul>
        <Act kind="link" hidden={!result?.next} run={() => result && read(result.query, result)} failed={ctx.failed}>
          {t.words.showMore}
        </Act>
      </div>
      <div class="chat-scroll" hidden={Boolean(query.value)}>
        {children}
      </div>
    </>
  );
}

function FoundItem({ message: m, query, ctx }: { message: Message; query: string; ctx: ChatContext }) {
  const group = groupOf(m.chat);
  const who = m.from === ctx.me.id ? c.youSay : group && c.says(nameIn(ctx, m.from, group));
  return (
    <li>
      <a class="chat-row" href={`#/chats/${addressPart(m.chat)}/${m.seq}`}>
        <ChatFace chat={m.chat} ctx={ctx} />
        <span class="chat-text">
          <span class="chat-top">
            <span class="chat-name">{titleOf(ctx, m.chat)}</span>
            <time class="chat-at">{briefly(m.at)}</time>
          </span>
          <span class="chat-line">
            {who && who + " "}
            <Marked text={preview(m, ctx, m.chat)} query={query} />
          </span>
        </span>
      </a>
    </li>
  );
}

// Marked highlights the first of the words. It ignores letter case. The server finds more forms of a word, which are not
// highlighted.
function Marked({ text, query }: { text: string; query: string }) {
  const word = query.split(/\s+/)[0]!.toLowerCase();
  const at = text.toLowerCase().indexOf(word);
  if (at < 0 || text.toLowerCase().length !== text.length) return <>{text}</>;
  const from = at > LEAD ? at - LEAD : 0;
  return (
    <>
      {(from > 0 ? "…" : "") + text.slice(from, at)}
      <mark>{text.slice(at, at + word.length)}</mark>
      {text.slice(at + word.length)}
    </>
  );
}
