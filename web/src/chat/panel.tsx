// The panel next to a group's chat: members, invitations, settings, leaving. Only actions of the user's role are shown.

import { useSignal } from "@preact/signals";
import type { GroupMember } from "@stoa-dev/client";
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { now } from "../api";
import { dateOf } from "../days";
import type { Verb } from "../state/groups";
import { t } from "../texts";
import { g } from "../texts/groups";
import { Act, Twice } from "../ui/act";
import { Face, GroupFace } from "../ui/face";
import { useKeptFocus } from "../ui/focus";
import { Icon, Sign, type SignName } from "../ui/icon";
import { announce, bans, card, invite, links, mine, requests, settings } from "./groupforms";
import { openMenu, type Item } from "./menu";
import { ask, nameIn, type ChatContext } from "./context";
import { untilWords } from "./when";

const HOUR = 3600_000;
const LONG = 9 * 365 * 24 * HOUR; // the server's limit is ten years
const FILTER_FROM = 12; // the number of members that adds a search field
const TYPED = 250; // ms after the last key until a search of the server starts
const FOUND = 50; // members on a page of the search
const PAST = new Date(0).toISOString(); // a mute until then has no effect

interface PartProps {
  group: string;
  ctx: ChatContext;
  failed: (err: unknown) => void;
}

export function Panel({ group, ctx, close }: { group: string; ctx: ChatContext; close: () => void }) {
  const fault = useSignal("");
  const title = useRef<HTMLHeadingElement>(null);
  const failed = (err: unknown) => void (fault.value = err instanceof Error ? err.message : String(err));
  useLayoutEffect(() => {
    title.current!.focus();
    void ctx.connection.groups.loadMembers(group).catch(failed);
  }, []);
  const escape = (e: KeyboardEvent) => {
    if (e.key !== "Escape" || e.defaultPrevented) return;
    e.stopPropagation();
    close();
  };
  const part = { group, ctx, failed };
  return (
    <aside class="panel" aria-labelledby="panel-title" onKeyDown={escape}>
      <header class="room-head">
        <h2 id="panel-title" tabindex={-1} ref={title}>
          {g.about}
        </h2>
        <button type="button" class="round" aria-label={g.closePanel} onClick={close}>
          <Icon name="close" />
        </button>
      </header>
      {ctx.connection.groups.get(group) && (
        <div class="panel-body">
          <Head {...part} />
          <p class="fault form-fault" role="alert">
            {fault.value}
          </p>
          <News {...part} />
          <PanelActions {...part} begin={() => (fault.value = "")} />
          <Members {...part} begin={() => (fault.value = "")} />
          <Leave {...part} />
        </div>
      )}
    </aside>
  );
}

function Head({ group: id, ctx }: PartProps) {
  const { group, me } = ctx.connection.groups.get(id)!;
  const facts = [me.remark && group.name, g.members(group.members), g.since(dateOf(group.created))];
  return (
    <div class="panel-head">
      <GroupFace name={group.name} picture={group.picture ?? ""} large />
      <p class="panel-name">{me.remark || group.name}</p>
      <p class="muted">{facts.filter(Boolean).join(" · ")}</p>
    </div>
  );
}

function News({ group: id, ctx, failed }: PartProps) {
  const { group, me } = ctx.connection.groups.get(id)!;
  const { announcement = "", announced = 0 } = group;
  const may = ctx.connection.groups.may(id, "describe");
  const seen = useSignal("");
  const shows = announcement !== "" && may;
  useEffect(() => {
    if (!shows) return;
    ask(ctx, "groups.seen", { path: { group: id } }).then((s) => {
      if (s.announced === announced) seen.value = g.seen(s.seen, s.members);
    }, failed);
  }, [shows, announced, group.version, me.version]);
  return (
    <section class="panel-part" aria-label={g.announcement} hidden={!announcement && !may}>
      {announcement && (
        <div class="strip announced">
          <Sign name="horn" />
          <div class="strip-text">
            <p class="strip-title">{g.announcement}</p>
            <p class="strip-said">{announcement}</p>
          </div>
        </div>
      )}
      {shows && (
        <p class="hint" role="status">
          {seen.value}
        </p>
      )}
      {may && (
        <button type="button" class="secondary" aria-haspopup="dialog" onClick={() => announce(id, ctx)}>
          {g.announce}
        </button>
      )}
    </section>
  );
}

interface PanelActionProps {
  shape: SignName;
  text: string;
  run: () => void;
  children?: ComponentChildren;
}

const PanelAction = ({ shape, text, run, children }: PanelActionProps) => (
  <button type="button" class="doing" aria-haspopup="dialog" onClick={run}>
    <Sign name={shape} />
    <span>{text}</span>
    {children}
  </button>
);

interface ActingProps extends PartProps {
  begin: () => void; // an action starts: the last fault is outdated
}

function PanelActions({ group, ctx, failed, begin }: ActingProps) {
  const { groups } = ctx.connection;
  const may = (verb: Verb) => groups.may(group, verb);
  const waiting = groups.requests(group).length;
  return (
    <div class="doings">
      {may("invite") && <PanelAction shape="people" text={g.invite} run={() => invite(group, ctx)} />}
      {may("invite") && <PanelAction shape="link" text={g.links} run={() => links(group, ctx)} />}
      {may("invite") && <PanelAction shape="code" text={g.card} run={() => card(group)} />}
      {may("answer") && (
        <PanelAction shape="clock" text={g.requests} run={() => requests(group, ctx)}>
          {waiting > 0 && <span class="badge">{waiting}</span>}
        </PanelAction>
      )}
      <PanelAction shape="person" text={g.mine} run={() => mine(group, ctx)} />
      {may("describe") && <PanelAction shape="pen" text={g.settings} run={() => settings(group, ctx)} />}
      {may("remove") && <PanelAction shape="cross" text={g.bans} run={() => bans(group, ctx)} />}
      {may("mute") && <MuteAll group={group} ctx={ctx} failed={failed} begin={begin} />}
    </div>
  );
}

function MuteAll({ group, ctx, failed, begin }: ActingProps) {
  const muted = Date.parse(ctx.connection.groups.get(group)?.group.muted_until ?? "") > Date.now();
  const change = (box: HTMLInputElement) => {
    begin();
    const muted_until = box.checked ? new Date(Date.now() + LONG).toISOString() : PAST;
    ask(ctx, "groups.update", { path: { group }, body: { muted_until } }).catch((err: unknown) => {
      box.checked = !box.checked;
      failed(err);
    });
  };
  return (
    <label class="switch doing">
      <Sign name="quiet" />
      <span>{g.muteAll}</span>
      <input type="checkbox" name="mute_all" checked={muted} onChange={(e) => change(e.currentTarget)} />
    </label>
  );
}

function Leave({ group, ctx, failed }: PartProps) {
  const { groups } = ctx.connection;
  const owner = groups.may(group, "dissolve");
  const alone = groups.get(group)?.group.members === 1;
  const path = { group };
  return (
    <div class="panel-part stack tight">
      {owner && !alone && <p class="hint">{g.ownerStays}</p>}
      {!owner && (
        <Twice
          key="leave"
          text={g.leave}
          sure={g.leaveSure}
          run={() => ask(ctx, "groups.leave", { path })}
          failed={failed}
        />
      )}
      {owner && (
        <Twice
          key="dissolve"
          text={g.dissolve}
          sure={g.dissolveSure}
          run={() => ask(ctx, "groups.dissolve", { path })}
          failed={failed}
          note={g.dissolveNote}
        />
      )}
    </div>
  );
}

interface Found {
  query: string;
  members: GroupMember[];
  next: string; // cursor
}

function Members({ group, ctx, failed, begin }: ActingProps) {
  const { groups } = ctx.connection;
  const typed = useSignal("");
  const found = useSignal<Found | undefined>(undefined); // from the server, if not all members are loaded
  const count = useRef<HTMLHeadingElement>(null);
  const list = useRef<HTMLUListElement>(null);
  ctx.clock.track();
  useKeptFocus(list, () => count.current);

  const all = groups.members(group);
  const more = groups.hasMore(group);
  const query = typed.value.trim();

  const find = async (cursor: string) => {
    const query = typed.peek().trim();
    if (!query) return;
    const input = { path: { group }, query: { q: query, limit: FOUND, ...(cursor && { cursor }) } };
    const page = await ask(ctx, "groups.members", input);
    if (query !== typed.peek().trim()) return; // a later request has been sent
    const last = found.peek();
    const before = cursor && last?.query === query ? last.members : [];
    found.value = { query, members: [...before, ...page.members], next: page.next ?? "" };
  };
  // The loaded members are filtered at once. If there are more members, the server also searches.
  useEffect(() => {
    if (!query || !groups.hasMore(group)) {
      found.value = undefined;
      return;
    }
    const timer = setTimeout(() => void find("").catch(failed), TYPED);
    return () => clearTimeout(timer);
  }, [query]);

  const hidden = !more && all.length < FILTER_FROM; // the search field
  const filter = hidden || found.value ? "" : query.toLowerCase();
  const shown = (found.value?.members.map((m) => groups.member(group, m.user.id) ?? m) ?? all)
    .map((member) => memberRow(member, group, ctx))
    .filter((row) => `${row.name} ${row.note}`.toLowerCase().includes(filter));
  return (
    <section class="panel-part" aria-label={g.membersLabel}>
      <h3 tabindex={-1} ref={count}>
        {g.members(groups.get(group)?.group.members ?? all.length)}
      </h3>
      <input
        type="search"
        aria-label={g.find}
        placeholder={g.find}
        autocomplete="off"
        hidden={hidden}
        onInput={(e) => (typed.value = e.currentTarget.value)}
      />
      <p class="muted" role="status" hidden={shown.length > 0 || (all.length === 0 && !found.value)}>
        {g.noMember}
      </p>
      <ul class="members" ref={list}>
        {shown.map((row) => (
          <MemberItem key={row.member.user.id} row={row} group={group} ctx={ctx} failed={failed} begin={begin} />
        ))}
      </ul>
      <Act
        kind="link"
        hidden={found.value ? !found.value.next : !more}
        run={() => (found.value ? find(found.value.next) : groups.more(group))}
        failed={failed}
      >
        {t.words.showMore}
      </Act>
    </section>
  );
}

interface MemberRow {
  member: GroupMember;
  name: string;
  note: string;
  muted: string; // the end of a mute, as text
}

function memberRow(member: GroupMember, group: string, ctx: ChatContext): MemberRow {
  const { id, name: own } = member.user;
  const name = id === ctx.me.id ? ctx.connection.groups.memberName(group, id) : nameIn(ctx, id, group);
  const until = Date.parse(member.muted_until ?? "");
  const others = [member.nickname, own].filter((other) => other && other !== name);
  return { member, name, note: others.join(" · "), muted: until > now() ? untilWords(until) : "" };
}

function MemberItem({ row, group, ctx, failed, begin }: ActingProps & { row: MemberRow }) {
  const opener = useRef<HTMLButtonElement>(null);
  const { member, name, note, muted } = row;
  const { user, role } = member;
  const own = user.id === ctx.me.id;
  const open = () => openMenu(opener.current!, [], memberItems({ row, group, ctx, failed, begin }));
  return (
    <li class="person" data-user={user.id}>
      <Face profile={user} />
      <div class="person-text">
        <p class="person-name">
          {name} {own && <span class="you">{t.words.you}</span>}{" "}
          {role !== "member" && <span class="role">{g.roles[role]}</span>}
        </p>
        {(note || muted) && <p class="muted">{[note, muted && `${g.isMuted} ${muted}`].filter(Boolean).join(" · ")}</p>}
      </div>
      {!own && !user.deleted && (
        <button
          type="button"
          class="round"
          aria-haspopup="menu"
          aria-label={g.memberActions(name)}
          ref={opener}
          onClick={open}
        >
          <Sign name="more" />
        </button>
      )}
    </li>
  );
}

function memberItems({ row, group, ctx, failed, begin }: ActingProps & { row: MemberRow }): Item[] {
  const { member, name, muted } = row;
  const { groups } = ctx.connection;
  const { id } = member.user;
  const path = { group, user: id };
  const then = (work: Promise<unknown>) => {
    begin();
    void work.catch(failed);
  };
  const set = (body: { role?: "member" | "admin"; muted_until?: string }) =>
    then(ask(ctx, "groups.set_member", { path, body }));
  const mute = (text: string, ms: number): Item => ({
    text,
    run: () => set({ muted_until: new Date(now() + ms).toISOString() }),
  });
  const items: Item[] = [
    { text: g.writeTo, label: t.people.writeTo(name), run: () => void (location.hash = `#/chats/${id}`) },
  ];
  if (groups.may(group, "appoint")) {
    const admin = member.role === "admin";
    items.push({ text: admin ? g.noAdmin : g.makeAdmin, run: () => set({ role: admin ? "member" : "admin" }) });
    const transfer = () => then(ask(ctx, "groups.transfer", { path: { group }, body: { user: id } }));
    items.push({ text: g.handOver, sure: g.handOverSure(name), run: transfer });
  }
  if (!groups.may(group, "mute") || !groups.outranks(group, id)) return items;
  if (muted) items.push({ text: g.unmute, run: () => set({ muted_until: PAST }) });
  else items.push(mute(g.muteHour, HOUR), mute(g.muteDay, 24 * HOUR), mute(g.muteWeek, 7 * 24 * HOUR));
  items.push({ text: g.remove, sure: g.removeSure, run: () => then(ask(ctx, "groups.remove", { path })) });
  items.push({ text: g.ban, sure: g.banSure, run: () => then(ask(ctx, "groups.ban", { path })) });
  return items;
}
