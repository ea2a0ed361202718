// The views of the page.

import type { StoaEvent } from "@stoa-dev/client";

/** A view of the page; close ends all its work. */
export interface View {
  el: HTMLElement;
  close: () => void;
  event?: (e: StoaEvent) => void;
  catchUp?: () => void; // events may be missed
  follow?: () => boolean; // the address has changed; true if it is a place in this view
}
