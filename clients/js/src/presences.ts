import type { StoaClient } from "./client.js";
import { isTemporary, Refused } from "./errors.js";
import type { Presence } from "./wire.js";

const RETRY = 3000; // ms, after a failure
const SPREAD = 2000; // ms, the spread of the clients' requests after presence.complete
const NO_EVENT = 30_000; // ms after a partial response, in case presence.complete is lost

/** The presence of the user's friends. Unknown users are offline. */
export class Presences {
  private readonly known = new Map<string, Presence>();
  private readonly changed = new EventTarget();
  private clock = 0; // counts requests and events
  private readonly told = new Map<string, number>(); // by user: the clock of the latest event, or of the latest request with a response
  private readonly doubtful = new Set<string>(); // users who were offline in a partial response
  private doubtfulList = false; // the latest list of friends was partial
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly client: StoaClient) {
    client.on("open", () => void this.read()); // also when it was resumed: changes of presence are not stored
    client.on("presence.changed", (p) => {
      this.told.set(p.user, ++this.clock);
      this.take([p]);
    });
    client.on("presence.complete", () => this.again(SPREAD * Math.random()));
    client.on("friend.added", ({ user }) => void this.ask(user.id)); // may have been online for long
  }

  /** Calls fn after every change, until signal aborts. */
  watch(fn: () => void, signal: AbortSignal): void {
    this.changed.addEventListener("change", fn, { signal });
  }

  /** The status of a user. */
  status(user: string): Presence["status"] {
    return this.known.get(user)?.status ?? "offline";
  }

  /** The time of the last connection of a user who is offline, if the server has sent it. */
  lastSeen(user: string): string | undefined {
    return this.known.get(user)?.last_seen;
  }

  /** Gets a user's status and the time of their last connection. It retries while there is a connection. */
  async ask(user: string): Promise<void> {
    await this.asking(
      () => this.ask(user),
      async () => {
        const { users, partial } = await this.client.call("presence.get", {
          query: { users: [user], last_seen: true },
        });
        this.doubtful.delete(user);
        if (!partial) return users;
        this.doubtful.add(user);
        this.again(NO_EVENT);
        return users.filter((p) => p.status !== "offline");
      },
    );
  }

  // take ignores a presence that is older than the known one. A presence without a version does not change the known
  // version.
  private take(all: Presence[]): void {
    for (const p of all) {
      const version = this.known.get(p.user)?.version ?? 0;
      if ((p.version ?? version) >= version) this.known.set(p.user, { ...p, version: p.version ?? version });
    }
    this.changed.dispatchEvent(new Event("change"));
  }

  private async read(): Promise<void> {
    await this.asking(
      () => this.read(),
      async () => {
        const { users, partial } = await this.client.call("presence.friends");
        this.doubtfulList = partial === true;
        if (partial) {
          this.again(NO_EVENT);
          return users; // the others may be online: they stay unchanged
        }
        const online = new Set(users.map((p) => p.user));
        const gone = [...this.known.values()]
          .filter((p) => !online.has(p.user))
          .map((p): Presence => ({ ...p, status: "offline" }));
        return [...gone, ...users];
      },
    );
  }

  // again repeats the requests with partial responses after some time, unless an earlier repeat is already planned.
  private again(ms: number): void {
    if (ms > SPREAD && this.timer !== undefined) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.timer = undefined;
      if (this.client.state !== "online") return; // the next connection sends the request
      if (this.doubtfulList) void this.read();
      for (const user of this.doubtful) void this.ask(user);
    }, ms);
  }

  // asking ignores a response if an event, or the response to a later request, is newer.
  private async asking(again: () => Promise<void>, question: () => Promise<Presence[]>): Promise<void> {
    const began = ++this.clock;
    try {
      const answer = await question();
      const news = answer.filter((p) => (this.told.get(p.user) ?? 0) < began);
      for (const p of news) this.told.set(p.user, began);
      this.take(news);
    } catch (err) {
      if (err instanceof Refused && !err.temporary) throw err; // an error of the app
      // After a break, the next connection sends the request.
      if (isTemporary(err) && this.client.state === "online") setTimeout(() => void again(), RETRY);
    }
  }
}
