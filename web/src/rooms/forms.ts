// The dialogs of a room: links, bans, settings.

import type { Room, RoomBans, RoomLink, RoomLinks, RoomUpdate } from "@stoa-dev/client";
import { now } from "../api";
import { act, twice } from "../buttons";
import { ago } from "../days";
import { dialog } from "../dialog";
import { h } from "../dom";
import { field, form } from "../form";
import { nameOf, personRow } from "../person";
import { t } from "../texts";
import { r } from "../texts/rooms";
import { area, closeRow, fault, into, saveRow, select } from "../chat/groupforms";
import { momentOf } from "../chat/when";
import type { RoomMembership, Seat } from "./seat";

const LIVES = [1, 24, 168, 720]; // hours

/** Creates links into the room, and copies and revokes them. */
export function invite(seat: Seat): void {
  const life = select(r.linkLife, "hours", LIVES, r.hours, 168);
  const list = h("ul", { class: "group-links" });
  const none = h("p", { class: "muted" }, t.words.moment);
  const said = h("span", { class: "saved", role: "status" });
  const wrong = fault();
  const failed = into(wrong);
  const row = (l: RoomLink): HTMLLIElement => {
    const text = h("input", {
      type: "text",
      readonly: true,
      class: "link-text",
      "aria-label": r.linkLabel,
      onfocus: () => text.select(),
    });
    text.value = `${location.origin}/#/watch/${l.id}`;
    const copy = act(
      r.copy,
      "secondary",
      async () => {
        text.select();
        await navigator.clipboard.writeText(text.value);
        said.textContent = r.copied;
      },
      failed,
    );
    copy.hidden = !navigator.clipboard; // there is no clipboard outside secure contexts: the text can be selected
    const revoke = async () => {
      await seat.ask(`/links/${l.id}`, { method: "DELETE" });
      el.remove();
      none.hidden = list.children.length > 0;
      life.input.focus();
    };
    const el = h(
      "li",
      { "data-link": l.id },
      text,
      h("p", { class: "hint" }, r.linkEnds(momentOf(l.expires))),
      h("div", { class: "row" }, copy, twice(r.revoke, r.revokeSure, revoke, failed)),
    );
    return el;
  };
  const show = (all: RoomLink[]) => {
    list.prepend(...all.map(row));
    none.textContent = r.noLinks;
    none.hidden = list.children.length > 0;
  };
  dialog(r.invite, (close) => [
    h("p", { class: "muted" }, r.inviteHint),
    form(
      { class: "stack" },
      [life],
      async () =>
        show([await seat.ask<RoomLink>("/links", { method: "POST", body: { hours: Number(life.input.value) } })]),
      h("div", { class: "row" }, h("button", { type: "submit", class: "primary" }, r.newLink), said),
    ),
    wrong,
    none,
    list,
    closeRow(close),
  ]);
  seat.ask<RoomLinks>("/links").then((got) => show(got.links), failed);
}

/** Lists the banned users. */
export function bans(seat: Seat): void {
  const list = h("ul", { class: "persons" });
  const none = h("p", { class: "muted" }, t.words.moment);
  const wrong = fault();
  const failed = into(wrong);
  let cursor = "";
  const read = async () => {
    const page = await seat.ask<RoomBans>(`/bans?limit=50${cursor && `&cursor=${encodeURIComponent(cursor)}`}`);
    for (const b of page.bans) {
      const lift = async () => {
        await seat.ask(`/bans/${b.user.id}`, { method: "DELETE" });
        row.remove();
        none.hidden = list.children.length > 0;
        el.querySelector<HTMLElement>("h2")?.focus();
      };
      const row = personRow(
        b.user,
        [nameOf(b.user)],
        [ago(b.at, now())],
        act(r.lift, "secondary", lift, failed, r.liftName(nameOf(b.user))),
      );
      list.append(row);
    }
    cursor = page.next ?? "";
    more.hidden = !cursor;
    none.textContent = r.noBans;
    none.hidden = list.children.length > 0;
  };
  const more = act(t.words.showMore, "link", read, failed);
  more.hidden = true;
  const el = dialog(r.bans, (close) => [none, list, more, wrong, closeRow(close)]);
  read().catch(failed);
}

/** Changes the settings of a room. */
export function settings(seat: Seat, is: Room, saved: (room: Room) => void): void {
  const name = field(r.name, { name: "room_name", required: true, maxlength: 60, autocomplete: "off", value: is.name });
  const access = select(r.access, "access", ["invited", "open"] as const, (v) => r.accessOf[v], is.access);
  const password = field(
    is.password ? r.passwordChange : r.password,
    { name: "password", type: "text", maxlength: 128, autocomplete: "off" },
    r.passwordHint,
  );
  const loop = select(r.loop, "loop", ["off", "item", "list"] as const, (v) => r.loops[v], is.loop);
  const words = area(r.words, "words", (is.words ?? []).join("\n"), 8200, r.wordsHint);
  const box = (name: string, text: string, checked: boolean) => {
    const input = h("input", { type: "checkbox", name });
    input.checked = checked;
    return { input, el: h("label", { class: "switch" }, input, h("span", {}, text)) };
  };
  const listed = box("listed", r.listed, is.listed);
  const none = box("no_password", r.passwordNone, false);
  const guests = box("guests", r.guests, is.guests);
  const hold = box("hold", r.hold, is.hold);
  const control = box("member_control", r.membersControl, is.member_may.includes("control"));
  const playlist = box("member_playlist", r.membersPlaylist, is.member_may.includes("playlist"));
  none.el.hidden = !is.password;
  dialog(r.settings, (close) => [
    form(
      { class: "stack" },
      [name, access, password, loop, words],
      async () => {
        const may = is.member_may.filter((m) => m !== "control" && m !== "playlist");
        if (control.input.checked) may.push("control");
        if (playlist.input.checked) may.push("playlist");
        const list = words.input.value
          .split("\n")
          .map((w) => w.trim())
          .filter(Boolean);
        // Unchanged fields are not sent, because another user may have changed them meanwhile.
        const body: RoomUpdate = {};
        if (name.input.value.trim() !== is.name) body.name = name.input.value.trim();
        if (access.input.value !== is.access) body.access = access.input.value as Room["access"];
        if (none.input.checked) body.password = "";
        else if (password.input.value) body.password = password.input.value;
        if (listed.input.checked !== is.listed) body.listed = listed.input.checked;
        if (guests.input.checked !== is.guests) body.guests = guests.input.checked;
        if (hold.input.checked !== is.hold) body.hold = hold.input.checked;
        if (loop.input.value !== is.loop) body.loop = loop.input.value as Room["loop"];
        if ([...may].sort().join() !== [...is.member_may].sort().join()) body.member_may = may;
        if (list.join("\n") !== (is.words ?? []).join("\n")) body.words = list;
        if (Object.keys(body).length > 0) saved((await seat.ask<RoomMembership>("", { method: "PATCH", body })).room);
        close();
      },
      none.el,
      listed.el,
      guests.el,
      hold.el,
      control.el,
      playlist.el,
      saveRow(close),
    ),
  ]);
}
