// Choice of a chat to write to.

import { t } from "../texts";
import { c } from "../texts/chats";
import { groupOf } from "../state/groups";
import { openDialog } from "../ui/dialog";
import { CloseRow } from "../ui/form";
import { chatWith, addressPart, profileOf, titleOf, type ChatContext } from "./context";
import { ChatFace } from "./face";
import { friendsOf } from "./newgroup";

/** Opens a list of the user's chats and friends. chosen is called with the chat. */
export async function pick(title: string, ctx: ChatContext, chosen: (chat: string) => void): Promise<void> {
  await ctx.people.want();
  const recent = ctx.connection.chats.list().map((c) => c.chat);
  const friends = friendsOf(ctx).map((f) => chatWith(f.user.id));
  const chats = [...new Set([...recent, ...friends])].filter(
    (chat) => groupOf(chat) || !profileOf(ctx, addressPart(chat)).deleted,
  );
  openDialog(title, (close) => {
    const choose = (chat: string) => {
      close();
      chosen(chat);
    };
    return (
      <>
        {chats.length === 0 && <p class="muted">{c.nobody}</p>}
        {chats.length > 0 && (
          <ul class="picks">
            {chats.map((chat) => (
              <li key={chat}>
                <button type="button" class="pick" onClick={() => choose(chat)}>
                  <ChatFace chat={chat} ctx={ctx} />
                  <span>{titleOf(ctx, chat)}</span>
                </button>
              </li>
            ))}
          </ul>
        )}
        <CloseRow close={close} text={t.words.cancel} />
      </>
    );
  });
}
