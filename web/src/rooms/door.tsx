// The page before a room, for users who are not in it. The room's address or an invitation link leads here.

import { useSignal } from "@preact/signals";
import type { Answer, Room, RoomGuest } from "@stoa-dev/client";
import { render } from "preact";
import { useLayoutEffect } from "preact/hooks";
import { Refused, send } from "../api";
import { h } from "../dom";
import { say } from "../form";
import { Ended, json } from "../session";
import { t } from "../texts";
import { r } from "../texts/rooms";
import { Act, Unloaded } from "../ui/act";
import { Form, Input, textOf } from "../ui/form";
import { keepGuest, type RoomMembership } from "./seat";

export type To = { link: string } | { room: string };

interface DoorProps {
  to: To;
  guest: boolean;
  entered: (room: string) => void;
  fail: (text: string) => void;
}

/**
 * Shows the room of an address. It lets a user in, or if account is given, a guest; account is shown below. entered is
 * called with the room's id, at once if the user is in the room.
 */
export function door(
  to: To,
  entered: (room: string) => void,
  fail: (text: string) => void,
  account?: HTMLElement,
): HTMLElement {
  const el = h("div", { class: "narrow" });
  render(<Door to={to} guest={account !== undefined} entered={entered} fail={fail} />, el);
  return account ? h("div", { class: "stack" }, el, h("h2", { class: "narrow" }, r.orAccount), account) : el;
}

function Door({ to, guest, entered, fail }: DoorProps) {
  // "unknown": a guest's response does not state whether guests may join.
  const room = useSignal<Room | "unknown" | undefined>(undefined);
  const fault = useSignal<unknown>(undefined);
  const link = "link" in to ? to.link : "";
  const load = async () => {
    try {
      if (guest && "room" in to) return void (room.value = "unknown");
      const path = "link" in to ? `/v1/room-links/${link}` : `/v1/rooms/${to.room}`;
      const got: RoomMembership = guest ? await (await send(path)).json() : await json<RoomMembership>(path);
      if (got.me && !guest) return entered(got.room.id);
      room.value = got.room;
    } catch (err) {
      if (!(err instanceof Ended)) fault.value = err;
    }
  };
  useLayoutEffect(() => void load(), []);

  const is = room.value;
  const content = () => {
    if (fault.value instanceof Refused && fault.value.problem.status === 404)
      return (
        <>
          <p class="none">{link ? r.worthless : r.unknown}</p>
          {!guest && <a href="#/rooms">{r.toRooms}</a>}
        </>
      );
    if (!is) return <Unloaded why={say(fault.value)} load={load} />;
    if (is === "unknown") return <Visit room={(to as { room: string }).room} link="" asks entered={entered} />;
    return (
      <>
        <div>
          <h2 tabindex={-1}>{is.name}</h2>
          <p class="muted">{r.viewers(is.viewers)}</p>
        </div>
        {!guest && <Enter room={is} link={link} entered={entered} fail={fail} />}
        {guest && is.guests && <Visit room={is.id} link={link} asks={false} entered={entered} />}
        {guest && !is.guests && <p class="muted">{r.noGuests}</p>}
      </>
    );
  };
  if (!is && !fault.value) return <p class="muted">{t.words.moment}</p>;
  return (
    <>
      <h1>{r.doorTitle}</h1>
      <section class="card door" aria-label={r.doorLabel}>
        {content()}
      </section>
    </>
  );
}

// Enter lets a user in.
function Enter({ room, link, entered, fail }: Pick<DoorProps, "entered" | "fail"> & { room: Room; link: string }) {
  const join = async (password: string) => {
    const body = { ...(password && { password }), ...(link && { link }) };
    await json<Answer<"rooms.join">>(`/v1/rooms/${room.id}/join`, { method: "POST", body });
    entered(room.id);
  };
  const failed = (err: unknown) => void (err instanceof Ended || fail(say(err)));
  if (link || !room.password)
    return (
      <div class="row">
        <Act kind="primary" run={() => join("")} failed={failed}>
          {r.comeIn}
        </Act>
      </div>
    );
  return (
    <Form
      class="stack"
      submit={(values) => join(values.get("password") as string)}
      fields={<Input label={r.enterPassword} name="password" type="password" required maxlength={128} />}
    >
      <div class="row">
        <button type="submit" class="primary">
          {r.comeIn}
        </button>
      </div>
    </Form>
  );
}

interface VisitProps extends Pick<DoorProps, "entered"> {
  room: string;
  link: string;
  asks: boolean; // for a password
}

// Visit lets a guest in.
function Visit({ room, link, asks, entered }: VisitProps) {
  const submit = async (values: FormData) => {
    const password = asks && (values.get("password") as string);
    const body = { name: textOf(values, "guest_name"), ...(password && { password }), ...(link && { link }) };
    const res = await send(`/v1/rooms/${room}/guests`, { method: "POST", body });
    keepGuest((await res.json()) as RoomGuest);
    entered(room);
  };
  return (
    <>
      <p class="muted">{r.guestsHere}</p>
      <Form
        class="stack"
        submit={submit}
        fields={
          <>
            <Input label={r.guestName} name="guest_name" required maxlength={40} autocomplete="nickname" />
            {asks && <Input label={r.enterPasswordMaybe} name="password" type="password" maxlength={128} />}
          </>
        }
      >
        <div class="row">
          <button type="submit" class="primary">
            {r.asGuest}
          </button>
        </div>
      </Form>
    </>
  );
}
