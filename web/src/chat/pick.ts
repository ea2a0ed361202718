// Choice of a chat to write to.

import { dialog } from "../dialog";
import { h } from "../dom";
import { calledBy } from "../person";
import { t } from "../texts";
import { c } from "../texts/chats";
import { chatWith, faceOf, placeOf, profileOf, titleOf, type Talk } from "./talk";
import { groupOf } from "../state/groups";

/** Opens a list of the user's chats and friends. chosen is called with the chat. */
export async function pick(title: string, talk: Talk, chosen: (chat: string) => void): Promise<void> {
  await talk.people.want();
  const recent = talk.line.chats.list().map((c) => c.chat);
  const friends = [...talk.people.friends]
    .sort((a, b) => calledBy(a).localeCompare(calledBy(b)))
    .map((f) => chatWith(f.user.id));
  const chats = [...new Set([...recent, ...friends])].filter(
    (chat) => groupOf(chat) || !profileOf(talk, placeOf(chat)).deleted,
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
                faceOf(talk, chat),
                h("span", {}, titleOf(talk, chat)),
              ),
            ),
          ),
        ),
    h("div", { class: "row" }, h("button", { type: "button", class: "link", onclick: close }, t.words.cancel)),
  ]);
}
