import type { StoaClient, StoaEvent } from "./client.js";
import { Emitter } from "./emitter.js";
import { isTemporary, Refused } from "./errors.js";
import { newID, Outbox, type Outgoing } from "./outbox.js";
import type {
  Chat,
  ChatChange,
  ChatMark,
  ChatSettings,
  ChatSettingsUpdate,
  ChatStands,
  EventCatalogue,
  FoundMessages,
  Message,
  MessageHidden,
  MessageRef,
  Messages,
  Send,
  Typing,
} from "./wire.js";

/** The content of a message. */
export type Said = Omit<Send, "client_id" | "reply_to" | "forward">;

/** A chat, with the state that an app shows. */
export interface ChatState extends Chat {
  /** Whether the peer is typing. */
  typing: boolean;
}

/** The events of {@link Chats}. */
export interface ChatsEvents {
  /** All chats are current: after the start, and again after each break that could not be resumed. */
  synced: undefined;
  /**
   * A message that arrived after the start. Each is emitted once, and those of one chat in the order of seq. Messages
   * of a large group are emitted only while its chat is open.
   */
  message: Message;
  /** The present state of a message after an edit, a recall, or a reaction. */
  changed: Message;
  /** A message that the user has deleted for themselves, on any device. */
  hidden: MessageRef;
  /** The present state of a chat: its newest message, marks, settings, and typing. */
  chat: ChatState;
  /** The chat of a group that the user has left. It is removed from the list. */
  gone: string;
  /** The state of one of the user's messages that is being sent. */
  outgoing: Outgoing;
}

export interface ChatsOptions {
  /** The id of the logged-in user. Messages of another user in the outbox are not touched. */
  user: string;
}

const page = 50; // messages in a page of an open chat
const range = 200; // messages in a page that closes a gap
const typingEvery = 3_000; // ms between two typing notices to the peer
const typingFor = 6_000; // ms until the peer's typing is no longer shown
const marksAfter = 300; // ms to collect marks before they are sent
const echoAfter = 1_000; // ms to wait for the event of a stored message before the client requests it
// ms within which the newest message of a large group is requested; a random wait spreads the requests of its members
const glanceWithin = 10_000;
const retryAfter = 1_000; // ms, the first wait
const retryMost = 30_000;

// Held is the local state of a chat. The app has received its messages up to seq, and their changes up to rev. Events
// ahead of these two numbers wait until the server has returned the missing ones.
interface Held {
  chat: Chat;
  seq: number;
  rev: number;
  want: number; // the newest seq that is known to exist
  wantRev: number;
  early: Map<number, Message>; // by seq, above seq
  changes: Map<number, Message>; // by rev, above rev
  gone: Set<number>; // deleted by the user for themselves
  uncounted: Set<number>; // system and recalled messages; those up to the read mark do not count
  window: Message[] | undefined; // of an open chat, in the order of seq
  more: boolean; // there are messages before the window
  later: boolean; // there are messages after the window, and new ones are not added to it
  part: number; // counts the windows: a response for an earlier window is ignored
  bare: boolean; // the chat was not loaded from the server yet
  running: boolean;
  pause: number;
  // of a large group: its messages are not loaded before the chat is opened
  behind: boolean;
  glancing: boolean;
  // by seq: own messages from the channel, until a response states their client_id
  own: Map<number, Message>;
  unsubscribe: (() => void) | undefined; // from the channel of an open group chat
  typing: ReturnType<typeof setTimeout> | undefined;
}

/**
 * The user's chats: the list, the messages of open chats, and the outbox. It loads missed messages itself, so that an
 * app only shows the events.
 */
export class Chats extends Emitter<ChatsEvents> {
  readonly user: string;
  private readonly held = new Map<string, Held>();
  private readonly outbox: Outbox;
  private readonly marks = new Map<string, { read: number; delivered: number }>();
  private readonly told = new Map<string, number>(); // by chat: the time of the last typing notice to the peer
  private readonly timers = new Set<ReturnType<typeof setTimeout>>();
  private readonly offs: (() => void)[] = [];
  private backlog: (() => void)[] | undefined = []; // events before the first list
  private owed = false; // synced is still to be emitted
  private cursor = "";
  private stale = true;
  private syncing = false;
  private pause = 0;
  private marking = false;
  private stopped = false;

  constructor(
    private readonly client: StoaClient,
    options: ChatsOptions,
  ) {
    super();
    this.user = options.user;
    // A message that is sent before the first list would be in that list, as history.
    this.outbox = new Outbox(
      client,
      options.user,
      (out) => this.outgoing(out),
      () => !this.backlog,
    );
  }

  /** Loads the outbox and subscribes to events. The chats are current at the first `synced`. */
  async start(): Promise<void> {
    const on = <K extends keyof EventCatalogue>(name: K, fn: (data: EventCatalogue[K]) => void) =>
      this.offs.push(
        this.client.on(name, (data) => (this.backlog ? this.backlog.push(() => fn(data as never)) : fn(data as never))),
      );
    this.offs.push(this.client.on("open", ({ resumed }) => this.opened(resumed)));
    on("message.new", (m) => this.arrived(m));
    on("message.changed", (m) => this.edited(m));
    on("message.hidden", (ref) => this.hidden(ref));
    on("chat.marked", (mark) => this.marked(mark));
    on("chat.updated", (chat) => this.updated(chat));
    on("chat.typing", (t) => this.writes(t));
    on("chat.stands", (at) => this.stands(at));
    on("group.left", ({ group }) => this.left(`g:${group}`));
    await this.outbox.start();
    if (this.client.state === "online") this.opened(false);
  }

  /** Stops receiving and sending. Unsent messages stay in the outbox. */
  stop(): void {
    this.stopped = true;
    for (const off of this.offs.splice(0)) off();
    for (const timer of this.timers) clearTimeout(timer);
    for (const h of this.held.values()) {
      clearTimeout(h.typing);
      h.unsubscribe?.();
    }
    this.outbox.stop();
  }

  // --- state for the app ---

  /** The chats: pinned ones first, then by their newest message. */
  list(): ChatState[] {
    return [...this.held.values()]
      .filter((h) => h.want > (h.chat.cleared ?? 0) || h.chat.pinned || h.chat.draft)
      .map((h) => this.shown(h))
      .sort(
        (a, b) =>
          since(b.pinned) - since(a.pinned) || Date.parse(b.at) - Date.parse(a.at) || (a.chat < b.chat ? -1 : 1),
      );
  }

  /** A chat, if it is known. */
  get(chat: string): ChatState | undefined {
    const h = this.held.get(chat);
    return h && this.shown(h);
  }

  /** The number of unread messages in all chats that are not muted. */
  get unread(): number {
    return this.list().reduce((sum, c) => sum + (c.muted && Date.parse(c.muted) > Date.now() ? 0 : c.unread), 0);
  }

  /** The messages of an open chat, in the order of seq. */
  messages(chat: string): readonly Message[] {
    return this.held.get(chat)?.window ?? [];
  }

  /** Whether an open chat has messages before those that {@link messages} returns. */
  hasOlder(chat: string): boolean {
    return this.held.get(chat)?.more ?? false;
  }

  /** Whether an open chat has messages after those that {@link messages} returns, as after {@link around}. */
  hasNewer(chat: string): boolean {
    return this.held.get(chat)?.later ?? false;
  }

  /** The user's messages of a chat that are being sent, in the order of writing. */
  pending(chat: string): Outgoing[] {
    const seq = this.held.get(chat)?.seq ?? 0;
    return this.outbox.of(chat).filter(({ sent }) => !sent || sent.seq > seq);
  }

  // --- actions of the user ---

  /** Loads the newest messages of a chat and updates them until it is closed. It waits for the first list. */
  async open(chat: string): Promise<readonly Message[]> {
    if (this.backlog) await new Promise<void>((done) => this.backlog?.push(done));
    const h = this.hold(chat);
    if (h.window) return h.window;
    h.part++;
    [h.window, h.later] = [[], false];
    if (h.chat.group) h.unsubscribe ??= this.client.subscribe(`chat/${h.chat.group}`, (e) => this.published(e));
    try {
      await this.load(h, {});
    } catch (err) {
      if (!(err instanceof Refused && err.code === "chat.unknown")) {
        this.close(chat);
        throw err;
      }
    }
    return h.window ?? [];
  }

  /** Loads older messages of an open chat. */
  async older(chat: string): Promise<readonly Message[]> {
    const h = this.held.get(chat);
    if (!h?.window) return [];
    const first = h.window[0];
    if (h.more && first) await this.load(h, { before: first.seq });
    return h.window ?? [];
  }

  /**
   * Loads the messages around one into an open chat, unless that one is already there. New messages are still emitted
   * as `message`. They are in {@link messages} again after {@link newer} or {@link newest} has loaded up to them.
   */
  async around(chat: string, seq: number): Promise<readonly Message[]> {
    const h = this.held.get(chat);
    if (!h?.window) return [];
    if (!h.window.some((m) => m.seq === seq)) await this.load(h, { around: seq }, true);
    return h.window ?? [];
  }

  /** Loads newer messages of an open chat, if {@link hasNewer}. */
  async newer(chat: string): Promise<readonly Message[]> {
    const h = this.held.get(chat);
    if (!h?.window || !h.later) return h?.window ?? [];
    const last = h.window.at(-1);
    await (last ? this.load(h, { after: last.seq }) : this.load(h, {}, true));
    return h.window ?? [];
  }

  /** Loads the newest messages of an open chat again. */
  async newest(chat: string): Promise<readonly Message[]> {
    const h = this.held.get(chat);
    if (!h?.window || !h.later) return h?.window ?? [];
    await this.load(h, {}, true);
    return this.newer(chat); // messages that arrived during the load
  }

  /**
   * Returns one message of a chat, such as one that another message replies to. It is undefined if there is none, or if
   * the user has deleted it.
   */
  async message(chat: string, seq: number): Promise<Message | undefined> {
    const known = this.held.get(chat)?.window?.find((m) => m.seq === seq);
    if (known) return known;
    const answer = await this.client.call("chats.messages", { path: { chat }, query: { around: seq, limit: 2 } });
    return answer.messages?.find((m) => m.seq === seq);
  }

  /** Closes a chat and discards its loaded messages. */
  close(chat: string): void {
    const h = this.held.get(chat);
    if (!h) return;
    h.part++;
    [h.window, h.more, h.later] = [undefined, false, false];
    h.unsubscribe?.();
    h.unsubscribe = undefined;
  }

  /**
   * Stores a message in the outbox. After the promise is fulfilled, the message survives a reload of the page.
   * `outgoing` reports its progress, and `message` its place in the chat.
   */
  async send(chat: string, said: Said, more: Pick<Send, "reply_to" | "forward"> = {}): Promise<Outgoing> {
    this.told.delete(chat); // the message ends the peer's typing notice
    return this.outbox.add(chat, { ...said, ...more, client_id: newID() });
  }

  /** Sends a failed message again. */
  async retry(client_id: string): Promise<void> {
    return this.outbox.retry(client_id);
  }

  /** Deletes a failed message. */
  async discard(client_id: string): Promise<void> {
    return this.outbox.discard(client_id);
  }

  /** Replaces the text of one of the user's messages. */
  async edit(chat: string, seq: number, text: string): Promise<void> {
    this.edited(await this.client.call("chats.edit", { path: { chat, seq }, body: { text } }));
  }

  /** Recalls one of the user's messages, for all members. */
  async recall(chat: string, seq: number): Promise<void> {
    await this.client.call("chats.delete", { path: { chat, seq }, query: { for: "everybody" } });
  }

  /** Deletes a message for the user alone. */
  async hide(chat: string, seq: number): Promise<void> {
    await this.client.call("chats.delete", { path: { chat, seq }, query: { for: "me" } });
    this.hidden({ chat, seq });
  }

  /** Adds or removes a reaction of the user: one emoji. */
  async react(chat: string, seq: number, emoji: string, on = true): Promise<void> {
    this.edited(await this.client.call(on ? "chats.react" : "chats.unreact", { path: { chat, seq, emoji } }));
  }

  /** Marks the chat as read, up to a message or to the newest. */
  read(chat: string, seq?: number): void {
    const h = this.held.get(chat);
    const to = Math.min(seq ?? Infinity, h?.seq ?? 0);
    if (!h || to <= h.chat.read) return;
    h.chat = { ...h.chat, read: to };
    this.mark(chat, to, to);
    this.show(h);
  }

  /** Sends a typing notice to the peer, at most one in three seconds, or the notice that the user has stopped. */
  typing(chat: string, typing = true): void {
    const last = this.told.get(chat);
    if (typing ? last !== undefined && Date.now() - last < typingEvery : last === undefined) return;
    if (typing) this.told.set(chat, Date.now());
    else this.told.delete(chat);
    if (this.client.state !== "online") return;
    this.client.call("chats.typing", { path: { chat }, body: { typing } }).catch(() => {}); // a lost notice is not worth a retry
  }

  /** Pins or mutes a chat, or stores a draft for it. */
  async update(chat: string, change: ChatChange): Promise<void> {
    this.updated(await this.client.call("chats.update", { path: { chat }, body: change }));
  }

  /** Deletes all messages of a chat for the user alone. */
  async clear(chat: string): Promise<void> {
    await this.client.call("chats.clear", { path: { chat } });
    this.updated(await this.client.call("chats.get", { path: { chat } }));
  }

  /** Searches all chats, or one, for messages that have each word of q. The newest are first. */
  async search(q: string, options: { chat?: string; cursor?: string; limit?: number } = {}): Promise<FoundMessages> {
    return this.client.call("chats.search", { query: { q, ...options } });
  }

  /** Returns the settings: which users may write to the user, and whether receipts are shown. */
  async settings(): Promise<ChatSettings> {
    return this.client.call("chats.settings");
  }

  /** Updates the given settings. The others stay unchanged. */
  async setSettings(to: ChatSettingsUpdate): Promise<ChatSettings> {
    return this.client.call("chats.set_settings", { body: to });
  }

  // --- events ---

  private opened(resumed: boolean): void {
    if (this.client.user !== this.user) return; // another user has logged in
    if (!resumed) this.stale = true;
    void this.sync();
    for (const h of this.held.values()) void this.run(h); // continues work that a break has interrupted
    this.outbox.kick(true);
    this.mark();
  }

  // left removes the chat of a group that the user has left.
  private left(chat: string): void {
    const h = this.held.get(chat);
    if (!h) return;
    this.close(chat);
    this.held.delete(chat);
    this.marks.delete(chat);
    this.emit("gone", chat);
  }

  private arrived(m: Message): void {
    const h = this.hold(m.chat);
    if (m.seq <= h.seq) return;
    h.behind = false; // a member who gets one message event gets all of them
    newer(h.early, m.seq, m);
    h.want = Math.max(h.want, m.seq);
    this.count(h, m);
    void this.run(h);
  }

  // published handles an event of the channel of an open group chat. The channel does not state the client_id of a
  // message. An own message waits for the response of its send; if another device has sent it, the client requests it.
  private published({ type, data }: StoaEvent): void {
    const m = data as Message;
    if (type === "message.changed") return this.edited(m);
    if (type !== "message.new") return;
    if (m.from !== this.user) return this.arrived(m);
    const out = this.outbox.of(m.chat).find(({ sent }) => sent?.seq === m.seq);
    if (out) this.arrived({ ...m, client_id: out.body.client_id });
    else this.hold(m.chat).own.set(m.seq, m);
  }

  private edited(m: Message): void {
    const h = this.held.get(m.chat);
    const rev = m.rev ?? 0;
    if (!h || rev <= h.rev) return;
    h.changes.set(rev, m);
    h.wantRev = Math.max(h.wantRev, rev);
    void this.run(h);
  }

  private hidden({ chat, seq, rev = 0 }: MessageRef & Partial<MessageHidden>): void {
    const h = this.held.get(chat);
    if (h && rev > h.rev) {
      h.wantRev = Math.max(h.wantRev, rev);
      if (rev === h.rev + 1) h.rev = rev; // the event has the complete change
      void this.run(h);
    }
    if (!h || h.gone.has(seq)) return;
    h.gone.add(seq);
    h.early.delete(seq);
    if (h.window) h.window = h.window.filter((m) => m.seq !== seq);
    if (h.chat.last?.seq === seq) {
      const { last: _, ...chat } = h.chat;
      h.chat = chat;
    }
    this.emit("hidden", { chat, seq });
    this.show(h);
    if (seq > h.seq) void this.run(h);
  }

  private marked({ chat, user, read = 0, delivered = 0 }: ChatMark): void {
    const h = this.held.get(chat);
    if (!h) return;
    if (user === this.user) h.chat = { ...h.chat, read: Math.max(h.chat.read, read) };
    else
      h.chat = {
        ...h.chat,
        peer_read: Math.max(h.chat.peer_read ?? 0, read),
        peer_got: Math.max(h.chat.peer_got ?? 0, delivered),
      };
    this.show(h);
  }

  private updated(chat: Chat): void {
    void this.run(this.merge(chat));
  }

  // stands handles the server's newest seq and rev of a chat. Earlier events may be lost with a node, or a user's
  // messages may be erased. Members of a large group get no other personal event. An open chat gets messages over its
  // channel; a closed one only counts them.
  private stands({ chat, seq, rev }: ChatStands): void {
    const h = this.hold(chat);
    const take = () => {
      h.want = Math.max(h.want, seq);
      h.wantRev = Math.max(h.wantRev, rev);
      if (h.chat.group && !h.window && (h.seq < h.want || h.rev < h.wantRev)) this.fallBehind(h);
      else void this.run(h);
    };
    if (h.chat.group && h.window) this.later(echoAfter, take);
    else take();
  }

  private fallBehind(h: Held): void {
    h.behind = true;
    this.show(h);
    this.settle();
    if (h.glancing) return;
    h.glancing = true;
    this.later(glanceWithin * (0.1 + 0.9 * Math.random()), async () => {
      try {
        this.merge(await this.client.call("chats.get", { path: { chat: h.chat.chat } }));
      } catch (err) {
        this.report(err); // the next message, or the next list, has it
      } finally {
        h.glancing = false;
      }
    });
  }

  private writes({ chat, typing }: Typing): void {
    const h = this.held.get(chat);
    if (!h) return;
    clearTimeout(h.typing);
    h.typing = undefined;
    if (typing) {
      h.typing = setTimeout(() => {
        h.typing = undefined;
        this.show(h);
      }, typingFor);
    }
    this.show(h);
  }

  private outgoing(out: Outgoing): void {
    this.emit("outgoing", out);
    const { sent } = out;
    if (!sent) return;
    const held = this.held.get(out.chat);
    const own = held?.own.get(sent.seq);
    if (own) return this.arrived({ ...own, client_id: out.body.client_id });
    // The event delivers the user's own messages too. If no event arrives, the client requests the message.
    this.later(echoAfter, () => {
      // the user has left the group meanwhile
      if (held && !this.held.has(out.chat)) return this.outbox.placed(out.body.client_id);
      const h = this.hold(out.chat);
      h.want = Math.max(h.want, sent.seq);
      void this.run(h);
      if (sent.seq <= h.seq || h.behind) this.outbox.placed(out.body.client_id);
    });
  }

  // --- synchronisation ---

  // sync loads the changes since the last list, and repeats this after a break in between.
  private async sync(): Promise<void> {
    if (this.syncing || this.stopped) return;
    this.syncing = true;
    try {
      while (this.stale && this.client.state === "online") {
        this.stale = false;
        try {
          await this.lists();
          this.pause = 0;
          this.owed = true;
          for (const h of this.held.values()) void this.run(h);
        } catch (err) {
          this.stale = true;
          this.report(err);
          this.pause = pauseAfter(this.pause, err);
          this.later(this.pause, () => void this.sync());
          return;
        }
      }
    } finally {
      this.syncing = false;
      this.settle();
    }
  }

  // settle emits synced if all chats are current.
  private settle(): void {
    if (!this.owed || this.stale || this.syncing || this.stopped) return;
    for (const h of this.held.values()) if (!h.behind && (h.seq < h.want || h.rev < h.wantRev)) return;
    this.owed = false;
    this.emit("synced", undefined);
  }

  private async lists(): Promise<void> {
    // A chat that moves to the front during the reading is on none of the later pages. So lists of the changes since
    // then are read until one fits on a page or has no news.
    for (let since = this.cursor, again = true; again;) {
      const { sync, pages, news } = await this.pages(since);
      since = sync;
      again = pages > 1 && news;
      if (!again) this.cursor = sync;
    }
    const waiting = this.backlog;
    if (!waiting) return;
    this.backlog = undefined;
    for (const fn of waiting) fn();
    this.outbox.kick();
  }

  private async pages(since: string): Promise<{ sync: string; pages: number; news: boolean }> {
    let sync = "";
    let news = false;
    for (let cursor = "", pages = 1; ; pages++) {
      const query = { limit: 100, ...(since && { since }), ...(cursor && { cursor }) };
      const answer = await this.client.call("chats.list", { query });
      sync ||= answer.sync;
      for (const chat of answer.chats ?? []) {
        if (chat.gone) {
          this.left(chat.chat);
          continue;
        }
        const old = this.held.get(chat.chat);
        const before = old && [old.want, old.wantRev].join();
        const h = this.merge(chat);
        news ||= before !== [h.want, h.wantRev].join();
        if (chat.unread > 0 && chat.last && !old) this.mark(h.chat.chat, 0, chat.seq);
      }
      cursor = answer.next ?? "";
      if (!cursor) return { sync, pages, news };
    }
  }

  // hold returns the local state of a chat, and creates an empty one if necessary.
  private hold(chat: string): Held {
    let h = this.held.get(chat);
    if (!h) {
      h = {
        chat: {
          chat,
          ...(chat.startsWith("g:") ? { group: chat.slice(2) } : { peer: chat.slice(2) }),
          seq: 0,
          rev: 0,
          read: 0,
          unread: 0,
          at: new Date(0).toISOString(),
        },
        ...{
          seq: 0,
          rev: 0,
          want: 0,
          wantRev: 0,
          early: new Map(),
          changes: new Map(),
          gone: new Set<number>(),
          uncounted: new Set<number>(),
        },
        ...{
          window: undefined,
          more: false,
          later: false,
          part: 0,
          bare: true,
          running: false,
          pause: 0,
          typing: undefined,
        },
        ...{ behind: false, glancing: false, own: new Map(), unsubscribe: undefined },
      };
      this.held.set(chat, h);
    }
    return h;
  }

  // merge applies the server's state of a chat. Responses and events arrive in any order, so numbers only grow. Of the
  // user's own settings, the higher version is valid.
  private merge(chat: Chat): Held {
    const h = this.hold(chat.chat);
    const old = h.chat;
    const last = old.last && old.last.seq > chat.seq ? old.last : chat.last && better(old.last, chat.last);
    h.chat = {
      ...((chat.version ?? Infinity) < (old.version ?? 0) ? { ...chat, ...settingsOf(old) } : chat),
      seq: Math.max(old.seq, chat.seq),
      rev: Math.max(old.rev, chat.rev),
      read: Math.max(old.read, chat.read),
      cleared: Math.max(old.cleared ?? 0, chat.cleared ?? 0),
      peer_read: Math.max(old.peer_read ?? 0, chat.peer_read ?? 0),
      peer_got: Math.max(old.peer_got ?? 0, chat.peer_got ?? 0),
      at: Date.parse(chat.at) < Date.parse(old.at) ? old.at : chat.at,
    };
    delete h.chat.last;
    const cleared = h.chat.cleared ?? 0;
    if (last && last.seq > cleared && !h.gone.has(last.seq)) h.chat.last = last;
    h.want = Math.max(h.want, chat.seq);
    h.wantRev = Math.max(h.wantRev, chat.rev);
    for (const seq of chat.uncounted ?? []) h.uncounted.add(seq);
    // Messages in the first list are history. A chat that appears later was cleared or did not exist then.
    if (h.bare && this.backlog) [h.seq, h.rev] = [chat.seq, chat.rev];
    h.bare = false;
    h.seq = Math.max(h.seq, cleared);
    if (h.window?.[0] && h.window[0].seq <= cleared)
      [h.window, h.more] = [h.window.filter((m) => m.seq > cleared), false];
    this.show(h);
    return h;
  }

  // run emits messages and changes in order, and requests the missing ones, until the chat is current.
  private async run(h: Held): Promise<void> {
    if (h.running || h.behind || this.backlog || this.stopped) return;
    h.running = true;
    const path = { chat: h.chat.chat };
    try {
      for (;;) {
        if (h.bare && h.want > 0) {
          this.merge(await this.client.call("chats.get", { path }));
        }
        this.handOn(h);
        if (h.seq < h.want) await this.fill(h);
        else if (h.rev < h.wantRev) await this.changes(h);
        else break;
      }
      h.pause = 0;
    } catch (err) {
      if (err instanceof Refused && err.code === "chat.unknown") {
        [h.want, h.wantRev] = [h.seq, h.rev]; // the chat no longer exists
      } else {
        this.report(err);
        h.pause = pauseAfter(h.pause, err);
        this.later(h.pause, () => void this.run(h)); // or at the next connection
      }
    } finally {
      h.running = false;
      this.settle();
    }
  }

  private handOn(h: Held): void {
    for (;;) {
      const next = h.early.get(h.seq + 1);
      if (next || h.gone.has(h.seq + 1)) {
        h.early.delete(h.seq + 1);
        h.seq++;
        if (next) this.deliver(h, next);
        continue;
      }
      const change = h.changes.get(h.rev + 1);
      if (!change) return;
      h.changes.delete(++h.rev);
      this.apply(h, change);
    }
  }

  // fill requests the messages after seq.
  private async fill(h: Held): Promise<void> {
    const path = { chat: h.chat.chat };
    const answer = await this.client.call("chats.messages", { path, query: { after: h.seq, limit: range } });
    const list = answer.messages ?? [];
    const upTo = answer.more ? 0 : answer.seq;
    if (h.seq === 0) h.rev = Math.max(h.rev, answer.rev); // no message was emitted that could have changed
    const from = h.seq;
    for (const m of list) {
      if (m.seq <= h.seq) continue;
      h.seq = m.seq;
      this.deliver(h, better(h.early.get(m.seq), m)!);
    }
    h.seq = Math.max(h.seq, upTo);
    forget(h.early, h.seq);
    forget(h.changes, h.rev);
    forget(h.own, h.seq);
    if (h.seq === from) throw new Refused(503, "chat.store_away", "A message is not there that an event told of.");
  }

  // changes requests the changes after rev.
  private async changes(h: Held): Promise<void> {
    const from = h.rev;
    const answer = await this.client.call("chats.changes", { path: { chat: h.chat.chat }, query: { since: from } });
    for (const seq of answer.hidden ?? []) this.hidden({ chat: h.chat.chat, seq });
    for (const m of answer.changed ?? []) if ((m.rev ?? 0) > h.rev) this.apply(h, m);
    h.rev = Math.max(h.rev, answer.rev);
    forget(h.changes, h.rev);
    if (h.rev === from) throw new Refused(503, "chat.store_away", "A change is not there that an event told of.");
  }

  private deliver(h: Held, m: Message): void {
    if (h.gone.has(m.seq) || m.seq <= (h.chat.cleared ?? 0)) return;
    this.count(h, m);
    h.want = Math.max(h.want, m.seq); // it may come before its event
    h.chat = { ...h.chat, seq: Math.max(h.chat.seq, m.seq), at: m.at, last: m };
    if (m.kind === "system")
      this.mark(m.chat, 0, m.seq); // a system message moves no mark of its sender
    else if (m.from === this.user) h.chat.read = Math.max(h.chat.read, m.seq);
    else {
      clearTimeout(h.typing);
      h.typing = undefined;
      // A sender has received and read all earlier messages. Only the server knows whether the sender shows read marks.
      // If they never did, the client waits for the server's mark.
      h.chat.peer_got = Math.max(h.chat.peer_got ?? 0, m.seq);
      if (h.chat.peer_read) h.chat.peer_read = Math.max(h.chat.peer_read, m.seq);
      this.mark(m.chat, 0, m.seq);
    }
    if (h.window && !h.later) h.window = put(h.window, m);
    h.own.delete(m.seq);
    this.outbox.arrived(m);
    this.emit("message", m);
    this.show(h);
  }

  private apply(h: Held, m: Message): void {
    if (h.gone.has(m.seq) || m.seq <= (h.chat.cleared ?? 0)) return;
    this.count(h, m);
    if (m.seq > h.seq) {
      newer(h.early, m.seq, m); // it is emitted in this state
      h.want = Math.max(h.want, m.seq);
      return;
    }
    const old = h.window?.find(({ seq }) => seq === m.seq);
    if (old && (old.rev ?? 0) >= (m.rev ?? 0)) return this.show(h); // it was loaded in this state
    if (old?.client_id && !m.client_id) m = { ...m, client_id: old.client_id }; // the channel does not send it
    if (old && h.window) h.window = put(h.window, m);
    if (h.chat.last?.seq === m.seq) h.chat = { ...h.chat, last: better(h.chat.last, m)! };
    this.emit("changed", m);
    this.show(h);
  }

  // load loads a page of an open chat's messages. With `anew`, the page replaces the others.
  private async load(
    h: Held,
    query: { before?: number; after?: number; around?: number },
    anew = false,
  ): Promise<void> {
    const part = anew ? ++h.part : h.part;
    const answer = await this.client.call("chats.messages", {
      path: { chat: h.chat.chat },
      query: { limit: page, ...query },
    });
    // the chat was closed meanwhile, or has another window
    if (!h.window || h.part !== part) return;
    const list = answer.messages ?? [];
    for (const m of list) this.count(h, m);
    if (h.behind) this.overtake(h, answer);
    if (anew) h.window = [];
    // Messages that arrived after the response are not added, because they may not follow the page.
    if (anew || query.after !== undefined)
      h.later =
        answer.seq < h.seq || (query.after !== undefined ? answer.more : (list.at(-1)?.seq ?? Infinity) < answer.seq);
    for (const m of list) {
      if (h.gone.has(m.seq) || m.seq <= (h.chat.cleared ?? 0)) continue;
      this.outbox.arrived(m);
      if (m.seq > h.seq) newer(h.early, m.seq, m);
      else h.window = put(h.window, m);
    }
    if (query.after === undefined) {
      const lowest = Math.min(list[0]?.seq ?? Infinity, h.window[0]?.seq ?? Infinity);
      h.more = answer.more && lowest > (h.chat.cleared ?? 0) + 1;
    }
    h.want = Math.max(h.want, answer.seq);
    h.wantRev = Math.max(h.wantRev, answer.rev);
    await this.run(h);
  }

  // overtake marks all messages of a large group up to now as history.
  private overtake(h: Held, { messages, seq, rev }: Messages): void {
    h.behind = false;
    [h.seq, h.rev] = [Math.max(h.seq, seq), Math.max(h.rev, rev)];
    forget(h.early, h.seq);
    forget(h.changes, h.rev);
    const last = messages?.at(-1);
    if (last?.seq === seq) h.chat = { ...h.chat, seq, at: last.at, last };
    this.show(h);
  }

  // mark collects marks, and sends those of each chat in one call.
  private mark(chat?: string, read = 0, delivered = 0): void {
    if (chat) {
      const old = this.marks.get(chat);
      this.marks.set(chat, {
        read: Math.max(old?.read ?? 0, read),
        delivered: Math.max(old?.delivered ?? 0, delivered),
      });
    }
    if (this.marking || this.marks.size === 0) return;
    this.marking = true;
    this.later(marksAfter, async () => {
      this.marking = false;
      for (const chat of [...this.marks.keys()]) {
        if (this.client.state !== "online") return; // opened continues
        const mark = this.marks.get(chat); // the newest mark
        if (!mark) continue; // it was sent, or its chat is gone
        this.marks.delete(chat);
        try {
          await this.client.call("chats.mark", { path: { chat }, body: mark });
        } catch (err) {
          if (!isTemporary(err)) continue; // the chat is gone
          this.later(pauseAfter(0, err), () => this.mark(chat, mark.read, mark.delivered));
        }
      }
    });
  }

  // count records that a message needs no reading, so that it is not unread. A message never loses this state.
  private count(h: Held, m: Message): void {
    if (m.recalled || m.kind === "system") h.uncounted.add(m.seq);
  }

  private shown(h: Held): ChatState {
    const read = Math.max(h.chat.read, h.chat.cleared ?? 0);
    const left = new Set([...h.uncounted, ...h.gone].filter((seq) => seq > read && seq <= h.want));
    return {
      ...h.chat,
      unread: Math.max(0, h.want - read - left.size),
      uncounted: [...left].sort((a, b) => a - b),
      typing: h.typing !== undefined,
    };
  }

  private show(h: Held): void {
    if (!h.bare) this.emit("chat", this.shown(h));
  }

  private later(ms: number, fn: () => void): void {
    if (this.stopped) return;
    const timer = setTimeout(() => {
      this.timers.delete(timer);
      fn();
    }, ms);
    this.timers.add(timer);
  }

  // report logs a refusal of a request that no call of the app has caused.
  private report(err: unknown): void {
    if (err instanceof Refused && !err.temporary) console.warn("stoa: chats are not current:", err);
  }
}

function since(time: string | undefined): number {
  return time ? Date.parse(time) : 0;
}

function settingsOf({ version, pinned, muted, draft }: Chat): Partial<Chat> {
  return { version, pinned, muted, draft } as Partial<Chat>;
}

function pauseAfter(last: number, err: unknown): number {
  const wanted = err instanceof Refused ? err.retryAfter * 1000 : 0;
  return Math.max(wanted, Math.min(retryMost, Math.max(retryAfter, 2 * last)) * (0.5 + Math.random() / 2));
}

/** Returns the later of two states of one message. */
function better(a: Message | undefined, b: Message | undefined): Message | undefined {
  if (!a || !b || a.seq !== b.seq) return b ?? a;
  return (a.rev ?? 0) > (b.rev ?? 0) ? a : b;
}

function forget(from: Map<number, Message>, upTo: number): void {
  for (const at of from.keys()) if (at <= upTo) from.delete(at);
}

function newer(into: Map<number, Message>, at: number, m: Message): void {
  into.set(at, better(into.get(at), m)!);
}

/** Returns a new list that has m in its place. */
function put(list: Message[], m: Message): Message[] {
  let at = list.length;
  while (at > 0 && list[at - 1]!.seq > m.seq) at--;
  const old = list[at - 1];
  if (old?.seq === m.seq) return [...list.slice(0, at - 1), better(old, m)!, ...list.slice(at)];
  return [...list.slice(0, at), m, ...list.slice(at)];
}
