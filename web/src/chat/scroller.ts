// A list that starts at its end. It stays in place while rows are added above and below.

const NEAR = 60; // px from the end that still count as the end
const AHEAD = 400; // px before an end: the next page is loaded here

export class Scroller {
  #lastTop = 0; // the last known scrollTop, px
  #anchor: { row: Element; top: number } | undefined; // the first visible row before a change

  constructor(
    readonly el: HTMLElement, // the scrolling element
    private readonly on: { top: () => void; bottom: () => void; moved: () => void },
  ) {
    el.addEventListener("scroll", () => this.look(), { passive: true });
  }

  get atEnd(): boolean {
    return this.el.scrollHeight - this.el.scrollTop - this.el.clientHeight < NEAR;
  }

  /** Whether the user has scrolled up since the last check. The browser's event follows only with the next frame. */
  get goneUp(): boolean {
    return !this.atEnd && this.el.scrollTop < this.#lastTop - 1;
  }

  toEnd(): void {
    this.el.scrollTop = this.el.scrollHeight;
    this.#lastTop = this.el.scrollTop;
  }

  /** Requests a page if an end is near, and reports the move. */
  look(): void {
    if (this.el.clientHeight === 0) return;
    this.#lastTop = this.el.scrollTop;
    if (this.el.scrollTop < AHEAD) this.on.top();
    if (this.el.scrollHeight - this.el.scrollTop - this.el.clientHeight < AHEAD) this.on.bottom();
    this.on.moved();
  }

  /** Measures the place of the visible rows. Call it before the rows change. */
  measure(): void {
    const top = this.el.getBoundingClientRect().top;
    const row = [...this.el.querySelectorAll("[data-seq]")].find((row) => row.getBoundingClientRect().bottom > top);
    this.#anchor = row && { row, top: row.getBoundingClientRect().top };
  }

  /** Moves the visible rows back to their place after a change, or the view to the end. */
  restore(stick: boolean): void {
    const anchor = this.#anchor;
    if (stick) this.toEnd();
    else if (anchor?.row.isConnected) this.el.scrollTop += anchor.row.getBoundingClientRect().top - anchor.top;
  }

  /** The seq of the last message whose start is visible; 0 if there is none. */
  lastSeen(): number {
    const end = this.el.getBoundingClientRect().bottom;
    const all = this.el.querySelectorAll<HTMLElement>("[data-seq]");
    for (let i = all.length - 1; i >= 0; i--) {
      if (all[i]!.getBoundingClientRect().top < end - 8) return Number(all[i]!.dataset["seq"]);
    }
    return 0;
  }
}
