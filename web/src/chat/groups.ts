// The user's groups: what they are called, the user's place in each, and the members of those that are looked at.

import { isTemporary, newestOf, Refused, type Chats, type ChatState, type GroupChange, type GroupMember, type GroupMembership, type GroupRequest, type GroupRequests, type GroupSelf, type Profile, type StoaClient } from "@stoa-dev/client";
import { now } from "../api";

/** What a member may want to do to a group. */
export type Verb = "invite" | "describe" | "answer" | "mute" | "remove" | "configure" | "appoint" | "dissolve" | "moderate" | "mentionAll" | "pin";

const ranks = { member: 0, admin: 1, owner: 2 } as const;
const needs: Record<Verb, keyof typeof ranks> = {
  invite: "member", describe: "admin", answer: "admin", mute: "admin", remove: "admin", moderate: "admin", mentionAll: "admin", pin: "admin",
  configure: "owner", appoint: "owner", dissolve: "owner",
};

/** Up to how many members a group has of which all are told everything. */
export const SMALL = 200;

const PAGE = 200;
const RETRY = 3000; // ms
const TOGETHER = 50; // ms in which those are collected who are asked for
const LOOKED = 10; // groups in which is looked for mentions that came while the page was closed
const BACK = 100; // messages in each

interface Held extends GroupMembership {
  me: GroupSelf;
  members: Map<string, GroupMember>; // those that were read
  version: number; // of what was read; 0 for nothing
  next: string | undefined; // cursor of the members that were not read
}

export class Groups {
  ready = false; // the list has been read

  #held = new Map<string, Held>();
  #wanted = new Set<string>(); // groups whose members are looked at
  #others = new Map<string, Profile>(); // who wrote and is no member any more
  #asked = new Set<string>();
  #unasked = new Set<string>(); // those of them for whom no call has asked yet
  #asking: Promise<void> | undefined;
  #mentions = new Map<string, number>(); // the newest message that mentions the user, by chat
  #requests = new Map<string, GroupRequest[]>(); // that wait for an answer of the user, by group
  #looked = false;
  #steps = new Map<string, Promise<void>>();
  #questions = 0; // that wait for an answer
  #told = new Set<string>(); // groups and requests of which an event has told meanwhile: an answer may be older
  #changed = new EventTarget();

  constructor(
    private readonly client: StoaClient,
    private readonly chats: Chats,
    private readonly user: string,
  ) {
    client.on("open", ({ resumed }) => {
      if (!resumed || !this.ready) return void this.#read();
      for (const { group, version } of this.#held.values()) if (version < group.version && this.#wanted.has(group.id)) void this.want(group.id).catch(() => {}); // what could not be read without a line
    });
    client.on("group.mine", (m) => {
      this.#told.add(m.group.id);
      this.take(m);
    });
    client.on("group.changed", (change) => this.#apply(change));
    client.on("group.left", ({ group, version }) => {
      this.#told.add(group);
      if ((this.#held.get(group)?.group.version ?? 0) > version) return; // the user has joined again
      this.#held.delete(group);
      this.#tell();
    });
    client.on("group.requested", (r) => {
      if (r.user.id === user) return;
      this.#told.add(r.id);
      this.#requests.set(r.group, [...(this.#requests.get(r.group) ?? []).filter((old) => old.id !== r.id), r]);
      this.#tell();
    });
    client.on("group.request_closed", (r) => {
      this.#told.add(r.id);
      this.#requests.set(r.group, (this.#requests.get(r.group) ?? []).filter((old) => old.id !== r.id));
      this.#tell();
    });
    chats.on("message", (m) => {
      if (m.from !== user && this.mentionsMe(m.mentions)) this.#mentioned(m.chat, m.seq);
      const h = this.#held.get(groupOf(m.chat));
      if (m.kind === "system" && h && h.group.members > SMALL) void this.#step(h); // which tells most members nothing else
    });
    chats.on("synced", () => void this.#lookBack());
  }

  /** Calls fn after every change, until signal aborts. */
  watch(fn: () => void, signal: AbortSignal): void {
    this.#changed.addEventListener("change", fn, { signal });
  }

  /** A group of the user's, and their place in it. */
  get(id: string): (GroupMembership & { me: GroupSelf }) | undefined {
    return this.#held.get(id);
  }

  /** What the user calls a group. */
  title(id: string): string {
    const h = this.#held.get(id);
    return h?.me.remark || h?.group.name || (this.chats.get(`g:${id}`)?.group_name ?? "");
  }

  /** The members that were read, the higher roles first, then those who joined first. */
  members(id: string): GroupMember[] {
    return [...(this.#held.get(id)?.members.values() ?? [])].sort((a, b) => ranks[b.role] - ranks[a.role] || Date.parse(a.joined) - Date.parse(b.joined) || (a.user.id < b.user.id ? -1 : 1));
  }

  /** Whether there are members that were not read. */
  hasMore(id: string): boolean {
    return Boolean(this.#held.get(id)?.next);
  }

  /** A member, as far as they were read. */
  member(id: string, user: string): GroupMember | undefined {
    return this.#held.get(id)?.members.get(user);
  }

  /** Somebody who wrote in a group, as others see them. Who is known from nowhere is asked for. */
  profile(id: string, user: string): Profile {
    const known = this.member(id, user)?.user ?? this.#others.get(user);
    if (!known) this.#askFor(user);
    return known ?? { id: user, name: "" };
  }

  /** Waits until it is known what somebody is called, where that can be known. */
  async meet(id: string, user: string): Promise<void> {
    if (!this.profile(id, user).name) await this.#asking;
  }

  /** What everybody in a group calls a member. */
  called(id: string, user: string): string {
    return this.member(id, user)?.nickname || this.profile(id, user).name;
  }

  /** The requests to join that the user may answer, the oldest first. */
  requests(id: string): GroupRequest[] {
    return this.may(id, "answer") ? (this.#requests.get(id) ?? []) : [];
  }

  /** Whether the user's role allows something; the server has the last word. */
  may(id: string, verb: Verb): boolean {
    const h = this.#held.get(id);
    if (!h) return false;
    const least = verb === "invite" ? h.group.inviters : needs[verb];
    return ranks[h.me.role] >= ranks[least];
  }

  /** Whether something can be done to a member, whose role has to be a lower one. Who has left has none. */
  over(id: string, user: string): boolean {
    const h = this.#held.get(id);
    return h !== undefined && ranks[h.me.role] > ranks[this.member(id, user)?.role ?? "member"];
  }

  /** Until when the user may not write, and whether all members may not; undefined when they may. */
  silenced(id: string): { until: number; all: boolean } | undefined {
    const h = this.#held.get(id);
    const own = Date.parse(h?.me.muted_until ?? "");
    if (own > now()) return { until: own, all: false };
    const all = Date.parse(h?.group.muted_until ?? "");
    return h?.me.role === "member" && all > now() ? { until: all, all: true } : undefined;
  }

  /** Whether a message of those that are new mentions the user. */
  hasMention(chat: ChatState): boolean {
    return (this.#mentions.get(chat.chat) ?? 0) > chat.read;
  }

  mentionsMe(mentions: string[] | undefined): boolean {
    return mentions?.some((m) => m === this.user || m === "all") ?? false;
  }

  /** Of which messages of a group the user wants to know. */
  notify(chat: string): GroupSelf["notify"] {
    return this.#held.get(groupOf(chat))?.me.notify ?? "all";
  }

  /** Takes in what the server answered of a group that the user has joined. */
  take({ group, me }: GroupMembership): void {
    if (!me) return;
    const h = this.#held.get(group.id);
    if (h) {
      const newest = newestOf(h, { group, me });
      [h.group, h.me] = [newest.group, newest.me];
    } else this.#held.set(group.id, { group, me, members: new Map(), version: 0, next: undefined });
    if (this.#wanted.has(group.id)) void this.want(group.id).catch(() => {}); // the next event asks again
    this.#tell();
  }

  /** Has the members of a group read and kept, as far as a page goes, and the requests to join it. */
  async want(id: string): Promise<void> {
    this.#wanted.add(id);
    const h = this.#held.get(id);
    if (!h) return;
    await (h.version > 0 ? this.#step(h) : this.#readMembers(h));
    if (!this.may(id, "answer")) return;
    await this.#ask(async () => {
      const requests: GroupRequest[] = [];
      let cursor: string | undefined;
      do {
        const page: GroupRequests = await this.client.call("groups.requests", { path: { group: id }, query: { limit: 200, ...(cursor && { cursor }) } });
        requests.push(...page.requests);
        cursor = page.next;
      } while (cursor);
      const newer = (this.#requests.get(id) ?? []).filter((r) => this.#told.has(r.id));
      this.#requests.set(id, [...requests.filter((r) => !this.#told.has(r.id)), ...newer]);
      this.#tell();
    });
  }

  /** Reads the members after those that were read. */
  async more(id: string): Promise<void> {
    const h = this.#held.get(id);
    if (!h?.next) return;
    const page = await this.client.call("groups.members", { path: { group: id }, query: { limit: PAGE, cursor: h.next } });
    for (const m of page.members) if (!h.members.has(m.user.id)) h.members.set(m.user.id, m); // what events brought is newer
    h.next = page.next;
    this.#tell();
  }

  async #readMembers(h: Held): Promise<void> {
    const page = await this.client.call("groups.members", { path: { group: h.group.id }, query: { limit: PAGE } });
    h.members = new Map(page.members.map((m) => [m.user.id, m]));
    [h.version, h.next] = [page.version, page.next];
    this.#tell();
    if (h.version < h.group.version) void this.#step(h); // an event has told of more meanwhile
  }

  async #read(): Promise<void> {
    try {
      await this.#ask(async () => {
        const { groups } = await this.client.call("groups.list");
        const there = new Set(groups.map((g) => g.group.id));
        for (const id of this.#held.keys()) if (!there.has(id) && !this.#told.has(id)) this.#held.delete(id);
        this.ready = true;
        for (const g of groups) if (!this.#told.has(g.group.id)) this.take(g);
        this.#tell();
      });
    } catch (err) {
      if (isTemporary(err) && this.client.state === "online") setTimeout(() => void this.#read(), RETRY);
      else if (err instanceof Refused) console.warn("stoa: groups are not current:", err);
    }
  }

  #apply({ group, changed, removed }: GroupChange): void {
    const h = this.#held.get(group.id);
    if (!h || group.version < h.group.version) return;
    h.group = group;
    const mine = changed.find((m) => m.user.id === this.user);
    if (mine) {
      const { muted_until: _, ...rest } = h.me;
      h.me = { ...rest, role: mine.role, ...(mine.muted_until && { muted_until: mine.muted_until }) };
    }
    if (h.version > 0 && group.version === h.version + 1 && changed.length + removed.length > 0) {
      for (const m of changed) h.members.set(m.user.id, m);
      for (const user of removed) h.members.delete(user);
      h.version = group.version;
    } else if (h.version > 0) void this.#step(h);
    this.#tell();
  }

  // #step asks for what has changed since the members were read, once at a time.
  #step(h: Held): Promise<void> {
    const { id } = h.group;
    const running = this.#steps.get(id);
    if (running) return running;
    const work = (async () => {
      try {
        for (let more = true; more && h.version > 0 && this.#held.get(id) === h; ) {
          const since = h.version;
          const c = await this.client.call("groups.changes", { path: { group: id }, query: { since } });
          if (c.reset || c.group.version >= h.group.version) h.group = c.group; // else an event has told of more meanwhile
          if (c.reset) return void (await this.#readMembers(h));
          for (const m of c.changed) h.members.set(m.user.id, m);
          for (const user of c.removed) h.members.delete(user);
          more = c.more || (h.group.version > c.version && c.version > since);
          h.version = c.version;
        }
        this.#tell();
      } catch {
        // The next event, or the next look at the group, asks again.
      } finally {
        this.#steps.delete(id);
      }
    })();
    this.#steps.set(id, work);
    return work;
  }

  // #ask runs a question whose answer leaves alone what events tell meanwhile.
  async #ask(question: () => Promise<void>): Promise<void> {
    if (this.#questions++ === 0) this.#told.clear();
    try {
      await question();
    } finally {
      this.#questions--;
    }
  }

  #askFor(user: string): void {
    if (this.#asked.has(user) || !user) return;
    this.#asked.add(user);
    this.#unasked.add(user);
    this.#asking ??= this.#askAll();
  }

  // #askAll asks at once for those who are drawn together.
  async #askAll(): Promise<void> {
    await new Promise((done) => setTimeout(done, TOGETHER));
    const ids = [...this.#unasked].slice(0, 100);
    for (const id of ids) this.#unasked.delete(id);
    this.#asking = this.#unasked.size > 0 ? this.#askAll() : undefined;
    try {
      const { users } = await this.client.call("users.list", { query: { ids } });
      for (const u of users) this.#others.set(u.id, u);
      this.#tell();
    } catch {
      for (const id of ids) this.#asked.delete(id); // the next drawing asks again
    }
  }

  #mentioned(chat: string, seq: number): void {
    this.#mentions.set(chat, Math.max(seq, this.#mentions.get(chat) ?? 0));
    this.#tell();
  }

  // #lookBack finds mentions that came while the page was closed, as far as that takes few questions.
  async #lookBack(): Promise<void> {
    if (this.#looked) return;
    this.#looked = true;
    const waiting = this.chats.list().filter((c) => c.group && c.unread > 0);
    for (const { chat, read } of waiting.slice(0, LOOKED)) {
      try {
        const { messages } = await this.client.call("chats.messages", { path: { chat }, query: { after: read, limit: BACK } });
        for (const m of messages) if (m.from !== this.user && this.mentionsMe(m.mentions)) this.#mentioned(chat, m.seq);
      } catch {
        return; // a mark is missing, and nothing else
      }
    }
  }

  #tell(): void {
    this.#changed.dispatchEvent(new Event("change"));
  }
}

/** The group of a chat; "" for a chat of two. */
export const groupOf = (chat: string) => (chat.startsWith("g:") ? chat.slice(2) : "");
