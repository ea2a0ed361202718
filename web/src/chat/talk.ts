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
import { h } from "../dom";
import { say } from "../form";
import type { Line } from "../line";
import type { People } from "../people";
import { calledBy, face, nameOf } from "../person";
import { t } from "../texts";
import { c } from "../texts/chats";
import { g } from "../texts/groups";
import type { Changes } from "../state/changes";
import { groupOf } from "../state/groups";

export interface Talk {
  me: User;
  line: Line;
  people: People;
  signal: AbortSignal; // aborts when the view closes
  clock: Changes; // publishes when relative times may be outdated
  failed: (err: unknown) => void;
}

/** The server's name for the chat with a user. */
export const chatWith = (user: string) => `u:${user}`;

/** The part of an address for a chat: the peer's id, or "g:" and the group's id. */
export const placeOf = (chat: string) => (groupOf(chat) ? chat : chat.slice(2));

/** The chat of an address. */
export const chatAt = (place: string) => (groupOf(place) ? place : chatWith(place));

/** The peer of a chat of two, with the public name. A name that is unknown is empty. */
export function profileOf({ line }: Talk, user: string): Profile {
  const friend = line.signals.friend(user);
  const chat = line.signals.get(chatWith(user));
  const { peer_name: name = "", peer_avatar: avatar, peer_gone: deleted } = chat ?? {};
  if (chat && (name || deleted)) return { id: user, name, ...(avatar && { avatar }), ...(deleted && { deleted }) };
  return friend?.user ?? { id: user, name };
}

/** The user's name for another user, in a group if given. */
export function nameIn(talk: Talk, user: string, group = ""): string {
  const friend = talk.line.signals.friend(user);
  if (friend?.remark) return friend.remark;
  return (
    (group && talk.line.groups.called(group, user)) ||
    (friend ? calledBy(friend) : nameOf(profileOf(talk, user))) ||
    c.somebody
  );
}

/** The user's name for a chat: the group's or the peer's. */
export function titleOf(talk: Talk, chat: string): string {
  const group = groupOf(chat);
  return group ? talk.line.groups.title(group) || g.group : nameIn(talk, placeOf(chat));
}

/** The picture of a chat. */
export function faceOf(talk: Talk, chat: string): HTMLElement {
  const group = groupOf(chat);
  return group
    ? groupFace(titleOf(talk, chat), talk.line.groups.get(group)?.group.picture)
    : face(profileOf(talk, placeOf(chat)));
}

/** A group's picture, or else the first letter of its name. Screen readers skip it. */
export function groupFace(name: string, picture = "", large = false): HTMLElement {
  const cls = `face group ${large ? "large" : ""}`;
  const letter = h("span", { class: cls, "aria-hidden": "true" }, ([...name][0] ?? "").toUpperCase());
  if (!picture) return letter;
  const side = large ? 96 : 44;
  const img: HTMLImageElement = h("img", {
    class: cls,
    alt: "",
    width: side,
    height: side,
    src: `/v1/group-pictures/${picture}/${large ? 256 : 64}`,
    onerror: () => img.replaceWith(letter),
  });
  return img;
}

/** Whether a chat is muted now. */
export const isMuted = (muted: string | undefined) => muted !== undefined && Date.parse(muted) > Date.now();

/** The number of unread messages that call for the user. Muted chats, and chats without notifications, have none. */
export function calls(line: Pick<Line, "groups">, chat: ChatState): number {
  if (isMuted(chat.muted)) return 0;
  const notify = line.groups.notify(chat.chat);
  return notify === "all" || (notify === "mentions" && line.groups.hasMention(chat)) ? chat.unread : 0;
}

/** The text for a refusal of a chat's operation, in the language of the page. */
export function sayRefusal(code: string, detail: string): string {
  const all: Record<string, string> = { ...c.refusals, ...g.refusals };
  const reasons: Record<string, string> = c.files.reasons;
  return all[code] ?? (code === "transfer.failed" ? reasons[detail] : undefined) ?? detail;
}

/** The text for the user about a failure of the connection. */
export function explain(err: unknown): string {
  if (err instanceof Unreachable) return t.frame.unreachable;
  if (err instanceof Refused)
    return sayRefusal(err.code, err.detail) + (err.retryAfter ? t.form.again(err.retryAfter) : "");
  return say(err);
}

/** Calls an operation. A failure has a text in the language of the page, for forms. */
export async function ask<O extends Parameters<StoaClient["call"]>[0]>(
  talk: Talk,
  operation: O,
  input?: Input<O>,
): Promise<Answer<O>> {
  try {
    return await talk.line.client.call(operation, input);
  } catch (err) {
    throw err instanceof Refused || err instanceof Unreachable ? new Error(explain(err), { cause: err }) : err;
  }
}
