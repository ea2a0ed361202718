// The members of a room, and who of them has it open.

import { computed, signal } from "@preact/signals-core";
import type { RoomMember, RoomMembers, RoomOnline } from "@stoa-dev/client";

export const ranks = { guest: 0, member: 1, admin: 2, owner: 3 } as const;

interface Loads {
  members: (cursor: string) => Promise<RoomMembers>; // a page; "" for the first one
  online: () => Promise<RoomOnline>;
}

export class RoomPeople {
  /** The list is shown. Otherwise it is not loaded. */
  shown = false;
  /** The users who have the room open. */
  readonly online = signal<ReadonlySet<string>>(new Set());
  /** The cursor of the next page; "" if there is none. */
  readonly next = signal("");
  /** The loaded members: higher roles first, then earlier ones first. */
  readonly sorted = computed(() =>
    [...this.#members.value.values()].sort(
      (a, b) =>
        ranks[b.role] - ranks[a.role] ||
        Date.parse(a.joined) - Date.parse(b.joined) ||
        (a.user.id < b.user.id ? -1 : 1),
    ),
  );

  readonly #members = signal<ReadonlyMap<string, RoomMember>>(new Map());
  readonly #changes = new Map<string, RoomMember | undefined>(); // by events during a load: a page may be older
  #loading = 0; // pages

  constructor(private readonly load: Loads) {}

  /** Loads the first members and the viewers, if they are shown. */
  async read(): Promise<void> {
    if (this.shown) await Promise.all([this.page(""), this.readOnline()]);
  }

  async readOnline(): Promise<void> {
    if (!this.shown) return;
    const { viewers } = await this.load.online();
    this.online.value = new Set(viewers.map((v) => v.id));
  }

  async page(cursor: string): Promise<void> {
    this.#loading++;
    try {
      const page = await this.load.members(cursor);
      const members = new Map(cursor ? this.#members.peek() : []);
      for (const m of page.members) members.set(m.user.id, m);
      for (const [user, m] of this.#changes) set(members, user, m);
      this.#members.value = members;
      this.next.value = page.next ?? "";
    } finally {
      if (--this.#loading === 0) this.#changes.clear();
    }
  }

  /** Applies the state of a member from an event or a response; m is undefined if the user is no longer a member. */
  update(user: string, m: RoomMember | undefined): void {
    if (this.#loading > 0) this.#changes.set(user, m);
    const members = new Map(this.#members.peek());
    set(members, user, m);
    this.#members.value = members;
  }
}

function set(members: Map<string, RoomMember>, user: string, m: RoomMember | undefined): void {
  if (m) members.set(user, m);
  else members.delete(user);
}
