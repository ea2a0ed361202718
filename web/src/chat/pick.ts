// Choice of a chat to write to.

import { dialog } from "../dialog";
import { h } from "../dom";
import { calledBy } from "../person";
import { t } from "../texts";
import { c } from "../texts/chats";
import { chatWith, faceOf, addressPart, profileOf, titleOf, type ChatContext } from "./context";
import { groupOf } from "../state/groups";

/** Opens a list of the user's chats and friends. chosen is called with the chat. */
export async function pick(title: string, ctx: ChatContext, chosen: (chat: string) => void): Promise<void> {
  await ctx.people.want();
  const recent = ctx.connection.chats.list().map((c) => c.chat);
  const friends = [...ctx.people.friends]
    .sort((a, b) => calledBy(a).localeCompare(calledBy(b)))
    .map((f) => chatWith(f.user.id));
  const chats = [...new Set([...recent, ...friends])].filter(
    (chat) => groupOf(chat) || !profileOf(ctx, addressPart(chat)).deleted,
  );
  dialog(title, (close) => [
    chats.length === 0
      ? h("p", { class: "muted" }, c.nobody)
      : h(
          "ul",
          { class: "picks" },
          ...chats.map((chat) =>
            h(
              "li",
              {},
              h(
                "button",
                { type: "button", class: "pick", onclick: () => (close(), chosen(chat)) },
                faceOf(ctx, chat),
                h("span", {}, titleOf(ctx, chat)),
              ),
            ),
          ),
        ),
    h("div", { class: "row" }, h("button", { type: "button", class: "link", onclick: close }, t.words.cancel)),
  ]);
}
