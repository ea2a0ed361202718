// The shared functions of the chats.

import {
  type Answer,
  type ChatState,
  type Input,
  Refused,
  type StoaClient,
  Unreachable,
  type Profile,
  type User,
} from "@stoa-dev/client";
import { say } from "../form";
import type { Connection } from "../connection";
import type { People } from "../people";
import { calledBy, nameOf } from "../person";
import { t } from "../texts";
import { c } from "../texts/chats";
import { g } from "../texts/groups";
import type { Changes } from "../state/changes";
import { groupOf } from "../state/groups";

export interface ChatContext {
  me: User;
  connection: Connection;
  people: People;
  signal: AbortSignal; // aborts when the view closes
  clock: Changes; // publishes when relative times may be outdated
  failed: (err: unknown) => void;
}

/** The server's name for the chat with a user. */
export const chatWith = (user: string) => `u:${user}`;

/** The part of an address for a chat: the peer's id, or "g:" and the group's id. */
export const addressPart = (chat: string) => (groupOf(chat) ? chat : chat.slice(2));

/** The chat of a part of an address. */
export const chatAt = (part: string) => (groupOf(part) ? part : chatWith(part));

/** The peer of a chat of two, with the public name. A name that is unknown is empty. */
export function profileOf({ connection }: ChatContext, user: string): Profile {
  const friend = connection.signals.friend(user);
  const chat = connection.signals.get(chatWith(user));
  const { peer_name: name = "", peer_avatar: avatar, peer_gone: deleted } = chat ?? {};
  if (chat && (name || deleted)) return { id: user, name, ...(avatar && { avatar }), ...(deleted && { deleted }) };
  return friend?.user ?? { id: user, name };
}

/** The name that the user sees for another user. In a group, a nickname is used before the user's own name. */
export function nameIn(ctx: ChatContext, user: string, group = ""): string {
  const friend = ctx.connection.signals.friend(user);
  if (friend?.remark) return friend.remark;
  return (
    (group && ctx.connection.groups.memberName(group, user)) ||
    (friend ? calledBy(friend) : nameOf(profileOf(ctx, user))) ||
    c.somebody
  );
}

/** The user's name for a chat: the group's or the peer's. */
export function titleOf(ctx: ChatContext, chat: string): string {
  const group = groupOf(chat);
  return group ? ctx.connection.groups.title(group) || g.group : nameIn(ctx, addressPart(chat));
}

/** Whether a chat is muted now. */
export const isMuted = (muted: string | undefined) => muted !== undefined && Date.parse(muted) > Date.now();

/** The number of unread messages that call for the user. Muted chats, and chats without notifications, have none. */
export function calls(connection: Pick<Connection, "groups">, chat: ChatState): number {
  if (isMuted(chat.muted)) return 0;
  const notify = connection.groups.notify(chat.chat);
  return notify === "all" || (notify === "mentions" && connection.groups.hasMention(chat)) ? chat.unread : 0;
}

/** The text for a refusal of a chat's operation, in the language of the page. */
export function sayRefusal(code: string, detail: string): string {
  const all: Record<string, string> = { ...c.refusals, ...g.refusals };
  const reasons: Record<string, string> = c.files.reasons;
  return all[code] ?? (code === "transfer.failed" ? reasons[detail] : undefined) ?? detail;
}

/** The text for the user about an error. */
export function explain(err: unknown): string {
  if (err instanceof Unreachable) return t.frame.unreachable;
  if (err instanceof Refused)
    return sayRefusal(err.code, err.detail) + (err.retryAfter ? t.form.again(err.retryAfter) : "");
  return say(err);
}

/** Calls an operation. A failure has a text in the language of the page, for forms. */
export async function ask<O extends Parameters<StoaClient["call"]>[0]>(
  ctx: ChatContext,
  operation: O,
  input?: Input<O>,
): Promise<Answer<O>> {
  try {
    return await ctx.connection.client.call(operation, input);
  } catch (err) {
    throw err instanceof Refused || err instanceof Unreachable ? new Error(explain(err), { cause: err }) : err;
  }
}
