// The chat of a room.

import { signal } from "@preact/signals-core";
import type { RoomLine, RoomLines } from "@stoa-dev/client";

const MOST = 500; // lines, the same limit as the server's

export class RoomChatState {
  /** The loaded lines, in the order of seq. */
  readonly all = signal<readonly RoomLine[]>([]);
  /** Older lines can be loaded. */
  readonly hasOlder = signal(false);
  /** The lines were loaded, or an event added one. */
  readonly ready = signal(false);

  /** load returns the page before a line, or the latest lines for 0. */
  constructor(private readonly load: (before: number) => Promise<RoomLines>) {}

  /** Loads the latest lines, as after a break. */
  latest = () => this.#read(0);

  older = () => this.#read(this.all.peek()[0]?.seq ?? 0);

  async #read(before: number): Promise<void> {
    const known = this.all.peek().at(-1)?.seq ?? 0;
    const { lines, more } = await this.load(before);
    // After a long break, the latest lines do not follow the old ones, which are removed.
    const apart = before === 0 && Math.min(...lines.map((line) => line.seq)) > known + 1;
    if (before > 0 || known === 0 || apart) this.hasOlder.value = more;
    this.#put(apart ? this.all.peek().filter((line) => line.seq > known) : this.all.peek(), lines);
    this.ready.value = true;
  }

  /** Adds a line, unless it is already loaded. */
  add(line: RoomLine): void {
    this.#put(this.all.peek(), [line]);
    this.ready.value = true;
  }

  #put(old: readonly RoomLine[], added: readonly RoomLine[]): void {
    const known = new Set(old.map((line) => line.seq));
    const all = [...old, ...added.filter((line) => !known.has(line.seq))].sort((a, b) => a.seq - b.seq);
    this.all.value = all.slice(-MOST);
  }
}
