// A client whose events and responses are those of a script.

import type { StoaClient } from "@stoa-dev/client";

type Listener = (data: never) => void;

export class Scripted {
  state = "online";
  readonly calls: string[] = [];
  readonly responses = new Map<string, unknown>();
  readonly #listeners = new Map<string, Listener[]>();

  readonly on = (name: string, fn: Listener): (() => void) => {
    this.#listeners.set(name, [...(this.#listeners.get(name) ?? []), fn]);
    return () =>
      this.#listeners.set(
        name,
        (this.#listeners.get(name) ?? []).filter((other) => other !== fn),
      );
  };

  readonly call = async (operation: string): Promise<unknown> => {
    this.calls.push(operation);
    if (!this.responses.has(operation)) throw new Error(`no response to ${operation}`);
    return this.responses.get(operation);
  };

  emit(name: string, data: unknown): void {
    for (const fn of this.#listeners.get(name) ?? []) fn(data as never);
  }

  get client(): StoaClient {
    return this as unknown as StoaClient;
  }
}
