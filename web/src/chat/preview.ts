// Messages as one line of text, for lists, quotes and notifications.

import type { Message, Outgoing } from "@stoa-dev/client";
import { c } from "../texts/chats";
import { g } from "../texts/groups";
import { groupOf } from "../state/groups";
import { nameIn, type ChatContext } from "./context";

const ALL = ["all", "所有人"]; // the name of a mention of all members, in each language of the page

/** The content of a message, stored or still being sent. */
export type Content = Pick<
  Message,
  "kind" | "text" | "media" | "location" | "card" | "custom" | "mentions" | "system"
> & { from?: string; recalled?: string };

/** The content in one line, for a message of chat. */
export function preview(m: Content & { forward?: unknown }, ctx: ChatContext, chat: string): string {
  if (m.recalled) return c.recalled;
  if (m.system) return happened(m, ctx, chat);
  const text = m.text?.replace(/\s+/g, " ").trim();
  if (m.kind === "text") return text || (m.forward ? c.forwarded : "");
  const more = text || m.media?.alt || (m.kind === "file" && m.media?.name) || m.location?.name || m.location?.address;
  return more ? c.kindWith(c.kinds[m.kind], more) : c.kinds[m.kind];
}

/** The preview of a message that is being sent. */
export const previewOut = (out: Outgoing, ctx: ChatContext) => preview(out.body, ctx, out.chat);

/** An event of a group, as a sentence. */
export function happened({ system, from = "" }: Content, ctx: ChatContext, chat: string): string {
  const name = (user: string) => (user === ctx.me.id ? g.you : nameIn(ctx, user, groupOf(chat)));
  return system ? g.happened[system.event](name(from), (system.users ?? []).map(name), system.text ?? "") : "";
}

/** The names of the mentioned users that all members of a group see. */
export function mentioned(mentions: string[] | undefined, ctx: ChatContext, group: string): string[] {
  return (mentions ?? [])
    .flatMap((user) => (user === "all" ? ALL : [ctx.connection.groups.memberName(group, user)]))
    .filter(Boolean);
}
