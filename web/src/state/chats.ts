// The state of the chats as signals: a component that reads it is rendered again when it changes.

import { computed, type ReadonlySignal } from "@preact/signals-core";
import type { Chats, ChatState, Friend, Message, Outgoing, Presence, Presences } from "@stoa-dev/client";
import { Changes } from "./changes";

export type ChatSource = Pick<
  Chats,
  | "on"
  | "list"
  | "get"
  | "messages"
  | "pending"
  | "hasOlder"
  | "hasNewer"
  | "open"
  | "older"
  | "newer"
  | "newest"
  | "around"
  | "discard"
  | "clear"
>;
type Watched = (fn: () => void, signal: AbortSignal) => void;

/** The list of friends. */
export interface FriendSource {
  friends: Friend[];
  watch: Watched;
}

export class ChatSignals {
  /** The ids of the chats, in the order of the list. A change of one chat alone does not change this value. */
  readonly order: ReadonlySignal<string[]>;

  readonly #any = new Changes(); // of the list
  readonly #chats = new Map<string, Changes>();
  readonly #presence = new Changes();
  readonly #people = new Changes();
  readonly #friends: ReadonlySignal<Map<string, Friend>>;

  constructor(
    private readonly source: ChatSource,
    private readonly presences: Pick<Presences, "status" | "lastSeen" | "watch">,
    people: FriendSource,
    signal: AbortSignal,
  ) {
    let last: string[] = [];
    this.order = computed(() => {
      this.#any.track();
      const ids = source.list().map(({ chat }) => chat);
      if (ids.length !== last.length || ids.some((id, i) => id !== last[i])) last = ids;
      return last;
    });
    this.#friends = computed(() => {
      this.#people.track();
      return new Map(people.friends.map((f) => [f.user.id, f]));
    });
    const offs = [
      source.on("chat", ({ chat }) => this.#changed(chat)),
      source.on("message", ({ chat }) => this.#changed(chat)),
      source.on("changed", ({ chat }) => this.#changed(chat)),
      source.on("hidden", ({ chat }) => this.#changed(chat)),
      source.on("outgoing", ({ chat }) => this.#changed(chat)),
      source.on("gone", (chat) => this.#changed(chat)),
      source.on("synced", () => this.#changed()),
    ];
    signal.addEventListener("abort", () => offs.forEach((off) => off()));
    presences.watch(() => this.#presence.publish(), signal);
    people.watch(() => this.#people.publish(), signal);
  }

  /** A chat, if it is known. */
  get(chat: string): ChatState | undefined {
    this.#of(chat).track();
    return this.source.get(chat);
  }

  /** The loaded messages of an open chat. */
  messages(chat: string): readonly Message[] {
    this.#of(chat).track();
    return this.source.messages(chat);
  }

  /** The user's messages of a chat that are being sent. */
  pending(chat: string): Outgoing[] {
    this.#of(chat).track();
    return this.source.pending(chat);
  }

  hasOlder(chat: string): boolean {
    this.#of(chat).track();
    return this.source.hasOlder(chat);
  }

  hasNewer(chat: string): boolean {
    this.#of(chat).track();
    return this.source.hasNewer(chat);
  }

  /** Runs a command that changes the loaded messages of a chat. The client emits no event for that. */
  async run<T>(chat: string, command: (chats: ChatSource) => Promise<T>): Promise<T> {
    try {
      return await command(this.source);
    } finally {
      this.#changed(chat);
    }
  }

  friend(user: string): Friend | undefined {
    return this.#friends.value.get(user);
  }

  status(user: string): Presence["status"] {
    this.#presence.track();
    return this.presences.status(user);
  }

  lastSeen(user: string): string | undefined {
    this.#presence.track();
    return this.presences.lastSeen(user);
  }

  #of(chat: string): Changes {
    let changes = this.#chats.get(chat);
    if (!changes) this.#chats.set(chat, (changes = new Changes()));
    return changes;
  }

  #changed(chat?: string): void {
    if (chat) this.#of(chat).publish();
    this.#any.publish();
  }
}
