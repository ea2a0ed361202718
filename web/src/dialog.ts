// Dialogs, and buttons that ask once more.

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
      if (opener instanceof HTMLElement && opener.isConnected && opener !== document.body) opener.focus();
      else back?.();
    },
  });
  // The heading has the focus, not a button: the key that opened the dialog, held
  // a little longer, would press it.
  put(el, h("h2", { id, tabindex: -1, autofocus: true }, title), ...build(() => el.close()));
  document.getElementById("main")!.append(el); // it goes when the view does
  el.showModal();
  return el;
}

/**
 * A button that asks before it acts: a second tap confirms. That is quicker than a
 * dialog and cannot be hit twice by accident, as the first button goes away.
 */
export function twice(text: string, sure: string, act: () => Promise<void>, failed: (err: unknown) => void, note = ""): HTMLElement {
  const el = h("div", { class: "row" });
  const offer = () => h("button", { type: "button", class: "secondary", onclick: ask }, text);
  const calm = (focus: boolean) => {
    const button = offer();
    put(el, button);
    if (focus) button.focus();
  };
  const ask = () => {
    let busy = false;
    const confirm = async () => {
      if (busy) return;
      busy = true;
      try {
        await act();
      } catch (err) {
        failed(err);
      }
      if (el.isConnected) calm(el.contains(document.activeElement));
    };
    const yes = h("button", { type: "button", class: "danger", onclick: confirm }, sure);
    const no = h("button", { type: "button", class: "link", onclick: () => calm(true) }, "Cancel");
    put(el, note && h("p", { class: "hint" }, note), yes, no);
    no.focus();
  };
  calm(false);
  return el;
}
