// The settings of chats: who may write to the user, and the facts that others see.

import type { ChatSettings, MyPresence, User } from "@stoa-dev/client";
import { h } from "../dom";
import { field } from "../form";
import { json } from "../session";
import { t } from "../texts";
import { c } from "../texts/chats";

const FROM = ["friends", "everybody", "nobody"] as const;
const WISHES = ["online", "away", "busy"] as const;

/** The part of the profile about chats. Each choice is stored at once. */
export function chatSettings(
  me: User,
  on: { signal: AbortSignal; failed: (err: unknown) => void; changed: (u: User) => void },
) {
  let now: ChatSettings | undefined;
  const said = h("span", { class: "saved", role: "status" });
  const choice = h("select", {}, ...FROM.map((value) => h("option", { value }, c.from[value])));
  const from = field(c.messagesFrom, { name: "messages_from" }, undefined, choice);
  const wish = h("select", { disabled: true }, ...WISHES.map((value) => h("option", { value }, c.presence[value])));
  const status = field(c.wish, { name: "wish" }, c.wishHint, wish);
  const receipts = h("input", { type: "checkbox", name: "receipts" });
  const presence = h("input", { type: "checkbox", name: "presence" });
  const label = (box: HTMLElement, text: string) => h("label", { class: "switch" }, box, h("span", {}, text));

  function show(): void {
    choice.disabled = receipts.disabled = now === undefined;
    if (now) [choice.value, receipts.checked] = [now.messages_from, now.receipts];
    presence.checked = me.presence !== "nobody";
  }

  async function keep(work: () => Promise<void>): Promise<void> {
    said.textContent = "";
    try {
      await work();
      said.textContent = t.words.saved;
    } catch (err) {
      on.failed(err);
    } finally {
      show();
    }
  }
  const put = (body: Partial<ChatSettings>) =>
    void keep(async () => void (now = await json<ChatSettings>("/v1/chats/settings", { method: "PUT", body })));
  choice.addEventListener("change", () => put({ messages_from: choice.value as ChatSettings["messages_from"] }));
  receipts.addEventListener("change", () => put({ receipts: receipts.checked }));
  presence.addEventListener(
    "change",
    () =>
      void keep(async () =>
        on.changed(
          await json<User>("/v1/me", { method: "PATCH", body: { presence: presence.checked ? "friends" : "nobody" } }),
        ),
      ),
  );
  wish.addEventListener(
    "change",
    () =>
      void keep(
        async () => void (await json<MyPresence>("/v1/me/presence", { method: "PUT", body: { status: wish.value } })),
      ),
  );
  show();

  return {
    el: h(
      "section",
      { class: "card", "aria-labelledby": "chats-title", "data-part": "chats" },
      h("h2", { id: "chats-title" }, t.frame.titles.chats),
      from.el,
      h(
        "div",
        { class: "stack tight" },
        label(receipts, c.receipts),
        h("p", { class: "hint" }, c.receiptsHint),
        label(presence, c.presenceShown),
      ),
      status.el,
      said,
    ),
    take: (u: User) => {
      me = u;
      show();
    },
    load: () => {
      json<ChatSettings>("/v1/chats/settings", { signal: on.signal }).then((got) => {
        now = got;
        show();
      }, on.failed);
      json<MyPresence>("/v1/me/presence", { signal: on.signal }).then((got) => {
        [wish.value, wish.disabled] = [got.wish, false];
      }, on.failed);
    },
  };
}
