// Choosing somebody to write to.

import { dialog } from "../dialog";
import { h } from "../dom";
import { calledBy, face } from "../person";
import { t } from "../texts";
import { c } from "../texts/chats";
import { directChats, peerOf, profileOf, titleOf, type Talk } from "./talk";

/** Opens a list of those with whom the user has a chat, and of friends; chosen is called with one. */
export async function pick(title: string, talk: Talk, chosen: (user: string) => void): Promise<void> {
  await talk.people.want();
  const recent = directChats(talk.line.chats).map((c) => peerOf(c.chat));
  const friends = [...talk.people.friends].sort((a, b) => calledBy(a).localeCompare(calledBy(b))).map((f) => f.user.id);
  const users = [...new Set([...recent, ...friends])].filter((id) => !profileOf(talk, id).deleted);
  dialog(title, (close) => [
    users.length === 0
      ? h("p", { class: "muted" }, c.nobody)
      : h(
          "ul",
          { class: "picks" },
          ...users.map((id) =>
            h("li", {}, h("button", { type: "button", class: "pick", onclick: () => (close(), chosen(id)) }, face(profileOf(talk, id)), h("span", {}, titleOf(talk, id)))),
          ),
        ),
    h("div", { class: "row" }, h("button", { type: "button", class: "link", onclick: close }, t.words.cancel)),
  ]);
}
