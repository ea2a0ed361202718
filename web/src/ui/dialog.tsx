// Dialogs with components.

import { render, type ComponentChildren } from "preact";
import { dialog } from "../dialog";
import { h } from "../dom";

/** Opens a dialog. On any close, the focus returns to its earlier element, or if that is gone, back moves it. */
export function openDialog(
  title: string,
  content: (close: () => void) => ComponentChildren,
  back?: () => void,
): HTMLDialogElement {
  const place = h("div", { class: "embedded" });
  const el = dialog(title, () => [place], back);
  render(
    content(() => el.close()),
    place,
  );
  el.addEventListener("close", () => render(null, place));
  return el;
}

/** The heading of the dialog around an element, which may have the focus. */
export const headingOf = (el: Element | null) => el?.closest("dialog")?.querySelector<HTMLElement>("h2");
