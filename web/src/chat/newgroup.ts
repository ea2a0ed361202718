// Creation of a group, and the choice of friends for it.

import { Refused } from "@stoa-dev/client";
import { dialog } from "../dialog";
import { h } from "../dom";
import { field, form } from "../form";
import { calledBy, face } from "../person";
import { t } from "../texts";
import { g } from "../texts/groups";
import { ask, type ChatContext } from "./context";

/** Asks for a name and for friends, creates the group and opens its chat. */
export function newGroup(ctx: ChatContext): void {
  const name = field(g.name, { name: "group_name", required: true, maxlength: 60, autocomplete: "off" }, g.nameHint);
  void ctx.people.want().then(() => {
    const whom = friends(ctx, () => true);
    const newKey = () => crypto.getRandomValues(new Uint32Array(4)).join("-");
    let key = newKey(); // a second press creates no second group
    dialog(g.newGroup, (close) => [
      form(
        { class: "stack" },
        [name],
        async () => {
          const made = await ask(ctx, "groups.create", {
            body: { name: name.input.value.trim(), members: whom.chosen() },
            key,
          }).catch((err: Error) => {
            if (err.cause instanceof Refused && !err.cause.temporary) key = newKey(); // a refusal is stored under the old key
            throw err;
          });
          ctx.connection.groups.applyMembership(made);
          close();
          location.hash = `#/chats/g:${made.group.id}`;
        },
        h(
          "fieldset",
          { class: "stack tight" },
          h("legend", {}, g.whom),
          whom.el ?? h("p", { class: "muted" }, g.noFriends),
        ),
        h(
          "div",
          { class: "row" },
          h("button", { type: "submit", class: "primary" }, g.create),
          h("button", { type: "button", class: "link", onclick: close }, t.words.cancel),
        ),
      ),
    ]);
    name.input.focus();
  }, ctx.failed);
}

/** A list of friends to choose from; el is undefined if there are none. */
export function friends(
  ctx: ChatContext,
  fits: (user: string) => boolean,
): { el: HTMLElement | undefined; chosen: () => string[] } {
  const all = ctx.people.friends
    .filter((f) => !f.user.deleted && fits(f.user.id))
    .sort((a, b) => calledBy(a).localeCompare(calledBy(b)));
  if (all.length === 0) return { el: undefined, chosen: () => [] };
  const el = h(
    "ul",
    { class: "picks" },
    ...all.map((f) =>
      h(
        "li",
        {},
        h(
          "label",
          { class: "pick" },
          face(f.user),
          h("span", {}, calledBy(f)),
          h("input", { type: "checkbox", name: "friend", value: f.user.id }),
        ),
      ),
    ),
  );
  return { el, chosen: () => [...el.querySelectorAll<HTMLInputElement>(":checked")].map((box) => box.value) };
}
