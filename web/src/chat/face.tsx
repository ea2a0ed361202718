// The picture of a chat.

import { groupOf } from "../state/groups";
import { Face, GroupFace } from "../ui/face";
import { placeOf, profileOf, titleOf, type Talk } from "./talk";

export function ChatFace({ chat, talk }: { chat: string; talk: Talk }) {
  const group = groupOf(chat);
  if (!group) return <Face profile={profileOf(talk, placeOf(chat))} />;
  return <GroupFace name={titleOf(talk, chat)} picture={talk.line.groups.get(group)?.group.picture ?? ""} />;
}
