// The settings of chats: who may write to the user, and the facts that others see.

import { signal } from "@preact/signals";
import type { ChatSettings, MyPresence, User } from "@stoa-dev/client";
import { render } from "preact";
import { h } from "../dom";
import { json } from "../session";
import { t } from "../texts";
import { c } from "../texts/chats";
import { Select } from "../ui/form";

const FROM = ["friends", "everybody", "nobody"] as const;
const WISHES = ["online", "away", "busy"] as const;

interface Around {
  signal: AbortSignal;
  failed: (err: unknown) => void;
  changed: (u: User) => void;
}

/** The part of the profile about chats. Each choice is stored at once. */
export function chatSettings(me: User, on: Around) {
  const user = signal(me);
  const settings = signal<ChatSettings | undefined>(undefined);
  const wish = signal<MyPresence["wish"] | undefined>(undefined);
  const said = signal("");

  // After a failure, the controls show the present state again.
  async function keep(work: () => Promise<void>): Promise<void> {
    said.value = "";
    try {
      await work();
      said.value = t.words.saved;
    } catch (err) {
      on.failed(err);
      user.value = { ...user.peek() };
    }
  }
  const put = (body: Partial<ChatSettings>) =>
    void keep(async () => void (settings.value = await json("/v1/chats/settings", { method: "PUT", body })));
  const show = (presence: User["presence"]) =>
    void keep(async () => on.changed(await json<User>("/v1/me", { method: "PATCH", body: { presence } })));
  const choose = (status: MyPresence["wish"]) =>
    void keep(async () => {
      wish.value = (await json<MyPresence>("/v1/me/presence", { method: "PUT", body: { status } })).wish;
    });

  const Controls = () => {
    const { presence } = user.value;
    const now = settings.value;
    return (
      <>
        <Select
          label={c.messagesFrom}
          name="messages_from"
          values={FROM}
          text={(value) => c.from[value]}
          chosen={now?.messages_from}
          disabled={!now}
          changed={(messages_from) => put({ messages_from })}
          kept
        />
        <div class="stack tight">
          <label class="switch">
            <input
              type="checkbox"
              name="receipts"
              disabled={!now}
              checked={now?.receipts ?? false}
              onChange={(e) => put({ receipts: e.currentTarget.checked })}
            />
            <span>{c.receipts}</span>
          </label>
          <p class="hint">{c.receiptsHint}</p>
          <label class="switch">
            <input
              type="checkbox"
              name="presence"
              checked={presence !== "nobody"}
              onChange={(e) => show(e.currentTarget.checked ? "friends" : "nobody")}
            />
            <span>{c.presenceShown}</span>
          </label>
        </div>
        <Select
          label={c.wish}
          name="wish"
          hint={c.wishHint}
          values={WISHES}
          text={(value) => c.presence[value]}
          chosen={wish.value}
          disabled={!wish.value}
          changed={choose}
          kept
        />
      </>
    );
  };
  const el = h("section", { class: "card", "aria-labelledby": "chats-title", "data-part": "chats" });
  render(
    <>
      <h2 id="chats-title">{t.frame.titles.chats}</h2>
      <Controls />
      <span class="saved" role="status">
        {said}
      </span>
    </>,
    el,
  );
  const load = <T,>(path: string, into: (got: T) => void) =>
    void json<T>(path, { signal: on.signal }).then(into, on.failed);
  return {
    el,
    take: (u: User) => void (user.value = u),
    load: () => {
      load<ChatSettings>("/v1/chats/settings", (got) => (settings.value = got));
      load<MyPresence>("/v1/me/presence", (got) => (wish.value = got.wish));
    },
  };
}
