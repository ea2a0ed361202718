// The page Chats: the list, and next to it the open chat. A narrow screen shows one of them.

import { effect, signal, type ReadonlySignal } from "@preact/signals";
import { isTemporary, Refused, type User } from "@stoa-dev/client";
import { render, type RefObject } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { h } from "../dom";
import type { Connection } from "../connection";
import type { People } from "../people";
import { Ended } from "../session";
import { Changes } from "../state/changes";
import { groupOf } from "../state/groups";
import { t } from "../texts";
import { c } from "../texts/chats";
import { g } from "../texts/groups";
import { Sign } from "../ui/icon";
import type { View } from "../view";
import { ChatList, NoneOpen, Offers } from "./list";
import { newGroup } from "./newgroup";
import { pick } from "./pick";
import { OpenChatView, type OpenChatHandle } from "./openchat";
import { ChatSearch } from "./search";
import { chatAt, explain, addressPart, type ChatContext } from "./context";

/** The parts of an address: the chat, "" for the list, and the message, 0 for none. */
interface Address {
  chat: string;
  seq: number;
}

// parseAddress returns the parts of an address of this page. For other pages it is undefined.
function parseAddress(hash: string): Address | undefined {
  const found = /^#\/chats(?:\/((?:g:)?[\w-]+)(?:\/(\d+))?)?$/.exec(hash);
  return found ? { chat: found[1] ? chatAt(found[1]) : "", seq: Number(found[2] ?? 0) } : undefined;
}

export function chatsView(me: User, connection: Connection, people: People, fail: (text: string) => void): View {
  const closed = new AbortController();
  const ctx: ChatContext = {
    me,
    connection,
    people,
    signal: closed.signal,
    clock: new Changes(),
    failed: (err) => {
      if (!(err instanceof Ended) && !closed.signal.aborted) fail(explain(err));
    },
  };
  const address = signal<Address>({ chat: "", seq: 0 });
  const openChat: RefObject<OpenChatHandle | null> = { current: null };
  const titles = new Map<string, string>(); // of groups that were open

  // The address may name a group that the user has joined just now, with its event still to come. Or the user was
  // removed while the page was suspended. The server decides.
  const loading = new Set<string>();
  async function loadGroup(group: string): Promise<void> {
    if (loading.has(group)) return;
    loading.add(group);
    try {
      const membership = await connection.client.call("groups.get", { path: { group } });
      if (membership.me) return connection.groups.applyMembership(membership);
    } catch (err) {
      if (!(err instanceof Refused) || isTemporary(err)) throw err;
    } finally {
      loading.delete(group);
    }
    if (!closed.signal.aborted && groupOf(address.peek().chat) === group) location.replace(`#/group/${group}`); // the page before the group
  }

  /** Opens the chat of the address. */
  function follow(): boolean {
    const to = parseAddress(location.hash);
    if (!to) return false;
    if (to.seq > 0) history.replaceState(null, "", `#/chats/${addressPart(to.chat)}`); // so that the same link works again
    if (to.chat !== address.peek().chat) address.value = to;
    else if (to.seq > 0) openChat.current?.goTo(to.seq);
    return true;
  }

  function catchUp(): void {
    const { chat } = address.peek();
    if (chat && !groupOf(chat) && connection.client.state === "online" && !document.hidden)
      void connection.presences.ask(addressPart(chat));
  }

  const el = h("div", { class: "chats" });
  document.body.classList.add("chatting");
  const tick = () => ctx.clock.publish();
  const offs = [
    connection.client.on("state", tick),
    connection.client.on("group.left", ({ group, why }) => {
      if (groupOf(address.peek().chat) !== group) return;
      const name = titles.get(group) ?? g.group; // the group itself is already removed
      location.hash = "#/chats";
      fail(g.gone[why](name));
    }),
    effect(() => {
      const { chat } = address.value;
      const group = groupOf(chat);
      document.body.classList.toggle("in-room", chat !== "");
      if (!group) return;
      if (connection.groups.get(group)) titles.set(group, connection.groups.title(group));
      else if (connection.groups.ready) void loadGroup(group).catch(ctx.failed);
    }),
  ];
  document.addEventListener("visibilitychange", tick, { signal: closed.signal });
  addEventListener("resize", tick, { signal: closed.signal });
  const clock = setInterval(() => {
    catchUp(); // presence events are not stored, so one may be lost
    tick(); // "5 minutes ago" becomes outdated
  }, 30_000);
  void people.want();
  render(<Chats address={address} ctx={ctx} openChat={openChat} />, el);

  return {
    el,
    follow,
    close: () => {
      closed.abort();
      clearInterval(clock);
      for (const off of offs) off();
      render(null, el);
      document.body.classList.remove("chatting", "in-room");
    },
    catchUp,
  };
}

interface ChatsProps {
  address: ReadonlySignal<Address>;
  ctx: ChatContext;
  openChat: RefObject<OpenChatHandle | null>;
}

function Chats({ address, ctx, openChat }: ChatsProps) {
  const side = useRef<HTMLElement>(null);
  const heading = useRef<HTMLHeadingElement>(null);
  const left = useRef(""); // the chat that was open before
  const { chat, seq } = address.value;

  // After a chat, its row in the list gets the focus.
  useLayoutEffect(() => {
    const row = side.current!.querySelector<HTMLElement>(`[data-user="${addressPart(left.current)}"] a`);
    if (!chat && left.current) (row ?? heading.current!).focus();
    left.current = chat;
  }, [chat]);

  const rest = () => heading.current;
  const start = () =>
    pick(c.newChat, ctx, (chat) => void (location.hash = `#/chats/${addressPart(chat)}`)).catch(ctx.failed);
  return (
    <>
      <section class="chats-side" aria-label={t.frame.titles.chats} ref={side}>
        <header>
          <h1 tabindex={-1} ref={heading}>
            {t.frame.titles.chats}
          </h1>
          <button
            type="button"
            class="round"
            aria-haspopup="dialog"
            aria-label={g.newGroup}
            title={g.newGroup}
            onClick={() => newGroup(ctx)}
          >
            <Sign name="people" />
          </button>
          <button type="button" class="secondary" aria-haspopup="dialog" onClick={() => void start()}>
            {c.newChat}
          </button>
        </header>
        <ChatSearch ctx={ctx}>
          <Offers user={chat && !groupOf(chat) ? addressPart(chat) : ""} ctx={ctx} rest={rest} />
          <ChatList open={chat} ctx={ctx} rest={rest} />
        </ChatSearch>
      </section>
      <div class="room-place">
        {chat ? <OpenChatView key={chat} chat={chat} at={seq} ctx={ctx} handle={openChat} /> : <NoneOpen />}
      </div>
    </>
  );
}
