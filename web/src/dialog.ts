// Dialogs.

import { h, put, type Child } from "./dom";

let dialogs = 0;

/**
 * Opens a dialog. Whatever closes it, the focus returns to where it was, or where
 * that is gone, to what back gives it to.
 */
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
      // Chromium gives it back too early: a field that has the focus from then on takes no letters.
      opener.blur();
      opener.focus();
    },
  });
  // The heading has the focus, not a button: the key that opened the dialog, held
  // a little longer, would press it.
  put(el, h("h2", { id, tabindex: -1, autofocus: true }, title), ...build(() => el.close()));
  document.getElementById("main")!.append(el); // it goes when the view does
  el.showModal();
  return el;
}
