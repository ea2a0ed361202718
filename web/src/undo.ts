// The page of the link that the old address gets after a change of address. Only the button undoes the change, because
// mail programs open links.

import type { EmailUndo } from "@stoa-dev/client";
import { send } from "./api";
import { h, put } from "./dom";
import { form } from "./form";
import { t } from "./texts";
import type { View } from "./view";

/** Undoes a change of address. */
export function undoView(token: string): View {
  const body = h("section", { class: "card", "aria-label": t.undo.title });
  put(
    body,
    h("p", {}, t.undo.lead),
    h("ul", {}, ...t.undo.effects.map((what) => h("li", {}, what))),
    form(
      { class: "stack" },
      [],
      async () => {
        await send("/v1/auth/email/undo", { method: "POST", body: { token } satisfies EmailUndo });
        put(body, h("p", { role: "status" }, t.undo.done), h("a", { href: "#/" }, t.undo.toStart));
      },
      h(
        "div",
        { class: "row" },
        h("button", { type: "submit", class: "danger" }, t.undo.take),
        h("a", { href: "#/" }, t.undo.leave),
      ),
    ),
  );
  return { el: h("div", { class: "narrow" }, h("h1", {}, t.undo.title), body), close: () => {} };
}
