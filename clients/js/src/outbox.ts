import type { StoaClient } from "./client.js";
import { isTemporary, Refused } from "./errors.js";
import { exclusive } from "./locks.js";
import type { Message, Send, Sent } from "./wire.js";
import type { Storage } from "./storage.js";

/** A message that is being sent. */
export interface Outgoing {
  chat: string;
  /** The content; its client_id identifies the message in all its events. */
  body: Send;
  /** The time of writing, in ms since 1970. */
  at: number;
  /**
   * - sending: it is stored, and is sent when there is a connection
   * - sent: it is durable on the server; `sent` has its id and seq
   * - failed: the server refused it, see `reason`; retry it or discard it
   */
  state: "sending" | "sent" | "failed";
  sent?: Sent;
  reason?: { code: string; detail: string };
}

interface Kept {
  key: string;
  out: Outgoing;
}

/**
 * Returns a random id for a message or a write. It does not use crypto.randomUUID, which exists only in secure
 * contexts.
 */
export function newID(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");
}

const longestPause = 30_000; // ms

/**
 * Sends the messages in a storage: in each chat in the order of writing, and from one tab at a time. It retries with
 * the same client_id until the server has responded.
 */
export class Outbox {
  private readonly kept = new Map<string, Kept>(); // by client_id
  private readonly prefix: string;
  private readonly others: BroadcastChannel | undefined;
  private readonly over = new Set<string>(); // client_ids of messages that are already in the chat, or discarded
  private draining = false;
  private again = false; // a message was added meanwhile
  private fresh = false; // there is a new connection meanwhile
  private pause = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private last = 0;
  private stopped = false;

  constructor(
    private readonly client: StoaClient,
    private readonly user: string,
    private readonly tell: (out: Outgoing) => void,
    private readonly ready: () => boolean, // sending waits until this is true
  ) {
    this.prefix = `outbox/${user}/`;
    if (typeof BroadcastChannel === "undefined") return;
    this.others = new BroadcastChannel(`stoa.${this.prefix}`);
    this.others.onmessage = (e: MessageEvent<{ sent?: Sent; client_id?: string }>) => void this.heard(e.data);
    (this.others as { unref?: () => void }).unref?.(); // otherwise Node would wait for it
  }

  /** Loads the stored messages, and starts to send them. */
  async start(): Promise<void> {
    await this.reload();
    this.kick();
  }

  /** Stops sending; the messages stay stored. */
  stop(): void {
    this.stopped = true;
    clearTimeout(this.timer);
    this.others?.close();
  }

  /** The messages of a chat that are not in it yet, in the order of writing. */
  of(chat: string): Outgoing[] {
    return [...this.kept.values()]
      .filter(({ out }) => out.chat === chat)
      .sort((a, b) => (a.key < b.key ? -1 : 1))
      .map(({ out }) => out);
  }

  /** Stores a message. After the promise is fulfilled, it survives a reload of the page. */
  async add(chat: string, body: Send): Promise<Outgoing> {
    const out: Outgoing = { chat, body, at: Date.now(), state: "sending" };
    await this.keep({ key: this.nextKey(), out });
    return out;
  }

  /** Sends a failed message again, after the waiting ones. */
  async retry(client_id: string): Promise<void> {
    const old = this.kept.get(client_id);
    if (old?.out.state !== "failed") return;
    const { reason: _, ...out } = old.out;
    await this.keep({ key: this.nextKey(), out: { ...out, state: "sending" } });
    await (await this.storage()).delete(old.key); // last: the page may be closed between the two
  }

  /** Deletes a failed message. A message that is being sent cannot be cancelled. */
  async discard(client_id: string): Promise<void> {
    const old = this.kept.get(client_id);
    if (old?.out.state !== "failed") return;
    this.over.add(client_id);
    this.kept.delete(client_id);
    await (await this.storage()).delete(old.key);
    this.others?.postMessage({});
  }

  /** Handles a message of the chat. If it is in the outbox, it is removed there. */
  arrived({ client_id, id, chat, seq, at }: Message): void {
    if (!client_id) return;
    this.over.add(client_id);
    const old = this.kept.get(client_id);
    if (!old) return;
    this.kept.delete(client_id);
    if (old.out.state !== "sent") this.tell({ ...old.out, state: "sent", sent: { id, chat, seq, at } });
    this.storage()
      .then((storage) => storage.delete(old.key))
      .catch(() => {}); // it is sent again, and the server recognises its client_id
  }

  /** Removes a sent message that is now in the chat. */
  placed(client_id: string): void {
    this.over.add(client_id);
    this.kept.delete(client_id);
  }

  /**
   * Starts to send, if the conditions allow it. With fresh, it does not wait for the back-off of an older connection.
   */
  kick(fresh = false): void {
    if (this.stopped || !this.ready() || this.client.state !== "online" || this.client.user !== this.user) return;
    if (fresh) {
      this.pause = 0;
      clearTimeout(this.timer);
      this.timer = undefined;
    }
    if (this.draining) {
      this.again = true;
      this.fresh ||= fresh;
      return;
    }
    if (this.timer) return;
    this.draining = true;
    this.again = this.fresh = false;
    void exclusive(`stoa.${this.prefix}`, () => this.drain())
      .catch(() => false)
      .then((whole) => {
        this.draining = false;
        if (whole) this.pause = 0;
        if (this.fresh || (whole && this.again)) this.kick(this.fresh);
        else if (!whole && !this.stopped)
          this.timer = setTimeout(() => {
            this.timer = undefined;
            this.kick();
          }, this.nextPause());
      });
  }

  private storage(): Promise<Storage> {
    return this.client.storage;
  }

  private nextPause(): number {
    this.pause = Math.min(longestPause, Math.max(500, 2 * this.pause));
    return this.pause * (0.5 + Math.random() / 2);
  }

  // The order of the keys is the order of writing, over all tabs.
  private nextKey(): string {
    this.last = Math.max(this.last + 1, Date.now() * 1000);
    return this.prefix + String(this.last).padStart(17, "0") + "." + crypto.getRandomValues(new Uint32Array(1))[0];
  }

  private async keep(kept: Kept): Promise<void> {
    await (await this.storage()).set(kept.key, kept.out);
    this.kept.set(kept.out.body.client_id, kept);
    this.tell(kept.out);
    this.others?.postMessage({});
    this.kick();
  }

  // drain sends all waiting messages, and reports whether none is left.
  private async drain(): Promise<boolean> {
    const storage = await this.storage();
    for (;;) {
      const waiting = new Map<string, Kept[]>(); // by chat
      for (const [key, value] of await storage.entries(this.prefix)) {
        const out = value as Outgoing;
        if (out.state !== "sending") continue;
        const list = waiting.get(out.chat);
        if (list) list.push({ key, out });
        else waiting.set(out.chat, [{ key, out }]);
      }
      if (waiting.size === 0) return true;
      const done = await Promise.all([...waiting.values()].map((list) => this.sendAll(storage, list)));
      if (done.includes(false)) return false;
    }
  }

  // sendAll sends messages of one chat, and reports whether none of them is left.
  private async sendAll(storage: Storage, list: Kept[]): Promise<boolean> {
    for (const { key, out } of list) {
      if (this.stopped || this.client.state !== "online" || this.client.user !== this.user) return false;
      if (this.over.has(out.body.client_id)) {
        await storage.delete(key);
        continue;
      }
      try {
        const sent = await this.client.call("chats.send", { path: { chat: out.chat }, body: out.body });
        await storage.delete(key);
        this.others?.postMessage({ sent, client_id: out.body.client_id });
        this.wasSent(out.body.client_id, sent);
      } catch (err) {
        // 401: the session ends, and the next session sends the message.
        if (isTemporary(err) || !(err instanceof Refused) || err.status === 401) {
          if (err instanceof Refused) this.pause = Math.max(this.pause, (err.retryAfter * 1000) / 2);
          return false;
        }
        if (this.over.has(out.body.client_id)) continue; // an earlier try was stored after all
        const failed: Outgoing = { ...out, state: "failed", reason: { code: err.code, detail: err.detail } };
        await storage.set(key, failed);
        if (this.kept.has(out.body.client_id)) {
          this.kept.set(out.body.client_id, { key, out: failed });
          this.tell(failed);
        }
        this.others?.postMessage({});
      }
    }
    return true;
  }

  private wasSent(client_id: string, sent: Sent): void {
    const old = this.kept.get(client_id);
    if (!old) return; // the message is already in the chat
    old.out = { ...old.out, state: "sent", sent };
    this.tell(old.out);
  }

  // heard handles a notice of another tab.
  private async heard(news: { sent?: Sent; client_id?: string }): Promise<void> {
    if (this.stopped) return;
    if (news.sent && news.client_id) this.wasSent(news.client_id, news.sent);
    await this.reload();
    this.kick(); // the other tab may be closed before it has sent all messages
  }

  private async reload(): Promise<void> {
    const there = new Set<string>();
    for (const [key, value] of await (await this.storage()).entries(this.prefix)) {
      const out = value as Outgoing;
      const client_id = out.body.client_id;
      // the clock may have been set back since
      this.last = Math.max(this.last, parseInt(key.slice(this.prefix.length), 10) || 0);
      if (this.over.has(client_id)) continue;
      there.add(client_id);
      const old = this.kept.get(client_id);
      if (old?.out.state === out.state || old?.out.state === "sent") continue;
      this.kept.set(client_id, { key, out });
      this.tell(out);
    }
    // A failed message that another tab has discarded is removed. A message that another tab has sent arrives as an
    // event.
    for (const [client_id, { out }] of this.kept) {
      if (out.state === "failed" && !there.has(client_id)) this.kept.delete(client_id);
    }
  }
}
