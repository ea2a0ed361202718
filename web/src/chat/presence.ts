// Who of the user's friends is on line.

import { isTemporary, Refused, type Presence, type StoaClient } from "@stoa-dev/client";

type Status = Presence["status"];

const RETRY = 3000; // ms

/** What is known of others' presence. Who is not known is off line. */
export class Presences {
  #known = new Map<string, Presence>();
  #changed = new EventTarget();
  #clock = 0; // counts questions and events
  #told = new Map<string, number>(); // when an event last told of somebody, or a question began that was answered

  constructor(private readonly client: StoaClient) {
    client.on("open", () => void this.#read()); // also when it was resumed: changes of presence are not kept
    client.on("presence.changed", (p) => {
      this.#told.set(p.user, ++this.#clock);
      this.#take([p]);
    });
    client.on("friend.added", ({ user }) => void this.ask(user.id)); // may have been on line for long
  }

  /** Calls fn after every change, until signal aborts. */
  watch(fn: () => void, signal: AbortSignal): void {
    this.#changed.addEventListener("change", fn, { signal });
  }

  status(user: string): Status {
    return this.#known.get(user)?.status ?? "offline";
  }

  /** When somebody who is off line was last on line, as far as it was told. */
  lastSeen(user: string): string | undefined {
    return this.#known.get(user)?.last_seen;
  }

  /** Asks how it is with somebody, and since when, until there is an answer or the line is gone. */
  async ask(user: string): Promise<void> {
    await this.#asking(() => this.ask(user), async () => {
      const { users } = await this.client.call("presence.get", { query: { users: [user], last_seen: true } });
      return users;
    });
  }

  #take(all: Presence[]): void {
    for (const p of all) this.#known.set(p.user, p);
    this.#changed.dispatchEvent(new Event("change"));
  }

  async #read(): Promise<void> {
    await this.#asking(() => this.#read(), async () => {
      const { users } = await this.client.call("presence.friends");
      const online = new Set(users.map((p) => p.user));
      const gone = [...this.#known.values()].filter((p) => !online.has(p.user)).map((p): Presence => ({ ...p, status: "offline" }));
      return [...gone, ...users];
    });
  }

  // What an event told, or another question that began later brought, is newer than the answer.
  async #asking(again: () => Promise<void>, question: () => Promise<Presence[]>): Promise<void> {
    const began = ++this.#clock;
    try {
      const answer = await question();
      const news = answer.filter((p) => (this.#told.get(p.user) ?? 0) < began);
      for (const p of news) this.#told.set(p.user, began);
      this.#take(news);
    } catch (err) {
      if (err instanceof Refused && !err.temporary) throw err; // a fault of this page
      // A connection that ends meanwhile asks again when it is back.
      if (isTemporary(err) && this.client.state === "online") setTimeout(() => void again(), RETRY);
    }
  }
}
