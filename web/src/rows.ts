// Lists that change while the user reads them.

/**
 * Shows one row in el for each item. A row is drawn again only if its item has changed. The focus stays on its element,
 * or moves to the one in the same place. If the row is gone, rest gets the focus.
 */
export function rows<T>(
  el: Element,
  key: (item: T) => string,
  draw: (item: T) => HTMLElement,
  rest: HTMLElement,
): (items: T[]) => void {
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

const controls = (row?: HTMLElement): HTMLElement[] => [
  ...(row?.querySelectorAll<HTMLElement>("button, a, input") ?? []),
];
