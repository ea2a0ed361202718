// What the parts of the chats share.

import { type ChatState, Refused, Unreachable } from "@stoa-dev/client";
import type { Profile, User } from "../api";
import { say } from "../form";
import type { Line } from "../live";
import type { People } from "../people";
import { calledBy, nameOf } from "../person";
import { t } from "../texts";
import { c } from "../texts/chats";

export interface Talk {
  me: User;
  line: Line;
  people: People;
  signal: AbortSignal; // aborts when the view closes
  failed: (err: unknown) => void;
}

/** The chat with somebody, as the server names it. */
export const chatWith = (user: string) => `u:${user}`;

/** Whom a chat is with. */
export const peerOf = (chat: string) => chat.slice(2);

/** The chats with other users. Those of groups have no page. */
export const directChats = (chats: Line["chats"]): ChatState[] => chats.list().filter((chat) => !chat.group);

/** Whom a chat is with, as others see them. Who is known from nowhere has no name yet. */
export function profileOf({ line, people }: Talk, user: string): Profile {
  const friend = people.friends.find((f) => f.user.id === user);
  const chat = line.chats.get(chatWith(user));
  const { peer_name: name = "", peer_avatar: avatar, peer_gone: deleted } = chat ?? {};
  if (chat && (name || deleted)) return { id: user, name, ...(avatar && { avatar }), ...(deleted && { deleted }) };
  return friend?.user ?? { id: user, name };
}

/** What the user calls whom a chat is with. */
export function titleOf(talk: Talk, user: string): string {
  const friend = talk.people.friends.find((f) => f.user.id === user);
  return friend ? calledBy(friend) : nameOf(profileOf(talk, user)) || c.somebody;
}

/** Whether a chat tells of nothing now. */
export const isMuted = (muted: string | undefined) => muted !== undefined && Date.parse(muted) > Date.now();

/** What a refusal of a chat's operation means, in the language of the page. */
export function sayRefusal(code: string, detail: string): string {
  return (c.refusals as Record<string, string>)[code] ?? detail;
}

/** What to tell the user about a failure on the line. */
export function explain(err: unknown): string {
  if (err instanceof Unreachable) return t.frame.unreachable;
  if (err instanceof Refused) return sayRefusal(err.code, err.detail) + (err.retryAfter ? t.form.again(err.retryAfter) : "");
  return say(err);
}
