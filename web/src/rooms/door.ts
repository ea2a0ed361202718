// The page before a room, for users who are not in it. The room's address or an invitation link leads here.

import type { Answer, RoomGuest } from "@stoa-dev/client";
import { Refused, send } from "../api";
import { act, unloaded } from "../buttons";
import { h, put, type Child } from "../dom";
import { field, form, say } from "../form";
import { Ended, json } from "../session";
import { t } from "../texts";
import { r } from "../texts/rooms";
import { keepGuest, type RoomMembership } from "./seat";

export type To = { link: string } | { room: string };

/**
 * Shows the room of an address. It lets a user in, or if account is given, a guest; account is shown below. entered is
 * called with the room's id.
 */
export function door(
  to: To,
  entered: (room: string) => void,
  fail: (text: string) => void,
  account?: HTMLElement,
): HTMLElement {
  const guest = account !== undefined;
  const body = h(
    "section",
    { class: "card door", "aria-label": r.doorLabel },
    h("p", { class: "muted" }, t.words.moment),
  );
  const failed = (err: unknown) => void (err instanceof Ended || fail(say(err)));

  async function load(): Promise<void> {
    try {
      if ("link" in to)
        show(
          await (guest
            ? send(`/v1/room-links/${to.link}`).then((res) => res.json() as Promise<RoomMembership>)
            : json<RoomMembership>(`/v1/room-links/${to.link}`)),
        );
      else if (guest)
        visit(to.room, true); // the response does not state whether guests may join
      else show(await json<RoomMembership>(`/v1/rooms/${to.room}`));
    } catch (err) {
      if (err instanceof Refused && err.problem.status === 404)
        put(
          body,
          h("p", { class: "none" }, "link" in to ? r.worthless : r.unknown),
          guest ? null : h("a", { href: "#/rooms" }, r.toRooms),
        );
      else if (!(err instanceof Ended)) put(body, unloaded(say(err), load));
    }
  }

  function show({ room, me }: RoomMembership): void {
    if (me && !guest) return entered(room.id);
    const head: Child = h(
      "div",
      {},
      h("h2", { tabindex: -1 }, room.name),
      h("p", { class: "muted" }, r.viewers(room.viewers)),
    );
    if (guest) {
      if (room.guests) visit(room.id, false, head);
      else put(body, head, h("p", { class: "muted" }, r.noGuests));
      return;
    }
    const link = "link" in to ? to.link : "";
    const join = async (password: string) => {
      await json<Answer<"rooms.join">>(`/v1/rooms/${room.id}/join`, {
        method: "POST",
        body: { ...(password && { password }), ...(link && { link }) },
      });
      entered(room.id);
    };
    if (link || !room.password)
      return put(
        body,
        head,
        h(
          "div",
          { class: "row" },
          act(r.comeIn, "primary", () => join(""), failed),
        ),
      );
    const password = field(r.enterPassword, {
      name: "password",
      type: "password",
      required: true,
      maxlength: 128,
      autocomplete: "off",
    });
    put(
      body,
      head,
      form(
        { class: "stack" },
        [password],
        () => join(password.input.value),
        h("div", { class: "row" }, h("button", { type: "submit", class: "primary" }, r.comeIn)),
      ),
    );
  }

  function visit(room: string, asks: boolean, head: Child = null): void {
    const name = field(r.guestName, { name: "guest_name", required: true, maxlength: 40, autocomplete: "nickname" });
    const password = field(r.enterPasswordMaybe, {
      name: "password",
      type: "password",
      maxlength: 128,
      autocomplete: "off",
    });
    put(
      body,
      head,
      h("p", { class: "muted" }, r.guestsHere),
      form(
        { class: "stack" },
        asks ? [name, password] : [name],
        async () => {
          const link = "link" in to ? to.link : "";
          const res = await send(`/v1/rooms/${room}/guests`, {
            method: "POST",
            body: {
              name: name.input.value.trim(),
              ...(asks && password.input.value && { password: password.input.value }),
              ...(link && { link }),
            },
          });
          keepGuest((await res.json()) as RoomGuest);
          entered(room);
        },
        h("div", { class: "row" }, h("button", { type: "submit", class: "primary" }, r.asGuest)),
      ),
    );
  }

  void load();
  const el = h("div", { class: "narrow" }, h("h1", {}, r.doorTitle), body);
  return account ? h("div", { class: "stack" }, el, h("h2", { class: "narrow" }, r.orAccount), account) : el;
}
