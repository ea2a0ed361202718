// The focus in lists that change while the user reads them.

import type { RefObject } from "preact";
import { useLayoutEffect } from "preact/hooks";

/**
 * Keeps the focus on its element if the element moves in the list. If the element is gone, rest gets the focus. Call it
 * in the component that renders the list.
 */
export function useKeptFocus(list: RefObject<HTMLElement | null>, rest: () => HTMLElement | null | undefined): void {
  const had = document.activeElement; // before the list changes
  const inside = had instanceof HTMLElement && list.current?.contains(had) ? had : undefined;
  useLayoutEffect(() => {
    if (!inside || document.activeElement === inside) return;
    (inside.isConnected ? inside : rest())?.focus({ preventScroll: true });
  });
}
