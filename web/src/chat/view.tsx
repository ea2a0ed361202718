// The page Chats: the list, and next to it the open chat. A narrow screen shows one of them.

import { effect, signal, type ReadonlySignal } from "@preact/signals";
import { isTemporary, Refused, type User } from "@stoa-dev/client";
import { render, type RefObject } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { h } from "../dom";
import type { Line } from "../line";
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
import { Room, type RoomHandle } from "./room";
import { ChatSearch } from "./search";
import { chatAt, explain, placeOf, type Talk } from "./talk";

/** The place of an address: the chat, "" for the list, and the message, 0 for none. */
interface Place {
  chat: string;
  seq: number;
}

// addressed returns the place of an address of the page. For other pages it is undefined.
function addressed(hash: string): Place | undefined {
  const found = /^#\/chats(?:\/((?:g:)?[\w-]+)(?:\/(\d+))?)?$/.exec(hash);
  return found ? { chat: found[1] ? chatAt(found[1]) : "", seq: Number(found[2] ?? 0) } : undefined;
}

export function chatsView(me: User, line: Line, people: People, fail: (text: string) => void): View {
  const closed = new AbortController();
  const talk: Talk = {
    me,
    line,
    people,
    signal: closed.signal,
    clock: new Changes(),
    failed: (err) => {
      if (!(err instanceof Ended) && !closed.signal.aborted) fail(explain(err));
    },
  };
  const place = signal<Place>({ chat: "", seq: 0 });
  const room: RefObject<RoomHandle | null> = { current: null };
  const titles = new Map<string, string>(); // of groups that were open

  // The address may name a group that the user has joined just now, with its event still to come. Or the user was
  // removed while the page was suspended. The server decides.
  const loading = new Set<string>();
  async function loadGroup(group: string): Promise<void> {
    if (loading.has(group)) return;
    loading.add(group);
    try {
      const membership = await line.client.call("groups.get", { path: { group } });
      if (membership.me) return line.groups.take(membership);
    } catch (err) {
      if (!(err instanceof Refused) || isTemporary(err)) throw err;
    } finally {
      loading.delete(group);
    }
    if (!closed.signal.aborted && groupOf(place.peek().chat) === group) location.replace(`#/group/${group}`); // the page before the group
  }

  /** Opens the chat of the address. */
  function follow(): boolean {
    const to = addressed(location.hash);
    if (!to) return false;
    if (to.seq > 0) history.replaceState(null, "", `#/chats/${placeOf(to.chat)}`); // so that the same link works again
    if (to.chat !== place.peek().chat) place.value = to;
    else if (to.seq > 0) room.current?.goTo(to.seq);
    return true;
  }

  function catchUp(): void {
    const { chat } = place.peek();
    if (chat && !groupOf(chat) && line.client.state === "online" && !document.hidden)
      void line.presences.ask(placeOf(chat));
  }

  const el = h("div", { class: "chats" });
  document.body.classList.add("chatting");
  const tick = () => talk.clock.publish();
  const offs = [
    line.client.on("state", tick),
    line.client.on("group.left", ({ group, why }) => {
      if (groupOf(place.peek().chat) !== group) return;
      const name = titles.get(group) ?? g.group; // the group itself is already removed
      location.hash = "#/chats";
      fail(g.gone[why](name));
    }),
    effect(() => {
      const { chat } = place.value;
      const group = groupOf(chat);
      document.body.classList.toggle("in-room", chat !== "");
      if (!group) return;
      if (line.groups.get(group)) titles.set(group, line.groups.title(group));
      else if (line.groups.ready) void loadGroup(group).catch(talk.failed);
    }),
  ];
  document.addEventListener("visibilitychange", tick, { signal: closed.signal });
  addEventListener("resize", tick, { signal: closed.signal });
  const clock = setInterval(() => {
    catchUp(); // presence events are not stored, so one may be lost
    tick(); // "5 minutes ago" becomes outdated
  }, 30_000);
  void people.want();
  render(<Chats place={place} talk={talk} room={room} />, el);

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
  place: ReadonlySignal<Place>;
  talk: Talk;
  room: RefObject<RoomHandle | null>;
}

function Chats({ place, talk, room }: ChatsProps) {
  const side = useRef<HTMLElement>(null);
  const heading = useRef<HTMLHeadingElement>(null);
  const left = useRef(""); // the chat that was open before
  const { chat, seq } = place.value;

  // After a chat, its row in the list gets the focus.
  useLayoutEffect(() => {
    const row = side.current!.querySelector<HTMLElement>(`[data-user="${placeOf(left.current)}"] a`);
    if (!chat && left.current) (row ?? heading.current!).focus();
    left.current = chat;
  }, [chat]);

  const rest = () => heading.current;
  const start = () =>
    pick(c.newChat, talk, (chat) => void (location.hash = `#/chats/${placeOf(chat)}`)).catch(talk.failed);
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
            onClick={() => newGroup(talk)}
          >
            <Sign name="people" />
          </button>
          <button type="button" class="secondary" aria-haspopup="dialog" onClick={() => void start()}>
            {c.newChat}
          </button>
        </header>
        <ChatSearch talk={talk}>
          <Offers user={chat && !groupOf(chat) ? placeOf(chat) : ""} talk={talk} rest={rest} />
          <ChatList open={chat} talk={talk} rest={rest} />
        </ChatSearch>
      </section>
      <div class="room-place">
        {chat ? <Room key={chat} chat={chat} at={seq} talk={talk} handle={room} /> : <NoneOpen />}
      </div>
    </>
  );
}
