// Dialogs.

import { h, put, type Child } from "./dom";

let dialogs = 0;

/** Opens a dialog. On any close, the focus returns to its earlier element, or if that is gone, back moves it. */
export function dialog(title: string, build: (close: () => void) => Child[], back?: () => void): HTMLDialogElement {
  const opener = document.activeElement;
  const id = `dialog-${++dialogs}`;
  const el = h("dialog", {
    class: "card",
    closedby: "any",
    "aria-labelledby": id,
    onclose: () => {
      el.remove();
      if (!(opener instanceof HTMLElement) || !opener.isConnected || opener === document.body) return back?.();
      // Chromium restores the focus too early: a field that has it from then on accepts no letters.
      opener.blur();
      opener.focus();
    },
  });
  // The heading has the focus, not a button. Otherwise a long press of the key that opened the dialog would press the
  // button.
  put(el, h("h2", { id, tabindex: -1, autofocus: true }, title), ...build(() => el.close()));
  document.getElementById("main")!.append(el); // it is removed with the view
  el.showModal();
  return el;
}
