// The page Rooms: the user's rooms and the public ones, the page before a room, and the open room.

import { h, put } from "../dom";
import { say } from "../form";
import type { Connection } from "../connection";
import { Ended } from "../session";
import { r } from "../texts/rooms";
import type { View } from "../view";
import { door, type To } from "./door";
import { newRoom } from "./forms";
import { roomList } from "./list";
import { openRoom, type RoomView } from "./room";
import { guestSeat, userSeat, type Seat } from "./seat";

/** The target of an address on this page; undefined for other pages. */
export function addressed(hash: string): To | "list" | undefined {
  const found = /^#\/(?:rooms(?:\/([\w-]+))?|watch\/([\w-]+))$/.exec(hash);
  if (!found) return undefined;
  return found[2] ? { link: found[2] } : found[1] ? { room: found[1] } : "list";
}

/** The view of a user. */
export function roomsView(connection: Connection, fail: (text: string) => void): View {
  const el = h("div", {});
  let open: { close: () => void; catchUp?: () => void } | undefined;
  let at = "";
  const failed = (err: unknown) => void (err instanceof Ended || fail(say(err)));

  function enter(room: string): void {
    open?.close();
    const view = openRoom(userSeat(room, connection.client), {
      fail,
      gone: (text) => ((location.hash = "#/rooms"), fail(text)),
    });
    open = view;
    put(el, view.el);
  }

  function follow(): boolean {
    const to = addressed(location.hash);
    if (!to) return false;
    if (location.hash === at) return true;
    at = location.hash;
    open?.close();
    open = undefined;
    if (to === "list") {
      const list = roomList(failed, newRoom);
      open = list;
      put(el, list.el);
      return true;
    }
    const mine = at;
    const entered = (room: string) => {
      if (mine !== at) return; // another page is open
      at = `#/rooms/${room}`;
      if (location.hash !== at) history.replaceState(null, "", at);
      enter(room);
    };
    put(el, door(to, entered, fail));
    return true;
  }

  return { el, follow, close: () => open?.close(), catchUp: () => open?.catchUp?.() };
}

/** The view of a visitor without an account. welcome draws the registration below a text. */
export function visitView(welcome: (text: string) => HTMLElement, fail: (text: string) => void): View {
  const to = addressed(location.hash);
  const account = welcome(r.shown);
  if (typeof to !== "object") return { el: account, close: () => {} };
  const el = h("div", {});
  let open: RoomView | undefined;
  const enter = (seat: Seat) => {
    const gone = (text: string) => {
      seat.leave();
      open?.close();
      open = undefined;
      showDoor();
      fail(text);
    };
    open = openRoom(seat, { fail, gone });
    put(el, open.el);
  };
  const entered = (room: string) => {
    history.replaceState(null, "", `#/rooms/${room}`);
    enter(guestSeat(room)!);
  };
  const showDoor = () => put(el, door(to, entered, fail, account));
  const seat = "room" in to ? guestSeat(to.room) : undefined;
  if (seat) enter(seat);
  else showDoor();
  return { el, close: () => open?.close() };
}
