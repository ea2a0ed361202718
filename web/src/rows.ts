// Lists that change while they are read.

/**
 * Keeps el showing one row for each item. A row is drawn anew only when its item
 * has changed, and what has the focus keeps it; rest gets the focus of a row that
 * went away.
 */
export function rows<T>(el: Element, key: (item: T) => string, draw: (item: T) => HTMLElement, rest: HTMLElement): (items: T[]) => void {
  let drawn = new Map<string, { text: string; row: HTMLElement }>();
  return (items) => {
    const next = new Map<string, { text: string; row: HTMLElement }>();
    for (const item of items) {
      const text = JSON.stringify(item);
      const old = drawn.get(key(item));
      next.set(key(item), old?.text === text ? old : { text, row: draw(item) });
    }
    drawn = next;
    const list = [...next.values()].map((d) => d.row);
    if (list.length === el.children.length && list.every((row, i) => row === el.children[i])) return;
    const had = document.activeElement;
    const within = had instanceof HTMLElement && el.contains(had);
    el.replaceChildren(...list);
    if (within) (had.isConnected ? had : rest).focus({ preventScroll: true });
  };
}
