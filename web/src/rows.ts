// Lists that change while they are read.

/**
 * Keeps el showing one row for each item. A row is drawn anew only when its item
 * has changed, and what has the focus keeps it, or hands it to what stands in its
 * place; rest gets the focus of a row that went away.
 */
export function rows<T>(el: Element, key: (item: T) => string, draw: (item: T) => HTMLElement, rest: HTMLElement): (items: T[]) => void {
  let drawn = new Map<string, { text: string; row: HTMLElement }>();
  return (items) => {
    const next = new Map<string, { text: string; row: HTMLElement }>();
    const had = document.activeElement;
    const from = [...drawn].find(([, d]) => d.row.contains(had));
    for (const item of items) {
      const text = JSON.stringify(item);
      const old = drawn.get(key(item));
      next.set(key(item), old?.text === text ? old : { text, row: draw(item) });
    }
    drawn = next;
    const list = [...next.values()].map((d) => d.row);
    if (list.length === el.children.length && list.every((row, i) => row === el.children[i])) return;
    el.replaceChildren(...list);
    if (!from || !(had instanceof HTMLElement)) return;
    const place = controls(from[1].row).indexOf(had);
    const instead = controls(next.get(from[0])?.row)[place];
    (had.isConnected ? had : (instead ?? rest)).focus({ preventScroll: true });
  };
}

const controls = (row?: HTMLElement): HTMLElement[] => [...(row?.querySelectorAll<HTMLElement>("button, a, input") ?? [])];
