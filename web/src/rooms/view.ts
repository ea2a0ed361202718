// The page Rooms: the user's rooms and the public ones, the page before a room, and the open room.

import type { MyRooms, Room, RoomNew, Rooms } from "@stoa-dev/client";
import { dialog } from "../dialog";
import { h, put } from "../dom";
import { field, form, say } from "../form";
import type { Line } from "../line";
import { rows } from "../rows";
import { Ended, json } from "../session";
import { t } from "../texts";
import { r } from "../texts/rooms";
import type { View } from "../view";
import { act, unloaded } from "../buttons";
import { Refused } from "../api";
import { door, type To } from "./door";
import { RoomView } from "./room";
import { guestSeat, userSeat, type Place, type Seat } from "./seat";

const PAGE = 50;
const TYPED = 250; // ms after the last key until a search starts

/** The target of an address on this page; undefined for other pages. */
export function addressed(hash: string): To | "list" | undefined {
  const found = /^#\/(?:rooms(?:\/([\w-]+))?|watch\/([\w-]+))$/.exec(hash);
  if (!found) return undefined;
  return found[2] ? { link: found[2] } : found[1] ? { room: found[1] } : "list";
}

/** The view of a user. */
export function roomsView(line: Line, fail: (text: string) => void): View {
  const el = h("div", {});
  let open: { close: () => void; catchUp?: () => void } | undefined;
  let at = "";
  const failed = (err: unknown) => void (err instanceof Ended || fail(say(err)));

  function enter(room: string): void {
    open?.close();
    const view = new RoomView(userSeat(room, line.client), {
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
      const list = roomList(failed);
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
        const { room, me } = await json<Place>(`/v1/rooms/${id}`);
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
    open = new RoomView(seat, { fail, gone });
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

function roomList(failed: (err: unknown) => void) {
  const heading = h("h1", { tabindex: -1 }, t.frame.titles.rooms);
  const mine = h("ul", { class: "room-list", "aria-label": r.mine, "data-list": "mine" });
  const all = h("ul", { class: "room-list", "aria-label": r.list, "data-list": "public" });
  const noneMine = h("p", { class: "muted", hidden: true }, r.noneMine);
  const none = h("p", { class: "muted", role: "status", hidden: true }, r.none);
  const showMine = rows<Room>(mine, (room) => room.id, roomRow, heading);
  const showAll = rows<Room>(all, (room) => room.id, roomRow, heading);
  const search = h("input", {
    type: "search",
    name: "q",
    maxlength: 60,
    autocomplete: "off",
    "aria-label": r.find,
    placeholder: r.find,
    oninput: () => (clearTimeout(typed), (typed = setTimeout(() => void readAll(false), TYPED))),
  });
  const sort = h(
    "select",
    { name: "sort", "aria-label": r.sort, onchange: () => void readAll(false) },
    ...(["viewers", "new"] as const).map((value) => h("option", { value }, r.sorts[value])),
  );
  const more = act(t.words.showMore, "link", () => readAll(true), failed);
  let typed: ReturnType<typeof setTimeout> | undefined;
  let found: Room[] = [];
  let cursor = "";
  let reading = 0;
  more.hidden = true;

  async function readAll(further: boolean): Promise<void> {
    const now = ++reading;
    const query = new URLSearchParams({
      sort: sort.value,
      limit: String(PAGE),
      ...(search.value.trim() && { q: search.value.trim() }),
      ...(further && cursor && { cursor }),
    });
    try {
      const page = await json<Rooms>(`/v1/rooms?${query}`);
      if (now !== reading) return; // a later request has been sent
      found = [...(further ? found : []), ...page.rooms].filter(
        (room, i, list) => list.findIndex((other) => other.id === room.id) === i,
      );
      cursor = page.next ?? "";
      more.hidden = !cursor;
      none.hidden = found.length > 0;
      showAll(found);
    } catch (err) {
      if (now === reading) failed(err);
    }
  }
  async function readMine(): Promise<void> {
    try {
      const rooms: Room[] = [];
      let next: string | undefined;
      do {
        const page: MyRooms = await json<MyRooms>(
          `/v1/rooms/mine${next ? `?${new URLSearchParams({ cursor: next })}` : ""}`,
        );
        rooms.push(...page.rooms.map((place) => place.room));
        next = page.next;
      } while (next);
      showMine(rooms);
      noneMine.hidden = rooms.length > 0;
    } catch (err) {
      failed(err);
    }
  }
  const catchUp = () => {
    void readMine();
    void readAll(false);
  };
  catchUp();
  return {
    el: h(
      "div",
      { class: "narrow rooms" },
      h(
        "div",
        { class: "rooms-head" },
        heading,
        h("button", { type: "button", class: "primary small", "aria-haspopup": "dialog", onclick: newRoom }, r.newRoom),
      ),
      h("p", { class: "muted" }, r.about),
      h("section", { class: "card", "aria-label": r.mine }, h("h2", {}, r.mine), noneMine, mine),
      h(
        "section",
        { class: "card", "aria-label": r.list },
        h("h2", {}, r.list),
        h("div", { class: "rooms-find" }, search, sort),
        none,
        all,
        more,
      ),
    ),
    catchUp,
    close: () => {
      clearTimeout(typed);
      reading++;
    },
  };
}

const roomRow = (room: Room) =>
  h(
    "li",
    { "data-room": room.id },
    h(
      "a",
      { class: "room-row", href: `#/rooms/${room.id}` },
      h("span", { class: "face group", "aria-hidden": "true" }, ([...room.name][0] ?? "").toUpperCase()),
      h(
        "span",
        { class: "chat-text" },
        h("span", { class: "chat-name" }, room.name),
        h(
          "span",
          { class: "chat-line" },
          [r.viewers(room.viewers), room.password && r.locked].filter(Boolean).join(" · "),
        ),
      ),
    ),
  );

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
        const { room } = await json<Place>("/v1/rooms", { method: "POST", body });
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
