// The picture of a chat.

import { groupOf } from "../state/groups";
import { Face, GroupFace } from "../ui/face";
import { addressPart, profileOf, titleOf, type ChatContext } from "./context";

export function ChatFace({ chat, ctx }: { chat: string; ctx: ChatContext }) {
  const group = groupOf(chat);
  if (!group) return <Face profile={profileOf(ctx, addressPart(chat))} />;
  return <GroupFace name={titleOf(ctx, chat)} picture={ctx.connection.groups.get(group)?.group.picture ?? ""} />;
}
