// The open room: its settings, the caller's membership, the playlist, and the loads that keep them current.

import { computed, signal } from "@preact/signals-core";
import type {
  Danmaku,
  Playback,
  Room,
  RoomGone,
  RoomItem,
  RoomLine,
  RoomMember,
  RoomPlaylist,
  RoomScene,
  RoomSelf,
  RoomViewers,
  StoaEvent,
} from "@stoa-dev/client";
import type { RoomChatState } from "./roomchat";
import type { RoomPeople } from "./people";

const RETRY = 3000; // ms, with jitter
const FRESH = 5000; // ms: until then, the viewers of an event replace those of a scene
const CALM = 1000; // ms, the least time between two loads of the viewers
const EACH = 10; // ms per viewer, if this is more than CALM: all viewers with an open list load it

/** The room and the caller's membership. */
interface Membership {
  room: Room;
  me?: RoomSelf;
}

/** The player and the danmaku of the room. */
export interface Stage {
  room: (room: Room, mayControl: boolean) => void;
  items: (items: RoomItem[]) => void;
  playback: (playback: Playback) => string; // applies a state, and returns the present item
  danmaku: (comment: Danmaku) => void;
  clear: () => void; // removes all danmaku
  clears: () => number; // the number of clears
}

export interface RoomLoads {
  room: () => Promise<Membership>;
  scene: () => Promise<RoomScene>;
  playlist: () => Promise<RoomPlaylist>;
  missing: (err: unknown) => boolean; // the room does not exist for the caller
  temporary: (err: unknown) => boolean; // a retry may succeed
}

/** The end of the caller's stay. "unknown": the room does not exist for the caller. */
export type Ending = RoomGone["why"] | "unknown" | "left";

export class OpenRoom {
  readonly room = signal<Room | undefined>(undefined);
  readonly me = signal<RoomSelf | undefined>(undefined);
  readonly items = signal<readonly RoomItem[]>([]);
  /** The present item; "" if there is none. */
  readonly item = signal("");
  /** The actions of the caller, as one text: equal texts for equal rights. */
  readonly rights = computed(() => `${this.me.value?.role} ${this.me.value?.may.join()}`);

  stage: Stage | undefined;
  #closed = false;
  #loading = false;
  #due: "" | "room" | "all" = ""; // the next load: the running one may be older than a change
  readonly #versions = new Map<string, number>(); // of each member's last event
  #newer: RoomSelf | undefined; // the caller's state from an event during the load
  #lists = 0; // requests for the playlist
  #listShown = 0; // number of the request whose response is shown
  #viewersTimer: ReturnType<typeof setTimeout> | undefined;
  #roomTimer: ReturnType<typeof setTimeout> | undefined;
  #viewers = { count: 0, at: -Infinity };

  constructor(
    private readonly id: string,
    private readonly loads: RoomLoads,
    private readonly lines: RoomChatState,
    private readonly people: RoomPeople,
    private readonly on: { failed: (err: unknown) => void; ended: (why: Ending) => void },
  ) {}

  get closed(): boolean {
    return this.#closed;
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#viewersTimer);
    clearTimeout(this.#roomTimer);
  }

  /** Whether the caller may do something, such as "control". */
  may(what: string): boolean {
    return this.me.value?.may.includes(what) ?? false;
  }

  /** Loads the room and the caller's membership, or the whole scene. A call during a load causes one more load. */
  async load(what: "room" | "all"): Promise<void> {
    if (this.#due !== "all") this.#due = what;
    if (this.#loading) return;
    this.#loading = true;
    while (this.#due && !this.#closed) {
      const due = this.#due;
      this.#due = "";
      this.#newer = undefined;
      try {
        if (due === "all") await this.#loadAll();
        else this.#place(await this.loads.room());
      } catch (err) {
        if (this.#closed) return;
        if (this.loads.missing(err)) return this.#end("unknown");
        if (this.loads.temporary(err))
          setTimeout(() => this.#closed || void this.load(due), RETRY * (0.5 + Math.random()));
        this.on.failed(err);
      }
    }
    this.#loading = false;
  }

  async #loadAll(): Promise<void> {
    const question = ++this.#lists;
    const clears = this.stage?.clears();
    const scene = await this.loads.scene();
    if (this.#closed) return;
    this.#place(scene);
    this.#play(scene.playback);
    this.#showList(scene.playlist, question);
    if (clears === this.stage?.clears()) for (const c of scene.danmaku) this.stage?.danmaku(c);
    await Promise.all([this.lines.latest(), this.people.read()]);
  }

  #place({ room, me }: Membership): void {
    if (this.#closed) return;
    if (!me) return this.#end("unknown");
    this.settings(room);
    this.#self(this.#newer ?? me);
  }

  /** Applies an event of the room. */
  event({ type, data }: StoaEvent): void {
    if (this.#closed) return;
    switch (type) {
      case "room.playback":
        return this.#play(data as Playback);
      case "room.playlist":
        return this.#loadList();
      case "room.said":
        return this.lines.add(data as RoomLine);
      case "room.danmaku":
        return this.stage?.danmaku(data as Danmaku);
      case "room.danmaku_cleared":
        return this.stage?.clear();
      case "room.viewers":
        return this.#count((data as RoomViewers).viewers);
      case "room.changed":
        // The event has no `words`, and the caller's permissions may have changed, so the room is loaded again. The
        // wait spreads the requests of all viewers.
        this.#roomTimer ??= setTimeout(
          () => {
            this.#roomTimer = undefined;
            void this.load("room");
          },
          Math.random() * (this.room.peek()?.viewers ?? 0),
        );
        return;
      case "room.member": {
        const member = data as RoomMember;
        if (this.#older(member.user.id, member.version)) return;
        this.people.update(member.user.id, member);
        if (member.user.id === this.me.peek()?.id) this.#self((this.#newer = { ...member, id: member.user.id }));
        return;
      }
      case "room.gone":
        return this.gone(data as RoomGone);
    }
  }

  /** Applies the end of a membership, or of the room. */
  gone(gone: RoomGone): void {
    if (this.#closed || gone.room !== this.id) return;
    if (gone.user && this.#older(gone.user, gone.version)) return;
    if (gone.user === this.me.peek()?.id || gone.why === "closed") this.#end(gone.why);
    else this.people.update(gone.user, undefined);
  }

  /** Applies the settings of the room. */
  settings(room: Room): void {
    // The viewers of a scene may be some seconds old. A recent event is newer.
    const { count, at } = this.#viewers;
    this.room.value = performance.now() - at < FRESH ? { ...room, viewers: count } : room;
    this.stage?.room(room, this.may("control"));
  }

  // #older reports whether an event of a member is older than the last one of that member.
  #older(member: string, version = 0): boolean {
    if (version < (this.#versions.get(member) ?? 0)) return true;
    this.#versions.set(member, version);
    return false;
  }

  #end(why: Ending): void {
    if (!this.#closed) this.on.ended(why);
  }

  #count(viewers: number): void {
    this.#viewers = { count: viewers, at: performance.now() };
    const room = this.room.peek();
    if (room) this.settings(room);
    this.#viewersTimer ??= setTimeout(
      () => {
        this.#viewersTimer = undefined;
        void this.people.readOnline().catch(() => {}); // the next event retries
      },
      Math.max(CALM, EACH * viewers) * (1 + Math.random()),
    );
  }

  #self(me: RoomSelf): void {
    this.me.value = me;
    const room = this.room.peek();
    if (room) this.stage?.room(room, this.may("control"));
  }

  #play(playback: Playback): void {
    this.item.value = this.stage?.playback(playback) ?? "";
  }

  #loadList(): void {
    const question = ++this.#lists;
    void this.loads.playlist().then((list) => this.#showList(list, question), this.on.failed);
  }

  // Responses may arrive in another order than their requests: an older one is ignored.
  #showList({ items }: RoomPlaylist, question: number): void {
    if (this.#closed || question < this.#listShown) return;
    this.#listShown = question;
    this.items.value = items;
    this.stage?.items(items);
  }
}
