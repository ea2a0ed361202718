// A list that is read from its end: it keeps its place while things come above and below.

const NEAR = 60; // px from the end that still count as being there
const AHEAD = 400; // px before an end at which more is loaded

export class Scroller {
  #lastTop = 0; // scrollTop at the last look, px

  constructor(
    readonly el: HTMLElement, // what scrolls
    readonly list: HTMLElement, // what is in it
    private readonly on: { top: () => void; bottom: () => void; moved: () => void },
  ) {
    el.addEventListener("scroll", () => this.look(), { passive: true });
  }

  get atEnd(): boolean {
    return this.el.scrollHeight - this.el.scrollTop - this.el.clientHeight < NEAR;
  }

  /** The reader has scrolled up since the last look. The browser sends the event only with its next frame. */
  get goneUp(): boolean {
    return !this.atEnd && this.el.scrollTop < this.#lastTop - 1;
  }

  toEnd(): void {
    this.el.scrollTop = this.el.scrollHeight;
    this.#lastTop = this.el.scrollTop;
  }

  /** Asks for more where an end is near, and tells that the place is another one. */
  look(): void {
    if (this.el.clientHeight === 0) return;
    this.#lastTop = this.el.scrollTop;
    if (this.el.scrollTop < AHEAD) this.on.top();
    if (this.el.scrollHeight - this.el.scrollTop - this.el.clientHeight < AHEAD) this.on.bottom();
    this.on.moved();
  }

  /** Puts rows into the list in place of those that are there. What is looked at stays where it is, or the end stays the end. */
  set(rows: HTMLElement[], stick: boolean): void {
    const anchor = this.#first();
    const before = anchor?.getBoundingClientRect().top ?? 0;
    const keep = new Set(rows);
    for (const old of [...this.list.children]) if (!keep.has(old as HTMLElement)) old.remove();
    rows.forEach((row, i) => {
      // A row that is in its place already is not touched: it may have the focus.
      if (this.list.children[i] !== row) this.list.insertBefore(row, this.list.children[i] ?? null);
    });
    if (stick) this.toEnd();
    else if (anchor?.isConnected) this.el.scrollTop += anchor.getBoundingClientRect().top - before;
  }

  /** The number of the last message whose beginning can be seen; 0 when none can. */
  lastSeen(): number {
    const end = this.el.getBoundingClientRect().bottom;
    const all = this.list.querySelectorAll<HTMLElement>("[data-seq]");
    for (let i = all.length - 1; i >= 0; i--) {
      if (all[i]!.getBoundingClientRect().top < end - 8) return Number(all[i]!.dataset["seq"]);
    }
    return 0;
  }

  #first(): Element | undefined {
    const top = this.el.getBoundingClientRect().top;
    return [...this.list.querySelectorAll("[data-seq]")].find((row) => row.getBoundingClientRect().bottom > top);
  }
}
