// Friends, requests and blocks of the logged-in user, always current. Events report that something has changed. The
// present state is then loaded from the server.

import type {
  Block,
  Blocks,
  Friend,
  FriendChanges,
  FriendRequest,
  FriendRequestNew,
  FriendRequestReply,
  FriendRequests,
  FriendUpdate,
  Friends,
  Profile,
  Profiles,
  Relation,
  Relations,
  StoaEvent,
  Unread,
} from "@stoa-dev/client";
import { Refused } from "./api";
import { authed, json } from "./session";

export type Box = "in" | "out";

// The size of a page. The list of friends is read to its end, because later only changes are loaded.
const PAGE = 100;

export class People {
  friends: Friend[] = [];
  requests: Record<Box, FriendRequest[]> = { in: [], out: [] };
  blocks: Block[] = [];
  more: Record<Box | "blocks", string | undefined> = { in: undefined, out: undefined, blocks: undefined }; // cursors
  unread = 0;
  ready = false; // all lists have been read; before that only unread is current
  fault: unknown; // the error of the last read

  #version = 0;
  #unreadVersion = 0;
  #told = false; // an event has set unread since the last request: the response may be older
  #list = new Map<string, Friend>();
  #changed = new EventTarget();
  #work: Promise<void> | undefined;
  #again = false;
  #wanted = false;
  #aged = false; // names and pictures are to be loaded again, because no event reports their changes
  #stopped = new AbortController();

  constructor(private readonly failed: (err: unknown) => void) {}

  /** Calls fn after every change, until signal aborts. */
  watch(fn: () => void, signal: AbortSignal): void {
    this.#changed.addEventListener("change", fn, { signal });
  }

  stop(): void {
    this.#stopped.abort();
  }

  get signal(): AbortSignal {
    return this.#stopped.signal;
  }

  /** Loads all lists and updates them from now on, not only the count of the red dot. */
  want(): Promise<void> {
    this.#wanted = true;
    return this.catchUp();
  }

  /** Loads changes that may be missed. */
  catchUp(): Promise<void> {
    this.#aged = this.ready;
    return this.#sync();
  }

  // A call during a read causes one more read.
  #sync(): Promise<void> {
    if (this.#work) {
      this.#again = true;
      return this.#work;
    }
    return (this.#work = this.#read());
  }

  async #read(): Promise<void> {
    try {
      do {
        this.#again = false;
        const whole = this.#wanted;
        const all = [this.#readUnread()];
        if (whole)
          all.push(this.#readFriends(), this.#readRequests("in"), this.#readRequests("out"), this.#readBlocks());
        await Promise.all(all);
        this.ready = whole;
        this.fault = undefined;
        this.#tell();
      } while (this.#again);
    } catch (err) {
      if (this.signal.aborted) return;
      this.fault = err;
      this.failed(err);
      this.#tell();
    } finally {
      this.#work = undefined;
    }
  }

  #get<T>(path: string): Promise<T> {
    return json<T>(path, { signal: this.signal });
  }

  #tell(): void {
    this.#changed.dispatchEvent(new Event("change"));
  }

  async #readUnread(): Promise<void> {
    this.#told = false;
    const { unread } = await this.#get<Unread>("/v1/friends/requests/unread");
    if (!this.#told) this.unread = unread;
  }

  async #readFriends(): Promise<void> {
    // Version 0: the list has not been read yet.
    if (this.#version === 0) await this.#readWhole();
    for (let more = true; more;) {
      const c = await this.#get<FriendChanges>(`/v1/friends/changes?since=${this.#version}`);
      if (c.reset) {
        await this.#readWhole();
        continue;
      }
      for (const f of c.changed) this.#list.set(f.user.id, f);
      for (const id of c.removed) this.#list.delete(id);
      this.#version = c.version;
      more = c.more;
    }
    if (this.#aged) await this.#readProfiles();
    this.friends = [...this.#list.values()].sort(
      (a, b) => a.order - b.order || Date.parse(b.since) - Date.parse(a.since),
    );
  }

  // The version of the first page is stored. Changes during the reading of the others follow with the list of changes.
  async #readWhole(): Promise<void> {
    const list = new Map<string, Friend>();
    let version: number | undefined;
    for (let cursor: string | undefined = ""; cursor !== undefined;) {
      const page: Friends = await this.#get<Friends>(`/v1/friends?limit=${PAGE}${after(cursor)}`);
      for (const f of page.friends) list.set(f.user.id, f);
      version ??= page.version;
      cursor = page.next;
    }
    this.#list = list;
    this.#version = version ?? 0;
  }

  async #readProfiles(): Promise<void> {
    this.#aged = false;
    const ids = [...this.#list.keys()];
    for (let i = 0; i < ids.length; i += PAGE) {
      const { users } = await this.#get<Profiles>(`/v1/users?ids=${ids.slice(i, i + PAGE).join(",")}`);
      for (const user of users) {
        const f = this.#list.get(user.id);
        if (f) this.#list.set(user.id, { ...f, user });
      }
    }
  }

  async #readRequests(box: Box, cursor = ""): Promise<void> {
    const page = await this.#get<FriendRequests>(`/v1/friends/requests?box=${box}&limit=${PAGE}${after(cursor)}`);
    const waiting = page.requests.filter((r) => r.state === "pending");
    this.requests[box] = cursor ? [...this.requests[box], ...waiting] : waiting;
    this.more[box] = page.next;
  }

  async #readBlocks(cursor = ""): Promise<void> {
    const page = await this.#get<Blocks>(`/v1/blocks?limit=${PAGE}${after(cursor)}`);
    this.blocks = cursor ? [...this.blocks, ...page.blocks] : page.blocks;
    this.more.blocks = page.next;
  }

  /** Loads the page after the shown part of a list. */
  async older(what: Box | "blocks"): Promise<void> {
    const cursor = this.more[what];
    if (!cursor) return;
    await (what === "blocks" ? this.#readBlocks(cursor) : this.#readRequests(what, cursor));
    this.#tell();
  }

  event(e: StoaEvent): void {
    if (e.type === "friend.unread") {
      const { unread, version = 0 } = e.data as Unread;
      if (version < this.#unreadVersion) return; // older than the last one
      this.#unreadVersion = version;
      this.#told = true;
      this.unread = unread;
      this.#tell();
    } else if (this.#wanted && /^(friend|block)\./.test(e.type)) {
      void this.#sync();
    }
  }

  // ---- actions of the user ----

  async #act(path: string, method: "POST" | "PUT" | "PATCH" | "DELETE", body?: unknown): Promise<void> {
    await authed(path, { method, body });
    await this.#sync();
  }

  async ask(body: FriendRequestNew): Promise<FriendRequestReply> {
    const reply = await json<FriendRequestReply>("/v1/friends/requests", { method: "POST", body });
    await this.#sync();
    return reply;
  }

  accept = (id: string) => this.#act(`/v1/friends/requests/${id}/accept`, "POST", {});
  refuse = (id: string) => this.#act(`/v1/friends/requests/${id}/refuse`, "POST");
  withdraw = (id: string) => this.#act(`/v1/friends/requests/${id}`, "DELETE");
  change = (user: string, body: FriendUpdate) => this.#act(`/v1/friends/${user}`, "PATCH", body);
  remove = (user: string) => this.#act(`/v1/friends/${user}`, "DELETE");
  block = (user: string) => this.#act(`/v1/blocks/${user}`, "PUT");
  unblock = (user: string) => this.#act(`/v1/blocks/${user}`, "DELETE");

  /** Marks the requests as seen, which removes the red dot on all devices. */
  async seen(): Promise<void> {
    if (this.unread > 0) await authed("/v1/friends/requests/unread", { method: "DELETE" });
    this.unread = 0;
    this.#tell();
  }

  /** Returns the user with an exact id or address; null if there is none, or if the user may not be found by it. */
  async find(text: string): Promise<Profile | null> {
    const by = text.includes("@") ? "email" : "id";
    return orNull(json<Profile>(`/v1/users/search?${by}=${encodeURIComponent(text)}`));
  }

  /** Returns the owner of a card; null if the token is invalid or has expired. */
  cardOwner = (token: string): Promise<Profile | null> =>
    orNull(json<Profile>(`/v1/cards/${encodeURIComponent(token)}`));

  /** Returns the relation of the user to another user. */
  async relation(user: string): Promise<Relation> {
    return (await json<Relations>(`/v1/relations?ids=${user}`)).relations[0]!;
  }
}

const after = (cursor: string) => cursor && `&cursor=${encodeURIComponent(cursor)}`;

async function orNull<T>(asked: Promise<T>): Promise<T | null> {
  try {
    return await asked;
  } catch (err) {
    if (err instanceof Refused && err.problem.status === 404) return null;
    throw err;
  }
}
