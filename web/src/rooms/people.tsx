// The people in a room, and the actions on them. Only actions of the caller's rights are shown.

import type { RoomMember, RoomSelf } from "@stoa-dev/client";
import { useRef } from "preact/hooks";
import { now } from "../api";
import { openMenu, type Item } from "../chat/menu";
import { untilWords } from "../chat/when";
import { ranks, type RoomPeople } from "../state/people";
import { t } from "../texts";
import { r } from "../texts/rooms";
import { Act } from "../ui/act";
import { Face } from "../ui/face";
import { useKeptFocus } from "../ui/focus";
import { Sign } from "../ui/icon";
import type { TabPanel } from "../ui/tabs";
import type { Seat } from "./seat";

const HOUR = 3600_000; // ms
const PAST = new Date(0).toISOString(); // a mute until then has no effect

interface RoleProps {
  people: RoomPeople;
  me: RoomSelf | undefined;
  seat: Seat;
  failed: (err: unknown) => void;
}

export function People({ panel, people, me, seat, failed }: RoleProps & { panel: TabPanel }) {
  const list = useRef<HTMLUListElement>(null);
  const rest = useRef<HTMLSpanElement>(null);
  const members = people.sorted.value;
  const online = people.online.value;
  useKeptFocus(list, () => rest.current);
  return (
    <div class="stack" {...panel}>
      <span tabindex={-1} ref={rest} />
      <ul class="members" aria-label={r.tabs.people} ref={list}>
        {members.map((member) => (
          <MemberItem
            key={member.user.id}
            member={member}
            watches={online.has(member.user.id)}
            people={people}
            me={me}
            seat={seat}
            failed={failed}
          />
        ))}
      </ul>
      <Act kind="link" hidden={!people.next.value} run={() => people.page(people.next.peek())} failed={failed}>
        {t.words.showMore}
      </Act>
    </div>
  );
}

interface MemberProps extends RoleProps {
  member: RoomMember;
  watches: boolean;
}

function MemberItem(props: MemberProps) {
  const { member, watches, me } = props;
  const opener = useRef<HTMLButtonElement>(null);
  const { user, role } = member;
  const muted = mutedUntil(member);
  const own = user.id === me?.id;
  return (
    <li class={watches ? "person watches" : "person"} data-user={user.id}>
      <Face profile={user} />
      <div class="person-text">
        <p class="person-name">
          {user.name} {own && <span class="you">{r.you}</span>}{" "}
          {role !== "member" && <span class="role">{r.roles[role]}</span>}
        </p>
        {muted && <p class="muted">{`${r.isMuted} ${muted}`}</p>}
      </div>
      {memberItems(props).length > 0 && (
        <button
          type="button"
          class="round"
          aria-haspopup="menu"
          aria-label={r.actions(user.name)}
          ref={opener}
          onClick={() => openMenu(opener.current!, [], memberItems(props))}
        >
          <Sign name="more" />
        </button>
      )}
    </li>
  );
}

// mutedUntil returns the end of a mute, as text; "" if the member is not muted.
function mutedUntil(member: RoomMember): string {
  const until = Date.parse(member.muted_until ?? "");
  return until > now() ? untilWords(until) : "";
}

function memberItems({ member, people, me, seat, failed }: MemberProps): Item[] {
  const { id, name } = member.user;
  if (!me || id === me.id || ranks[me.role] <= ranks[member.role]) return [];
  const may = (what: string) => me.may.includes(what);
  const run = (work: () => Promise<unknown>) => () => void work().catch(failed);
  const set = (body: object) =>
    run(async () => people.update(id, await seat.ask<RoomMember>(`/members/${id}`, { method: "PATCH", body })));
  const items: Item[] = [];
  if (me.role === "owner" && member.role !== "guest") {
    const admin = member.role === "admin";
    items.push({ text: admin ? r.noAdmin : r.makeAdmin, run: set({ role: admin ? "member" : "admin" }) });
    const transfer = run(() => seat.ask("/owner", { method: "PUT", body: { user: id } }));
    items.push({ text: r.handOver, sure: r.handOverSure(name), run: transfer });
  }
  if (may("settings") && member.role === "member") {
    const controls = member.may.includes("control");
    const rights = controls ? member.may.filter((m) => m !== "control") : [...member.may, "control"];
    items.push({ text: controls ? r.noControl : r.letControl, run: set({ may: rights }) });
  }
  if (!may("moderate")) return items;
  const mute = (text: string, ms: number): Item => ({
    text,
    run: () => set({ muted_until: new Date(now() + ms).toISOString() })(),
  });
  if (mutedUntil(member)) items.push({ text: r.unmuteThem, run: set({ muted_until: PAST }) });
  else items.push(mute(r.muteHour, HOUR), mute(r.muteDay, 24 * HOUR));
  items.push({ text: r.kick, sure: r.kickSure, run: run(() => seat.ask(`/members/${id}`, { method: "DELETE" })) });
  items.push({ text: r.ban, sure: r.banSure, run: run(() => seat.ask(`/bans/${id}`, { method: "PUT" })) });
  return items;
}
