// The page Rooms: the user's rooms and the public ones, the page before a room, and the open room.

import type { RoomNew } from "@stoa-dev/client";
import { dialog } from "../dialog";
import { h, put } from "../dom";
import { field, form, say } from "../form";
import type { Connection } from "../connection";
import { Ended, json } from "../session";
import { t } from "../texts";
import { r } from "../texts/rooms";
import type { View } from "../view";
import { unloaded } from "../buttons";
import { Refused } from "../api";
import { door, type To } from "./door";
import { roomList } from "./list";
import { openRoom, type RoomView } from "./room";
import { guestSeat, userSeat, type RoomMembership, type Seat } from "./seat";

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
    const entered = (room: string) => {
      at = `#/rooms/${room}`;
      if (location.hash !== at) history.replaceState(null, "", at);
      enter(room);
    };
    put(el, h("p", { class: "muted" }, t.words.moment));
    const mine = at;
    const show = () =>
      mine === at &&
      put(
        el,
        door(to, (room) => mine === at && entered(room), fail),
      );
    if ("link" in to) show();
    else void look(to.room);
    return true;

    async function look(id: string): Promise<void> {
      try {
        const { room, me } = await json<RoomMembership>(`/v1/rooms/${id}`);
        if (mine === at) me ? entered(room.id) : show();
      } catch (err) {
        if (mine !== at || err instanceof Ended) return;
        if (err instanceof Refused && err.problem.status === 404) show();
        else
          put(
            el,
            unloaded(say(err), () => look(id)),
          );
      }
    }
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

function newRoom(): void {
  const name = field(r.name, { name: "room_name", required: true, maxlength: 60, autocomplete: "off" }, r.nameHint);
  const access = field(
    r.access,
    { name: "access" },
    undefined,
    h("select", {}, ...(["invited", "open"] as const).map((value) => h("option", { value }, r.accessOf[value]))),
  );
  const password = field(
    r.password,
    { name: "password", type: "text", maxlength: 128, autocomplete: "off" },
    r.passwordHint,
  );
  const listed = h("input", { type: "checkbox", name: "listed" });
  const guests = h("input", { type: "checkbox", name: "guests" });
  const further = h(
    "div",
    { class: "stack" },
    password.el,
    h("label", { class: "switch" }, listed, h("span", {}, r.listed)),
  );
  const fits = () => (further.hidden = access.input.value !== "open");
  access.input.addEventListener("change", fits);
  fits();
  dialog(r.newRoom, (close) => [
    form(
      { class: "stack" },
      [name, access, password],
      async () => {
        const open = access.input.value === "open";
        const body: RoomNew = {
          name: name.input.value.trim(),
          access: access.input.value as "invited" | "open",
          guests: guests.checked,
          ...(open && { listed: listed.checked }),
          ...(open && password.input.value && { password: password.input.value }),
        };
        const { room } = await json<RoomMembership>("/v1/rooms", { method: "POST", body });
        close();
        location.hash = `#/rooms/${room.id}`;
      },
      further,
      h("label", { class: "switch" }, guests, h("span", {}, r.guests)),
      h(
        "div",
        { class: "row" },
        h("button", { type: "submit", class: "primary" }, r.create),
        h("button", { type: "button", class: "link", onclick: close }, t.words.cancel),
      ),
    ),
  ]);
  name.input.focus();
}
