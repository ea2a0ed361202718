// The page Chats: the list, and beside it the chat that is open. On a narrow screen one of them.

import type { User } from "../api";
import { h, icon, put } from "../dom";
import type { Line } from "../live";
import type { People } from "../people";
import { Ended } from "../session";
import { t } from "../texts";
import { c } from "../texts/chats";
import type { View } from "../view";
import { chatList } from "./list";
import { pick } from "./pick";
import { Room } from "./room";
import { chatSearch } from "./search";
import { directChats, explain, type Talk } from "./talk";

// placeOf is what an address of the page names: whose chat, "" for the list, and which message of it, 0 for none. Of other pages it is undefined.
function placeOf(hash: string): { user: string; seq: number } | undefined {
  const found = /^#\/chats(?:\/([\w-]+)(?:\/(\d+))?)?$/.exec(hash);
  return found ? { user: found[1] ?? "", seq: Number(found[2] ?? 0) } : undefined;
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

  const heading = h("h1", { tabindex: -1 }, t.frame.titles.chats);
  const list = chatList(talk, heading);
  const none = h("div", { class: "empty", hidden: true }, h("p", {}, c.none), h("a", { href: "#/friends" }, c.toFriends));
  const start = h("button", { type: "button", class: "secondary", "aria-haspopup": "dialog", onclick: () => void pick(c.newChat, talk, (user) => void (location.hash = `#/chats/${user}`)).catch(talk.failed) }, c.newChat);
  const search = chatSearch(talk, (on) => (chats.hidden = on));
  const chats = h("div", { class: "chat-scroll" }, none, list.el);
  const side = h("section", { class: "chats-side", "aria-label": t.frame.titles.chats }, h("header", {}, heading, start), search.field, search.el, chats);
  const nobody = h("section", { class: "room none-open", "aria-label": c.noneOpen }, h("p", { class: "muted" }, icon("temple"), c.noneOpen));
  const place = h("div", { class: "room-place" }, nobody);
  const el = h("div", { class: "chats" }, side, place);
  document.body.classList.add("chatting");

  // Many things may happen at once: they are drawn together.
  let waiting = false;
  const later = () => {
    if (waiting || closed.signal.aborted) return;
    waiting = true;
    setTimeout(() => {
      waiting = false;
      if (!closed.signal.aborted) draw();
    });
  };

  function draw(): void {
    list.show(room?.user ?? "");
    none.hidden = directChats(line.chats).length > 0;
    room?.draw();
  }

  /** Opens the chat that the address names. */
  function follow(): boolean {
    const to = placeOf(location.hash);
    if (!to) return false;
    const { user, seq } = to;
    if (seq > 0) history.replaceState(null, "", `#/chats/${user}`); // so that it can be gone to again
    if (room && user === room.user) {
      if (seq > 0) void room.goTo(seq);
      return true;
    }
    const left = room?.user;
    if (left === undefined && !user) return true;
    room?.close();
    room = user ? new Room(user, talk, seq) : undefined;
    put(place, room?.el ?? nobody);
    document.body.classList.toggle("in-room", room !== undefined);
    draw();
    if (seq > 0) return true; // the message gets the focus
    if (room) room.focus();
    else (side.querySelector<HTMLElement>(`[data-user="${left}"] a`) ?? heading).focus();
    return true;
  }

  function catchUp(): void {
    if (room && line.client.state === "online" && !document.hidden) void line.presences.ask(room.user);
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
  ];
  line.presences.watch(later, closed.signal);
  people.watch(later, closed.signal);
  document.addEventListener("visibilitychange", later, { signal: closed.signal });
  addEventListener("resize", later, { signal: closed.signal });
  const clock = setInterval(() => {
    catchUp(); // an event of presence is not kept: one may have been lost
    later(); // "5 minutes ago" grows old
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
