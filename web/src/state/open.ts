// The chat that is open: which of its messages are loaded, and how far the user has read.

import { signal } from "@preact/signals-core";
import type { Chats } from "@stoa-dev/client";
import type { ChatSignals } from "./chats";

const RETRY = 3000; // ms until a failed opening is retried

/** The scrolling list of the messages. */
export interface MessageList {
  atEnd: () => boolean;
  lastSeen: () => number; // the last message whose start is visible; 0 if there is none
  toEnd: () => void;
  look: () => void; // requests a page if an end is near
  showNew: () => void; // scrolls to the line before the new messages
  show: (seq: number) => boolean; // scrolls to a message and moves the focus to it; false if it is not loaded
  visible: () => boolean; // the page is visible
  rendered: () => Promise<void>; // waits until changes are in the list
}

export class OpenChat {
  /** The first messages are loaded. */
  readonly ready = signal(false);
  /** The error of the last opening. */
  readonly fault = signal<unknown>(undefined);
  /** The first message that was new on arrival; 0 for none. */
  readonly newFrom = signal(0);
  /** The view is at the end of the chat, and follows it. */
  readonly atEnd = signal(true);

  list: MessageList | undefined;
  #loading = false;
  #closed = false;

  constructor(
    readonly chat: string,
    private readonly chats: Pick<Chats, "read" | "close">,
    private readonly signals: ChatSignals,
    private readonly on: { failed: (err: unknown) => void; gone: () => void },
  ) {}

  /** Opens the chat at a message, at the first unread one, or at the end. */
  async open(at = 0): Promise<void> {
    const { chat, signals } = this;
    try {
      await signals.run(chat, (chats) => chats.open(chat));
      if (at > 0 && (await this.goTo(at))) return;
      const state = signals.get(chat);
      if (state && state.unread > 0) this.newFrom.value = state.read + 1;
      // If the new messages exceed a page, load around the first unread one.
      const from = this.newFrom.value;
      const first = signals.messages(chat)[0];
      if (from > 0 && first && first.seq > from && signals.hasOlder(chat))
        await signals.run(chat, (chats) => chats.around(chat, from));
    } catch (err) {
      if (this.#closed) return;
      this.fault.value = err;
      setTimeout(() => this.#closed || void this.open(at), RETRY); // messages that are written meanwhile wait in the outbox
      return;
    }
    if (this.#closed) return;
    this.fault.value = undefined;
    this.ready.value = true;
    await this.list?.rendered();
    this.list?.showNew();
    this.list?.look(); // a page may not fill the screen
  }

  /** Scrolls to a message, and loads it if necessary; false if the load failed. */
  async goTo(seq: number): Promise<boolean> {
    const { chat, signals } = this;
    try {
      await signals.run(chat, (chats) => chats.open(chat));
      await signals.run(chat, (chats) => chats.around(chat, seq));
    } catch (err) {
      this.on.failed(err);
      return false;
    }
    if (this.#closed) return true;
    this.fault.value = undefined;
    this.ready.value = true;
    this.atEnd.value = false;
    await this.list?.rendered();
    if (!this.list?.show(seq)) this.on.gone();
    this.list?.look();
    return true;
  }

  async load(way: "older" | "newer"): Promise<void> {
    const { chat, signals } = this;
    const has = way === "older" ? signals.hasOlder(chat) : signals.hasNewer(chat);
    if (!this.ready.peek() || this.#loading || !has) return;
    this.#loading = true;
    this.atEnd.value = false;
    try {
      await signals.run(chat, (chats) => chats[way](chat));
    } catch {
      return; // the next scrolling retries
    } finally {
      this.#loading = false;
    }
    if (this.#closed) return;
    await this.list?.rendered();
    this.list?.look(); // the user may have scrolled on meanwhile
  }

  async toNewest(): Promise<void> {
    const { chat, signals } = this;
    if (signals.hasNewer(chat)) await signals.run(chat, (chats) => chats.newest(chat)).catch(this.on.failed);
    if (this.#closed) return;
    await this.list?.rendered();
    this.atEnd.value = true; // a rendering or scrolling meanwhile may have reset it
    this.list?.toEnd();
    this.list?.look();
  }

  /** Notes whether the view is at the end, and marks the visible messages as read. */
  moved(): void {
    const { chat, list } = this;
    if (!this.ready.peek() || !list) return;
    this.atEnd.value = list.atEnd() && !this.signals.hasNewer(chat);
    if (!list.visible()) return;
    if (this.atEnd.peek()) this.chats.read(chat);
    else this.chats.read(chat, list.lastSeen());
  }

  /** Handles a new message of another user. */
  arrived(seq: number): void {
    if (this.newFrom.peek() === 0 && (!this.list?.visible() || !this.atEnd.peek())) this.newFrom.value = seq;
  }

  close(): void {
    this.#closed = true;
    this.chats.close(this.chat);
  }
}
