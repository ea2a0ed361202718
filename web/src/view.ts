import type { Event } from "./api";

/** A view of the page; close ends whatever it keeps going. */
export interface View {
  el: HTMLElement;
  close: () => void;
  event?: (e: Event) => void;
  catchUp?: () => void; // events may have been missed
}
