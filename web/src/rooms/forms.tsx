// The dialogs of rooms: a new room, and the links, bans and settings of a room.

import { useSignal } from "@preact/signals";
import type { Room, RoomBans, RoomLink, RoomLinks, RoomNew, RoomUpdate } from "@stoa-dev/client";
import { json } from "../session";
import { r } from "../texts/rooms";
import { Bans } from "../ui/bans";
import { openDialog } from "../ui/dialog";
import { Area, CloseRow, Form, Input, SaveRow, Select, Switch, textOf } from "../ui/form";
import { Links } from "../ui/links";
import type { RoomMembership, Seat } from "./seat";

const ACCESS = ["invited", "open"] as const;
const LOOPS = ["off", "item", "list"] as const;

/** Creates links into the room, and copies and revokes them. */
export const invite = (seat: Seat) =>
  openDialog(r.invite, (close) => (
    <>
      <p class="muted">{r.inviteHint}</p>
      <Links
        texts={r}
        place="watch"
        load={async () => (await seat.ask<RoomLinks>("/links")).links}
        create={(values) =>
          seat.ask<RoomLink>("/links", { method: "POST", body: { hours: Number(values.get("hours")) } })
        }
        revoke={(link) => seat.ask(`/links/${link}`, { method: "DELETE" })}
      />
      <CloseRow close={close} />
    </>
  ));

/** Lists the banned users. */
export const bans = (seat: Seat) =>
  openDialog(r.bans, (close) => (
    <>
      <Bans
        texts={r}
        load={(cursor) => seat.ask<RoomBans>(`/bans?limit=50${cursor && `&cursor=${encodeURIComponent(cursor)}`}`)}
        lift={(user) => seat.ask(`/bans/${user}`, { method: "DELETE" })}
      />
      <CloseRow close={close} />
    </>
  ));

/** Changes the settings of a room. Unchanged fields are not sent, because another user may have changed them meanwhile. */
export function settings(seat: Seat, is: Room, saved: (room: Room) => void): void {
  const { member_may: rights, words: listed = [] } = is;
  const save = async (values: FormData) => {
    const on = (name: string) => values.has(name);
    const body: RoomUpdate = {};
    const [name, password] = [textOf(values, "room_name"), values.get("password") as string];
    const [access, loop] = [values.get("access") as Room["access"], values.get("loop") as Room["loop"]];
    const words = textOf(values, "words")
      .split(/\s*\n\s*/)
      .filter(Boolean);
    const may = rights.filter((m) => m !== "control" && m !== "playlist");
    if (on("member_control")) may.push("control");
    if (on("member_playlist")) may.push("playlist");
    if (name !== is.name) body.name = name;
    if (access !== is.access) body.access = access;
    if (on("no_password")) body.password = "";
    else if (password) body.password = password;
    for (const key of ["listed", "guests", "hold"] as const) if (on(key) !== is[key]) body[key] = on(key);
    if (loop !== is.loop) body.loop = loop;
    if ([...may].sort().join() !== [...rights].sort().join()) body.member_may = may;
    if (words.join("\n") !== listed.join("\n")) body.words = words;
    if (Object.keys(body).length > 0) saved((await seat.ask<RoomMembership>("", { method: "PATCH", body })).room);
  };
  openDialog(r.settings, (close) => (
    <Form
      class="stack"
      submit={(values) => save(values).then(close)}
      fields={
        <>
          <Input label={r.name} name="room_name" required maxlength={60} defaultValue={is.name} />
          <Select label={r.access} name="access" values={ACCESS} text={(v) => r.accessOf[v]} chosen={is.access} />
          <Input
            label={is.password ? r.passwordChange : r.password}
            name="password"
            hint={r.passwordHint}
            maxlength={128}
          />
          <Select label={r.loop} name="loop" values={LOOPS} text={(v) => r.loops[v]} chosen={is.loop} />
          <Area label={r.words} name="words" hint={r.wordsHint} text={listed.join("\n")} maxlength={8200} />
        </>
      }
    >
      <Switch label={r.passwordNone} name="no_password" hidden={!is.password} />
      <Switch label={r.listed} name="listed" on={is.listed} />
      <Switch label={r.guests} name="guests" on={is.guests} />
      <Switch label={r.hold} name="hold" on={is.hold} />
      <Switch label={r.membersControl} name="member_control" on={rights.includes("control")} />
      <Switch label={r.membersPlaylist} name="member_playlist" on={rights.includes("playlist")} />
      <SaveRow close={close} />
    </Form>
  ));
}

/** Creates a room and enters it. */
export const newRoom = () =>
  openDialog(r.newRoom, (close) => <NewRoom close={close} />)
    .querySelector("input")!
    .focus();

function NewRoom({ close }: { close: () => void }) {
  const access = useSignal<(typeof ACCESS)[number]>("invited");
  const open = access.value === "open";
  const create = async (values: FormData) => {
    const password = values.get("password") as string;
    const body: RoomNew = {
      name: textOf(values, "room_name"),
      access: access.peek(),
      guests: values.has("guests"),
      ...(open && { listed: values.has("listed") }),
      ...(open && password && { password }),
    };
    const { room } = await json<RoomMembership>("/v1/rooms", { method: "POST", body });
    close();
    location.hash = `#/rooms/${room.id}`;
  };
  return (
    <Form
      class="stack"
      submit={create}
      fields={
        <>
          <Input label={r.name} name="room_name" hint={r.nameHint} required maxlength={60} />
          <Select
            label={r.access}
            name="access"
            values={ACCESS}
            text={(v) => r.accessOf[v]}
            changed={(v) => (access.value = v)}
          />
          <Input label={r.password} name="password" hint={r.passwordHint} hidden={!open} maxlength={128} />
          <Switch label={r.listed} name="listed" hidden={!open} />
        </>
      }
    >
      <Switch label={r.guests} name="guests" />
      <SaveRow close={close} text={r.create} />
    </Form>
  );
}
