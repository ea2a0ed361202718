// What the link opens that the old address gets after a change of address. Nothing
// happens before the button is pressed: programs that read mail open links.

import { send, type EmailUndo } from "./api";
import { h, put } from "./dom";
import { form } from "./form";
import type { View } from "./view";

/** Takes a change of address back. */
export function undoView(token: string): View {
  const body = h("section", { class: "card", "aria-label": "A change of address" });
  put(
    body,
    h("p", {}, "The address of your account was changed. If it was not you, take that back:"),
    h(
      "ul",
      {},
      h("li", {}, "the account has its old address again,"),
      h("li", {}, "all its devices are logged out, this one too,"),
      h("li", {}, "its password is removed: log in by a code that is mailed to the old address, and set another one."),
    ),
    form(
      { class: "stack" },
      [],
      async () => {
        await send("/v1/auth/email/undo", { method: "POST", body: { token } satisfies EmailUndo });
        put(body, h("p", { role: "status" }, "Your account has its old address again. Log in by a code. "), h("a", { href: "#/" }, "To the start"));
      },
      h("div", { class: "row" }, h("button", { type: "submit", class: "danger" }, "Take the change back"), h("a", { href: "#/" }, "Leave it")),
    ),
  );
  return { el: h("div", { class: "narrow" }, h("h1", {}, "A change of address"), body), close: () => {} };
}
