import type { StoaClient } from "./client.js";
import { isTemporary, Refused } from "./errors.js";
import { exclusive } from "./locks.js";
import type { Message, Send, Sent } from "./wire.js";
import type { Storage } from "./storage.js";

/** A message on its way. */
export interface Outgoing {
  chat: string;
  /** What is sent; its client_id names the message in every event of it. */
  body: Send;
  /** When it was written, in milliseconds since 1970. */
  at: number;
  /**
   * - sending: it is kept, and is sent as soon as there is a connection
   * - sent: the server has stored it for good; `sent` says as what
   * - failed: the server refused it; `reason` says why, and retry or discard end it
   */
  state: "sending" | "sent" | "failed";
  sent?: Sent;
  reason?: { code: string; detail: string };
}

interface Kept {
  key: string;
  out: Outgoing;
}

/** Names a message, or a write; crypto.randomUUID exists in secure contexts alone. */
export function newID(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");
}

const longestPause = 30_000; // ms

/**
 * Sends what is kept in a storage: in each chat in the order in which it was written, from one tab
 * at a time, again and again with the same client_id until the server has answered.
 */
export class Outbox {
  private readonly kept = new Map<string, Kept>(); // by client_id
  private readonly prefix: string;
  private readonly others: BroadcastChannel | undefined;
  private readonly over = new Set<string>(); // client_ids of messages that are no longer on their way
  private draining = false;
  private again = false; // something was added meanwhile
  private fresh = false; // the connection is a new one meanwhile
  private pause = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private last = 0;
  private stopped = false;

  constructor(
    private readonly client: StoaClient,
    private readonly user: string,
    private readonly tell: (out: Outgoing) => void,
    private readonly ready: () => boolean, // nothing is sent until this is true
  ) {
    this.prefix = `outbox/${user}/`;
    if (typeof BroadcastChannel === "undefined") return;
    this.others = new BroadcastChannel(`stoa.${this.prefix}`);
    this.others.onmessage = (e: MessageEvent<{ sent?: Sent; client_id?: string }>) => void this.heard(e.data);
    (this.others as { unref?: () => void }).unref?.(); // Node would wait for it
  }

  /** Reads what was kept, and sends it as soon as it may. */
  async start(): Promise<void> {
    await this.reload();
    this.kick();
  }

  /** Ends this object's part; what is kept stays. */
  stop(): void {
    this.stopped = true;
    clearTimeout(this.timer);
    this.others?.close();
  }

  /** Those that are not among the chat's messages yet, in the order of writing. */
  of(chat: string): Outgoing[] {
    return [...this.kept.values()]
      .filter(({ out }) => out.chat === chat)
      .sort((a, b) => (a.key < b.key ? -1 : 1))
      .map(({ out }) => out);
  }

  /** Keeps a message; when the promise is fulfilled it survives the page. */
  async add(chat: string, body: Send): Promise<Outgoing> {
    const out: Outgoing = { chat, body, at: Date.now(), state: "sending" };
    await this.keep({ key: this.nextKey(), out });
    return out;
  }

  /** Sends a message that failed once more, after those that wait. */
  async retry(client_id: string): Promise<void> {
    const old = this.kept.get(client_id);
    if (old?.out.state !== "failed") return;
    const { reason: _, ...out } = old.out;
    await this.keep({ key: this.nextKey(), out: { ...out, state: "sending" } });
    await (await this.storage()).delete(old.key); // last: the page may be closed between the two
  }

  /** Forgets a message that failed. One that is being sent cannot be called back. */
  async discard(client_id: string): Promise<void> {
    const old = this.kept.get(client_id);
    if (old?.out.state !== "failed") return;
    this.over.add(client_id);
    this.kept.delete(client_id);
    await (await this.storage()).delete(old.key);
    this.others?.postMessage({});
  }

  /** Takes note that a message is among the chat's: if it is one of the user's, it is no longer on its way. */
  arrived({ client_id, id, chat, seq, at }: Message): void {
    if (!client_id) return;
    this.over.add(client_id);
    const old = this.kept.get(client_id);
    if (!old) return;
    this.kept.delete(client_id);
    if (old.out.state !== "sent") this.tell({ ...old.out, state: "sent", sent: { id, chat, seq, at } });
    this.storage()
      .then((storage) => storage.delete(old.key))
      .catch(() => {}); // it is sent again, and is the same message
  }

  /** Takes note that a message that was sent has its place in the chat. */
  placed(client_id: string): void {
    this.over.add(client_id);
    this.kept.delete(client_id);
  }

  /** Sends what waits, if it may and there is a connection; with fresh, at once after what failed over an older one. */
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
        else if (!whole && !this.stopped) this.timer = setTimeout(() => {
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

  // The keys' order is the order of writing, among all tabs.
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

  // drain reports whether nothing waits any more.
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

  // sendAll sends messages of one chat; it reports whether none of them waits any more.
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
        // 401: the session ends, and the next one sends it.
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
    if (!old) return; // it is among the chat's messages already
    old.out = { ...old.out, state: "sent", sent };
    this.tell(old.out);
  }

  // heard takes note of what another tab has done.
  private async heard(news: { sent?: Sent; client_id?: string }): Promise<void> {
    if (this.stopped) return;
    if (news.sent && news.client_id) this.wasSent(news.client_id, news.sent);
    await this.reload();
    this.kick(); // the other tab may be closed before it has sent everything
  }

  private async reload(): Promise<void> {
    const there = new Set<string>();
    for (const [key, value] of await (await this.storage()).entries(this.prefix)) {
      const out = value as Outgoing;
      const client_id = out.body.client_id;
      this.last = Math.max(this.last, parseInt(key.slice(this.prefix.length), 10) || 0); // the clock may have been set back since
      if (this.over.has(client_id)) continue;
      there.add(client_id);
      const old = this.kept.get(client_id);
      if (old?.out.state === out.state || old?.out.state === "sent") continue;
      this.kept.set(client_id, { key, out });
      this.tell(out);
    }
    // What another tab discarded is gone; what it sent comes as a message.
    for (const [client_id, { out }] of this.kept) {
      if (out.state === "failed" && !there.has(client_id)) this.kept.delete(client_id);
    }
  }
}
