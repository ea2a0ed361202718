// Changes of data that is not in signals.

import { effect, signal, untracked } from "@preact/signals-core";

/** Counts changes, so that components and effects can depend on data that is not in signals. */
export class Changes {
  readonly #count = signal(0);

  /** Subscribes the running component, computed value or effect to the changes. */
  track(): void {
    void this.#count.value;
  }

  /** Publishes a change to the subscribers. */
  publish(): void {
    this.#count.value = this.#count.peek() + 1;
  }

  /** Calls fn after every change, until signal aborts. */
  watch(fn: () => void, signal: AbortSignal): void {
    let first = true;
    const stop = effect(() => {
      this.track();
      if (!first) untracked(fn);
      first = false;
    });
    signal.addEventListener("abort", stop);
  }
}
