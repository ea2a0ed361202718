// Buttons that act at once, or after a confirmation.

import { h, put } from "./dom";
import { t } from "./texts";

/**
 * A button whose action runs once at a time. Meanwhile it is busy, and not disabled, because disabling would move the
 * focus.
 */
export function act(
  text: string,
  kind: "primary" | "secondary" | "link",
  run: () => Promise<unknown>,
  failed: (err: unknown) => void,
  label?: string,
): HTMLButtonElement {
  const press = async () => {
    if (el.ariaBusy === "true") return;
    el.ariaBusy = "true";
    try {
      await run();
    } catch (err) {
      failed(err);
    } finally {
      el.ariaBusy = null;
    }
  };
  const el = h(
    "button",
    { type: "button", class: kind === "primary" ? "primary small" : kind, "aria-label": label, onclick: press },
    text,
  );
  return el;
}

/**
 * A button that asks before it acts: a second tap confirms. That is quicker than a dialog. A double tap cannot confirm,
 * because the first button disappears. Escape cancels the question, and leaves a dialog around it open.
 */
export function twice(
  text: string,
  sure: string,
  act: () => Promise<void>,
  failed: (err: unknown) => void,
  note = "",
): HTMLElement {
  let asking = false;
  const el = h("div", {
    class: "row",
    onkeydown: (e: KeyboardEvent) => {
      if (e.key !== "Escape" || !asking) return;
      e.preventDefault();
      calm(true);
    },
  });
  const offer = () => h("button", { type: "button", class: "secondary", onclick: ask }, text);
  const calm = (focus: boolean) => {
    asking = false;
    const button = offer();
    put(el, button);
    if (focus) button.focus();
  };
  const ask = () => {
    asking = true;
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
    const no = h("button", { type: "button", class: "link", onclick: () => calm(true) }, t.words.cancel);
    put(el, note && h("p", { class: "hint" }, note), yes, no);
    no.focus();
  };
  calm(false);
  return el;
}
