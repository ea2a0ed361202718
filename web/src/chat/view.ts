// The page Chats: the list, and next to it the open chat. A narrow screen shows one of them.

import { isTemporary, Refused, type User } from "@stoa-dev/client";
import { h, icon, put } from "../dom";
import type { Line } from "../line";
import type { People } from "../people";
import { rows } from "../rows";
import { Ended } from "../session";
import { t } from "../texts";
import { c } from "../texts/chats";
import type { View } from "../view";
import { sign } from "./icons";
import { chatList } from "./list";
import { pick } from "./pick";
import { g } from "../texts/groups";
import { groupOf } from "./groups";
import { newGroup } from "./newgroup";
import { Room } from "./room";
import { chatSearch } from "./search";
import { chatAt, explain, nameIn, placeOf, type Talk } from "./talk";

// addressed returns the chat of an address of the page, "" for the list, and the message, 0 for none. For other pages
// it is undefined.
function addressed(hash: string): { chat: string; seq: number } | undefined {
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
    failed: (err) => {
      if (!(err instanceof Ended) && !closed.signal.aborted) fail(explain(err));
    },
  };
  let room: Room | undefined;
  const titles = new Map<string, string>(); // of groups that were open

  const heading = h("h1", { tabindex: -1 }, t.frame.titles.chats);
  const list = chatList(talk, heading);
  const offers = h("ul", { class: "chat-list offers", "aria-label": c.files.offersLabel });
  const showOffers = rows<{ id: string; from: string; name: string; file: string }>(
    offers,
    (o) => o.id,
    (o) =>
      h(
        "li",
        {},
        h(
          "a",
          { class: "chat-row", href: `#/chats/${o.from}` },
          sign("file"),
          h(
            "span",
            { class: "chat-text" },
            h("span", { class: "chat-name" }, o.name),
            h("span", { class: "chat-line" }, c.files.offers(o.file)),
          ),
        ),
      ),
    heading,
  );
  const none = h(
    "div",
    { class: "empty", hidden: true },
    h("p", {}, c.none),
    h("a", { href: "#/friends" }, c.toFriends),
  );
  const start = h(
    "button",
    {
      type: "button",
      class: "secondary",
      "aria-haspopup": "dialog",
      onclick: () =>
        void pick(c.newChat, talk, (chat) => void (location.hash = `#/chats/${placeOf(chat)}`)).catch(talk.failed),
    },
    c.newChat,
  );
  const gather = h(
    "button",
    {
      type: "button",
      class: "round",
      "aria-haspopup": "dialog",
      "aria-label": g.newGroup,
      title: g.newGroup,
      onclick: () => newGroup(talk),
    },
    sign("people"),
  );
  const search = chatSearch(talk, (on) => (chats.hidden = on));
  const chats = h("div", { class: "chat-scroll" }, offers, none, list.el);
  const side = h(
    "section",
    { class: "chats-side", "aria-label": t.frame.titles.chats },
    h("header", {}, heading, gather, start),
    search.field,
    search.el,
    chats,
  );
  const nobody = h(
    "section",
    { class: "room none-open", "aria-label": c.noneOpen },
    h("p", { class: "muted" }, icon("temple"), c.noneOpen),
  );
  const place = h("div", { class: "room-place" }, nobody);
  const el = h("div", { class: "chats" }, side, place);
  document.body.classList.add("chatting");

  // Several changes at once cause one drawing.
  let waiting = false;
  const later = () => {
    if (waiting || closed.signal.aborted) return;
    waiting = true;
    setTimeout(() => {
      waiting = false;
      if (!closed.signal.aborted) draw();
    });
  };

  // The address may name a group that the user has joined just now, with its event still to come. Or the user was
  // removed while the page was suspended. The server decides.
  const asked = new Set<string>();
  async function askFor(group: string): Promise<void> {
    if (asked.has(group)) return;
    asked.add(group);
    try {
      const there = await line.client.call("groups.get", { path: { group } });
      if (there.me) return line.groups.take(there);
    } catch (err) {
      if (!(err instanceof Refused) || isTemporary(err)) throw err;
    } finally {
      asked.delete(group);
    }
    if (!closed.signal.aborted && groupOf(room?.chat ?? "") === group) location.replace(`#/group/${group}`); // the page before the group
  }

  function draw(): void {
    const waiting = line.files.offers().filter((f) => f.from !== room?.user);
    showOffers(waiting.map((f) => ({ id: f.id, from: f.from, name: nameIn(talk, f.from), file: f.name })));
    offers.hidden = waiting.length === 0;
    list.show(room?.chat ?? "");
    const group = groupOf(room?.chat ?? "");
    if (line.groups.get(group)) titles.set(group, line.groups.title(group));
    else if (group && line.groups.ready) void askFor(group).catch(talk.failed);
    none.hidden = line.chats.list().length > 0;
    room?.draw();
  }

  /** Opens the chat of the address. */
  function follow(): boolean {
    const to = addressed(location.hash);
    if (!to) return false;
    const { chat, seq } = to;
    if (seq > 0) history.replaceState(null, "", `#/chats/${placeOf(chat)}`); // so that the same link works again
    if (room && chat === room.chat) {
      if (seq > 0) void room.goTo(seq);
      return true;
    }
    const left = room && placeOf(room.chat);
    if (left === undefined && !chat) return true;
    room?.close();
    room = chat ? new Room(chat, talk, seq) : undefined;
    put(place, room?.el ?? nobody);
    document.body.classList.toggle("in-room", room !== undefined);
    draw();
    if (seq > 0) return true; // the message gets the focus
    if (room) room.focus();
    else (side.querySelector<HTMLElement>(`[data-user="${left}"] a`) ?? heading).focus();
    return true;
  }

  function catchUp(): void {
    if (room && line.client.state === "online" && !document.hidden) room.catchUp();
  }

  const offs = [
    ...(["chat", "outgoing", "synced"] as const).map((name) => line.chats.on(name, later)),
    line.chats.on("message", (m) => {
      if (m.chat === room?.chat) room.arrived(m);
      later();
    }),
    line.chats.on("changed", (m) => {
      if (m.chat === room?.chat) room.changed(m.seq, m);
      later();
    }),
    line.chats.on("hidden", ({ chat, seq }) => {
      if (chat === room?.chat) room.changed(seq);
      later();
    }),
    line.client.on("state", later),
    line.client.on("transfer.updated", (f) => room?.transferred(f)),
    line.client.on("group.left", ({ group, why }) => {
      if (groupOf(room?.chat ?? "") !== group) return;
      const name = titles.get(group) ?? g.group; // the group itself is already removed
      location.hash = "#/chats";
      fail(g.gone[why](name));
    }),
  ];
  line.presences.watch(later, closed.signal);
  people.watch(later, closed.signal);
  line.groups.watch(later, closed.signal);
  line.files.watch(later, closed.signal);
  document.addEventListener("visibilitychange", later, { signal: closed.signal });
  addEventListener("resize", later, { signal: closed.signal });
  const clock = setInterval(() => {
    catchUp(); // presence events are not stored, so one may be lost
    later(); // "5 minutes ago" becomes outdated
  }, 30_000);
  void people.want();
  draw();

  return {
    el,
    follow,
    close: () => {
      closed.abort();
      clearInterval(clock);
      for (const off of offs) off();
      room?.close();
      document.body.classList.remove("chatting", "in-room");
    },
    catchUp,
  };
}
