import type { Event } from "./api";

/** A view of the page; close ends whatever it keeps going. */
export interface View {
  el: HTMLElement;
  close: () => void;
  event?: (e: Event) => void;
  catchUp?: () => void; // events may have been missed
  follow?: () => boolean; // the address is another one; true when it is a place in this view
}
