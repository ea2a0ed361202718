// The content of messages: complete in a bubble, short in a list. Text of users is never parsed as markup.

import type { Media, Message, Outgoing } from "@stoa-dev/client";
import { h, type Child } from "../dom";
import { t } from "../texts";
import { c } from "../texts/chats";
import { g } from "../texts/groups";
import { groupOf } from "./groups";
import { sign } from "./icons";
import { storedFile, storedPicture, storedVoice, type Place } from "./stored";
import { nameIn, type Talk } from "./talk";

const ALL = ["all", "所有人"]; // the name of a mention of all members, in each language of the page

/** The content of a message, stored or still being sent. */
export type Content = Pick<
  Message,
  "kind" | "text" | "media" | "location" | "card" | "custom" | "mentions" | "system"
> & { from?: string; recalled?: string };

/** The content in one line, for a message of chat. */
export function preview(m: Content & { forward?: unknown }, talk: Talk, chat: string): string {
  if (m.recalled) return c.recalled;
  if (m.system) return happened(m, talk, chat);
  const text = m.text?.replace(/\s+/g, " ").trim();
  if (m.kind === "text") return text || (m.forward ? c.forwarded : "");
  const more = text || m.media?.alt || (m.kind === "file" && m.media?.name) || m.location?.name || m.location?.address;
  return more ? c.kindWith(c.kinds[m.kind], more) : c.kinds[m.kind];
}

/** The preview of a message that is being sent. */
export const previewOut = (out: Outgoing, talk: Talk) => preview(out.body, talk, out.chat);

/** An event of a group, as a sentence. */
export function happened({ system, from = "" }: Content, talk: Talk, chat: string): string {
  const name = (user: string) => (user === talk.me.id ? g.you : nameIn(talk, user, groupOf(chat)));
  return system ? g.happened[system.event](name(from), (system.users ?? []).map(name), system.text ?? "") : "";
}

/** The complete content of a message. names are those of the mentioned users. */
export function content(m: Content, talk: Talk, at: Place, names: string[]): Child[] {
  if (m.recalled) return [h("p", { class: "said muted" }, c.recalled)];
  const words = m.text ? h("p", { class: "said" }, ...linked(m.text, mentions(names))) : null;
  switch (m.kind) {
    case "text":
    case "system":
      return [words];
    case "image":
      return [m.media && (m.media.file ? storedPicture(m.media, at, talk) : picture(m.media, m.media.url)), words];
    case "voice":
    case "file":
      return [
        m.media &&
          (!m.media.file
            ? file(m.kind, m.media, m.media.url)
            : m.kind === "voice"
              ? storedVoice(m.media, at, talk)
              : storedFile(m.media, at, talk)),
        words,
      ];
    case "location": {
      const { lat, lon, name, address } = m.location ?? { lat: 0, lon: 0 };
      const at = `${lat.toFixed(5)}, ${lon.toFixed(5)}`;
      const href = `https://www.openstreetmap.org/?mlat=${lat}&mlon=${lon}#map=15/${lat}/${lon}`;
      return [attachment("place", name || c.kinds.location, [address, at], href, c.openMap), words];
    }
    case "card": {
      const user = m.card?.user ?? "";
      const name = user === talk.me.id ? t.words.you : nameIn(talk, user);
      return [
        attachment(
          "person",
          c.kinds.card,
          [name],
          user === talk.me.id ? undefined : `#/chats/${user}`,
          t.people.writeTo(name),
        ),
        words,
      ];
    }
    case "custom":
      return [words ?? attachment("file", c.kinds.custom, [m.custom?.type])];
  }
}

// Addresses in a text become links that send no referrer. Mentions are highlighted.
function linked(text: string, names: RegExp | undefined): Child[] {
  const words = (part: string): Child[] =>
    names ? part.split(names).map((word, i) => (i % 2 === 0 ? word : h("strong", { class: "mention" }, word))) : [part];
  return text
    .split(/(https?:\/\/[^\s<>"']+[^\s<>"'.,:;!?)\]，。！？）、])/)
    .flatMap((part, i) => (i % 2 === 0 ? words(part) : [away(part, {}, part)]));
}

// mentions returns an expression that matches mentions of the names.
function mentions(names: string[]): RegExp | undefined {
  if (names.length === 0) return undefined;
  return new RegExp(`(@(?:${names.map((name) => name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|")}))`, "g");
}

/** The names of the mentioned users that all members of a group see. */
export function mentioned(mentions: string[] | undefined, talk: Talk, group: string): string[] {
  return (mentions ?? [])
    .flatMap((user) => (user === "all" ? ALL : [talk.line.groups.called(group, user)]))
    .filter(Boolean);
}

const away = (href: string, props: Record<string, string>, ...children: Child[]) =>
  h("a", { ...props, href, target: "_blank", rel: "noopener noreferrer" }, ...children);

// hostOf returns the host of another server, "" for a path of this API, and undefined for other addresses. Only https
// is allowed for another server.
function hostOf(url: string): string | undefined {
  try {
    const u = new URL(url, location.origin);
    if (u.origin === location.origin) return u.pathname.startsWith("/v1/") ? "" : undefined;
    return u.protocol === "https:" ? u.host : undefined;
  } catch {
    return undefined;
  }
}

// Pictures of this server are shown. A picture of another server would send it the reader's address and time. It is a
// link instead, and the page's policy forbids all else.
function picture(media: Media, url = ""): Child {
  const host = hostOf(url);
  const foreign = () =>
    attachment(
      "picture",
      media.alt || c.kinds.image,
      [host && c.pictureAt(host), sizes(media)],
      host === undefined ? undefined : url,
      c.openPicture,
    );
  if (host !== "") return foreign();
  const ratio =
    media.width && media.height
      ? {
          width: Math.min(320, media.width),
          height: Math.round((Math.min(320, media.width) * media.height) / media.width),
        }
      : {};
  const img = h("img", {
    class: "shot",
    src: url,
    alt: media.alt || c.kinds.image,
    loading: "lazy",
    ...ratio,
    onerror: () => link.replaceWith(foreign() as Node),
  });
  const link = away(url, { class: "shot-link" }, img);
  return link;
}

function file(kind: "voice" | "file", media: Media, url = ""): Child {
  const title = (kind === "file" && media.name) || media.alt || c.kinds[kind];
  const lasts = media.duration_ms ? c.lasts(Math.round(media.duration_ms / 1000)) : "";
  const host = hostOf(url);
  return attachment(
    kind === "voice" ? "voice" : "file",
    title,
    [lasts, media.type, sizes(media), host],
    host === undefined ? undefined : url,
    c.open,
  );
}

/** "48.2 kB" */
export const bytes = (size: number) =>
  new Intl.NumberFormat(t.locale, {
    style: "unit",
    unit: size < 1e6 ? "kilobyte" : "megabyte",
    maximumFractionDigits: 1,
  }).format(size < 1e6 ? size / 1e3 : size / 1e6);

export function sizes({ width, height, size }: Media): string {
  return [width && height && `${width} × ${height}`, size && bytes(size)].filter(Boolean).join(", ");
}

export function attachment(
  shape: "picture" | "file" | "voice" | "place" | "person",
  title: string,
  lines: (string | undefined)[],
  href?: string,
  doing = "",
): HTMLElement {
  const detail = lines.filter(Boolean).join(" · ");
  const inside: Child[] = [
    sign(shape),
    h(
      "span",
      { class: "attached-text" },
      h("span", { class: "attached-title" }, title),
      detail && h("span", { class: "attached-detail" }, detail),
      href ? h("span", { class: "attached-open" }, doing) : null,
    ),
  ];
  if (!href) return h("span", { class: "attached" }, ...inside);
  if (href.startsWith("#")) return h("a", { class: "attached", href }, ...inside);
  return away(href, { class: "attached" }, ...inside);
}
