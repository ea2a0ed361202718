// The messages that other messages reply to.

import type { Message } from "@stoa-dev/client";
import { Changes } from "./changes";

export class Quotes {
  readonly #known = new Map<number, Message | "gone">();
  readonly #requested = new Set<number>();
  readonly #changes = new Changes();

  /** load returns a message, or undefined if it is no longer visible. */
  constructor(private readonly load: (seq: number) => Promise<Message | undefined>) {}

  /** A quoted message; "gone" if it is no longer visible, undefined while it is loading. */
  get(seq: number, loaded: readonly Message[]): Message | "gone" | undefined {
    this.#changes.track();
    const here = loaded.find((m) => m.seq === seq);
    if (here) this.#known.set(seq, here);
    const known = this.#known.get(seq);
    if (known === undefined && !this.#requested.has(seq)) this.#request(seq);
    return known;
  }

  /** Updates a message; m is undefined if it is no longer visible. */
  update(seq: number, m: Message | undefined): void {
    if (!this.#known.has(seq)) return;
    this.#known.set(seq, m ?? "gone");
    this.#changes.publish();
  }

  #request(seq: number): void {
    this.#requested.add(seq);
    this.load(seq).then(
      (m) => {
        this.#known.set(seq, m ?? "gone");
        this.#changes.publish();
      },
      () => this.#requested.delete(seq), // the next rendering retries
    );
  }
}
