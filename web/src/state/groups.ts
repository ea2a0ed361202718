// The user's groups: their names, the user's membership in each, and the members of opened ones.

import {
  isTemporary,
  newestOf,
  Refused,
  type Chats,
  type ChatState,
  type GroupChange,
  type GroupMember,
  type GroupMembership,
  type GroupRequest,
  type GroupRequests,
  type GroupSelf,
  type Profile,
  type StoaClient,
} from "@stoa-dev/client";
import { Changes } from "./changes";

/** The actions of a member on a group. */
export type Verb =
  | "invite"
  | "describe"
  | "answer"
  | "mute"
  | "remove"
  | "configure"
  | "appoint"
  | "dissolve"
  | "moderate"
  | "mentionAll"
  | "pin";

const ranks = { member: 0, admin: 1, owner: 2 } as const;
const needs: Record<Verb, keyof typeof ranks> = {
  invite: "member",
  describe: "admin",
  answer: "admin",
  mute: "admin",
  remove: "admin",
  moderate: "admin",
  mentionAll: "admin",
  pin: "admin",
  configure: "owner",
  appoint: "owner",
  dissolve: "owner",
};

/** The largest group whose members each receive every event. */
export const SMALL = 200;

const PAGE = 200;
const RETRY = 3000; // ms
const TOGETHER = 50; // ms to collect users for one request
const LOOKED = 10; // the number of groups that are searched for mentions from before the page was opened
const BACK = 100; // messages in each

interface Held extends GroupMembership {
  me: GroupSelf;
  members: Map<string, GroupMember>; // those that were loaded
  version: number; // of the loaded members; 0 before the first load
  next: string | undefined; // cursor of the next members
}

export class Groups {
  #ready = false; // the list has been loaded
  #held = new Map<string, Held>();
  #shown = new Set<string>(); // groups whose members are shown
  #others = new Map<string, Profile>(); // authors who are no longer members
  #requestedUsers = new Set<string>();
  #unrequestedUsers = new Set<string>(); // users whose profiles are not requested yet
  #profileRequest: Promise<void> | undefined;
  #mentions = new Map<string, number>(); // the newest message that mentions the user, by chat
  #requests = new Map<string, GroupRequest[]>(); // waiting for the user's answer, by group
  #looked = false;
  #steps = new Map<string, Promise<void>>();
  #runningRequests = 0;
  #changedIds = new Set<string>(); // ids of groups and requests with an event during a request: the response may be older
  #changes = new Changes();

  constructor(
    private readonly client: StoaClient,
    private readonly chats: Chats,
    private readonly user: string,
    private readonly now: () => number, // the server's time, in ms since 1970
  ) {
    client.on("open", ({ resumed }) => {
      if (!resumed || !this.#ready) return void this.#read();
      // loads that failed without a connection
      for (const { group, version } of this.#held.values())
        if (version < group.version && this.#shown.has(group.id)) void this.loadMembers(group.id).catch(() => {});
    });
    client.on("group.mine", (m) => {
      this.#changedIds.add(m.group.id);
      this.applyMembership(m);
    });
    client.on("group.changed", (change) => this.#apply(change));
    client.on("group.left", ({ group, version }) => {
      this.#changedIds.add(group);
      if ((this.#held.get(group)?.group.version ?? 0) > version) return; // the user has joined again
      this.#held.delete(group);
      this.#changes.publish();
    });
    client.on("group.requested", (r) => {
      if (r.user.id === user) return;
      this.#changedIds.add(r.id);
      this.#requests.set(r.group, [...(this.#requests.get(r.group) ?? []).filter((old) => old.id !== r.id), r]);
      this.#changes.publish();
    });
    client.on("group.request_closed", (r) => {
      this.#changedIds.add(r.id);
      this.#requests.set(
        r.group,
        (this.#requests.get(r.group) ?? []).filter((old) => old.id !== r.id),
      );
      this.#changes.publish();
    });
    chats.on("message", (m) => {
      if (m.from !== user && this.mentionsMe(m.mentions)) this.#mentioned(m.chat, m.seq);
      const h = this.#held.get(groupOf(m.chat));
      // most members of a large group get no other event of the change
      if (m.kind === "system" && h && h.group.members > SMALL) void this.#step(h);
    });
    chats.on("synced", () => void this.#lookBack());
  }

  /** Subscribes the running component or effect to all changes. */
  track(): void {
    this.#changes.track();
  }

  /** Calls fn after every change, until signal aborts. */
  watch(fn: () => void, signal: AbortSignal): void {
    this.#changes.watch(fn, signal);
  }

  /** Whether the list of groups has been loaded. */
  get ready(): boolean {
    this.#changes.track();
    return this.#ready;
  }

  /** A group of the user, with the user's membership. */
  get(id: string): (GroupMembership & { me: GroupSelf }) | undefined {
    return this.#group(id);
  }

  /** The user's name for a group: the remark, or the group's name. */
  title(id: string): string {
    const h = this.#group(id);
    return h?.me.remark || h?.group.name || (this.chats.get(`g:${id}`)?.group_name ?? "");
  }

  /** The loaded members: higher roles first, then earlier ones first. */
  members(id: string): GroupMember[] {
    return [...(this.#group(id)?.members.values() ?? [])].sort(
      (a, b) =>
        ranks[b.role] - ranks[a.role] ||
        Date.parse(a.joined) - Date.parse(b.joined) ||
        (a.user.id < b.user.id ? -1 : 1),
    );
  }

  /** Whether there are more members to load. */
  hasMore(id: string): boolean {
    return Boolean(this.#group(id)?.next);
  }

  /** A member, if loaded. */
  member(id: string, user: string): GroupMember | undefined {
    return this.#group(id)?.members.get(user);
  }

  /** An author in a group. Unknown users are requested. */
  profile(id: string, user: string): Profile {
    const known = this.member(id, user)?.user ?? this.#others.get(user);
    if (!known) this.#requestProfile(user);
    return known ?? { id: user, name: "" };
  }

  /** Waits until the profile of a user is loaded, if possible. */
  async loadProfile(id: string, user: string): Promise<void> {
    if (!this.profile(id, user).name) await this.#profileRequest;
  }

  /** The name of a member that all members of the group see. */
  memberName(id: string, user: string): string {
    return this.member(id, user)?.nickname || this.profile(id, user).name;
  }

  /** The requests to join that the user may answer, oldest first. */
  requests(id: string): GroupRequest[] {
    return this.may(id, "answer") ? (this.#requests.get(id) ?? []) : [];
  }

  /** Whether the user's role allows an action; the server decides. */
  may(id: string, verb: Verb): boolean {
    const h = this.#group(id);
    if (!h) return false;
    const least = verb === "invite" ? h.group.inviters : needs[verb];
    return ranks[h.me.role] >= ranks[least];
  }

  /** Whether the user's role is higher than a member's. A former member has the lowest role. */
  outranks(id: string, user: string): boolean {
    const h = this.#group(id);
    return h !== undefined && ranks[h.me.role] > ranks[this.member(id, user)?.role ?? "member"];
  }

  /** The end of the user's mute, and whether it is for all members; undefined if the user may write. */
  silenced(id: string): { until: number; all: boolean } | undefined {
    const h = this.#group(id);
    const own = Date.parse(h?.me.muted_until ?? "");
    if (own > this.now()) return { until: own, all: false };
    const all = Date.parse(h?.group.muted_until ?? "");
    return h?.me.role === "member" && all > this.now() ? { until: all, all: true } : undefined;
  }

  /** Whether an unread message mentions the user. */
  hasMention(chat: ChatState): boolean {
    this.#changes.track();
    return (this.#mentions.get(chat.chat) ?? 0) > chat.read;
  }

  mentionsMe(mentions: string[] | undefined): boolean {
    return mentions?.some((m) => m === this.user || m === "all") ?? false;
  }

  /** The user's choice of the group's messages for notifications. */
  notify(chat: string): GroupSelf["notify"] {
    return this.#group(groupOf(chat))?.me.notify ?? "all";
  }

  /** Applies a response about a group that the user has joined. */
  applyMembership({ group, me }: GroupMembership): void {
    if (!me) return;
    const h = this.#held.get(group.id);
    if (h) {
      const newest = newestOf(h, { group, me });
      [h.group, h.me] = [newest.group, newest.me];
    } else this.#held.set(group.id, { group, me, members: new Map(), version: 0, next: undefined });
    if (this.#shown.has(group.id)) void this.loadMembers(group.id).catch(() => {}); // the next event retries
    this.#changes.publish();
  }

  /** Loads a page of the group's members, and the requests to join. Later changes are applied. */
  async loadMembers(id: string): Promise<void> {
    this.#shown.add(id);
    const h = this.#held.get(id);
    if (!h) return;
    await (h.version > 0 ? this.#step(h) : this.#readMembers(h));
    if (!this.may(id, "answer")) return;
    await this.#runRequest(async () => {
      const requests: GroupRequest[] = [];
      let cursor: string | undefined;
      do {
        const page: GroupRequests = await this.client.call("groups.requests", {
          path: { group: id },
          query: { limit: 200, ...(cursor && { cursor }) },
        });
        requests.push(...page.requests);
        cursor = page.next;
      } while (cursor);
      const newer = (this.#requests.get(id) ?? []).filter((r) => this.#changedIds.has(r.id));
      this.#requests.set(id, [...requests.filter((r) => !this.#changedIds.has(r.id)), ...newer]);
      this.#changes.publish();
    });
  }

  /** Loads the next members. */
  async more(id: string): Promise<void> {
    const h = this.#held.get(id);
    if (!h?.next) return;
    const page = await this.client.call("groups.members", {
      path: { group: id },
      query: { limit: PAGE, cursor: h.next },
    });
    for (const m of page.members) if (!h.members.has(m.user.id)) h.members.set(m.user.id, m); // members from events are newer
    h.next = page.next;
    this.#changes.publish();
  }

  // #group returns a group, and subscribes the running component to the changes.
  #group(id: string): Held | undefined {
    this.#changes.track();
    return this.#held.get(id);
  }

  async #readMembers(h: Held): Promise<void> {
    const page = await this.client.call("groups.members", { path: { group: h.group.id }, query: { limit: PAGE } });
    h.members = new Map(page.members.map((m) => [m.user.id, m]));
    [h.version, h.next] = [page.version, page.next];
    this.#changes.publish();
    if (h.version < h.group.version) void this.#step(h); // there were newer events meanwhile
  }

  async #read(): Promise<void> {
    try {
      await this.#runRequest(async () => {
        const { groups } = await this.client.call("groups.list");
        const there = new Set(groups.map((g) => g.group.id));
        for (const id of this.#held.keys()) if (!there.has(id) && !this.#changedIds.has(id)) this.#held.delete(id);
        this.#ready = true;
        for (const g of groups) if (!this.#changedIds.has(g.group.id)) this.applyMembership(g);
        this.#changes.publish();
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
    this.#changes.publish();
  }

  // #step loads the changes since the last load of the members. Only one load runs at a time.
  #step(h: Held): Promise<void> {
    const { id } = h.group;
    const running = this.#steps.get(id);
    if (running) return running;
    const work = (async () => {
      try {
        for (let more = true; more && h.version > 0 && this.#held.get(id) === h;) {
          const since = h.version;
          const c = await this.client.call("groups.changes", { path: { group: id }, query: { since } });
          if (c.reset || c.group.version >= h.group.version) h.group = c.group; // otherwise an event was newer
          if (c.reset) return void (await this.#readMembers(h));
          for (const m of c.changed) h.members.set(m.user.id, m);
          for (const user of c.removed) h.members.delete(user);
          more = c.more || (h.group.version > c.version && c.version > since);
          h.version = c.version;
        }
        this.#changes.publish();
      } catch {
        // The next event, or the next call of loadMembers, retries.
      } finally {
        this.#steps.delete(id);
      }
    })();
    this.#steps.set(id, work);
    return work;
  }

  // #runRequest runs a request. Its response does not replace newer states from events.
  async #runRequest(request: () => Promise<void>): Promise<void> {
    if (this.#runningRequests++ === 0) this.#changedIds.clear();
    try {
      await request();
    } finally {
      this.#runningRequests--;
    }
  }

  #requestProfile(user: string): void {
    if (this.#requestedUsers.has(user) || !user) return;
    this.#requestedUsers.add(user);
    this.#unrequestedUsers.add(user);
    this.#profileRequest ??= this.#requestProfiles();
  }

  // #requestProfiles requests the profiles of all users that are rendered together, in one call.
  async #requestProfiles(): Promise<void> {
    await new Promise((done) => setTimeout(done, TOGETHER));
    const ids = [...this.#unrequestedUsers].slice(0, 100);
    for (const id of ids) this.#unrequestedUsers.delete(id);
    this.#profileRequest = this.#unrequestedUsers.size > 0 ? this.#requestProfiles() : undefined;
    try {
      const { users } = await this.client.call("users.list", { query: { ids } });
      for (const u of users) this.#others.set(u.id, u);
      this.#changes.publish();
    } catch {
      for (const id of ids) this.#requestedUsers.delete(id); // the next rendering retries
    }
  }

  #mentioned(chat: string, seq: number): void {
    this.#mentions.set(chat, Math.max(seq, this.#mentions.get(chat) ?? 0));
    this.#changes.publish();
  }

  // #lookBack searches for mentions from before the page was opened, with few requests.
  async #lookBack(): Promise<void> {
    if (this.#looked) return;
    this.#looked = true;
    const waiting = this.chats.list().filter((c) => c.group && c.unread > 0);
    for (const { chat, read } of waiting.slice(0, LOOKED)) {
      try {
        const { messages } = await this.client.call("chats.messages", {
          path: { chat },
          query: { after: read, limit: BACK },
        });
        for (const m of messages) if (m.from !== this.user && this.mentionsMe(m.mentions)) this.#mentioned(chat, m.seq);
      } catch {
        return; // only a marker is missing
      }
    }
  }
}

/** The group of a chat; "" for a chat of two. */
export const groupOf = (chat: string) => (chat.startsWith("g:") ? chat.slice(2) : "");
