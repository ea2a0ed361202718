// What messages say: whole in a bubble, short in a list. A text of somebody else stays text.

import type { Media, Message, Outgoing } from "@stoa-dev/client";
import { h, type Child } from "../dom";
import { t } from "../texts";
import { c } from "../texts/chats";
import { sign } from "./icons";
import { titleOf, type Talk } from "./talk";

/** What a message says, stored or on its way. */
export type Content = Pick<Message, "kind" | "text" | "media" | "location" | "card" | "custom"> & { recalled?: string };

/** In one line. */
export function preview(m: Content & { forward?: unknown }): string {
  if (m.recalled) return c.recalled;
  const text = m.text?.replace(/\s+/g, " ").trim();
  if (m.kind === "text") return text || (m.forward ? c.forwarded : "");
  const more = text || m.media?.alt || (m.kind === "file" && m.media?.name) || m.location?.name || m.location?.address;
  return more ? c.kindWith(c.kinds[m.kind], more) : c.kinds[m.kind];
}

/** The preview of one that is on its way. */
export const previewOut = (out: Outgoing) => preview(out.body);

/** All of it. */
export function content(m: Content, talk: Talk): Child[] {
  if (m.recalled) return [h("p", { class: "said muted" }, c.recalled)];
  const words = m.text ? h("p", { class: "said" }, ...linked(m.text)) : null;
  switch (m.kind) {
    case "text":
    case "system":
      return [words];
    case "image":
      return [m.media && picture(m.media), words];
    case "voice":
    case "file":
      return [m.media && file(m.kind, m.media), words];
    case "location": {
      const { lat, lon, name, address } = m.location ?? { lat: 0, lon: 0 };
      const at = `${lat.toFixed(5)}, ${lon.toFixed(5)}`;
      const href = `https://www.openstreetmap.org/?mlat=${lat}&mlon=${lon}#map=15/${lat}/${lon}`;
      return [attachment("place", name || c.kinds.location, [address, at], href, c.openMap), words];
    }
    case "card": {
      const user = m.card?.user ?? "";
      const name = user === talk.me.id ? t.words.you : titleOf(talk, user);
      return [attachment("person", c.kinds.card, [name], user === talk.me.id ? undefined : `#/chats/${user}`, t.people.writeTo(name)), words];
    }
    case "custom":
      return [words ?? attachment("file", c.kinds.custom, [m.custom?.type])];
  }
}

// Addresses in a text become links, which tell where they are followed to nothing of this page.
function linked(text: string): Child[] {
  return text.split(/(https?:\/\/[^\s<>"']+[^\s<>"'.,:;!?)\]，。！？）、])/).map((part, i) => (i % 2 === 0 ? part : away(part, {}, part)));
}

const away = (href: string, props: Record<string, string>, ...children: Child[]) => h("a", { ...props, href, target: "_blank", rel: "noopener noreferrer" }, ...children);

// hostOf names another server; what is on this one has no host. Only https leads away.
function hostOf(url: string): string | undefined {
  try {
    const u = new URL(url, location.origin);
    return u.origin === location.origin ? "" : u.protocol === "https:" ? u.host : undefined;
  } catch {
    return undefined;
  }
}

// A picture of this server is shown. One of another server would tell it who reads this and
// when: it is opened by whoever wants to, and the page's policy allows no other way.
function picture(media: Media): Child {
  const host = hostOf(media.url);
  const foreign = () => attachment("picture", media.alt || c.kinds.image, [host && c.pictureAt(host), sizes(media)], host === undefined ? undefined : media.url, c.openPicture);
  if (host !== "") return foreign();
  const ratio = media.width && media.height ? { width: Math.min(320, media.width), height: Math.round((Math.min(320, media.width) * media.height) / media.width) } : {};
  const img = h("img", { class: "shot", src: media.url, alt: media.alt || c.kinds.image, loading: "lazy", ...ratio, onerror: () => link.replaceWith(foreign() as Node) });
  const link = away(media.url, { class: "shot-link" }, img);
  return link;
}

function file(kind: "voice" | "file", media: Media): Child {
  const title = (kind === "file" && media.name) || media.alt || c.kinds[kind];
  const lasts = media.duration_ms ? c.lasts(Math.round(media.duration_ms / 1000)) : "";
  const host = hostOf(media.url);
  return attachment(kind === "voice" ? "voice" : "file", title, [lasts, media.type, sizes(media), host], host === undefined ? undefined : media.url, c.open);
}

function sizes({ width, height, size }: Media): string {
  const bytes = size ? new Intl.NumberFormat(t.locale, { style: "unit", unit: size < 1e6 ? "kilobyte" : "megabyte", maximumFractionDigits: 1 }).format(size < 1e6 ? size / 1e3 : size / 1e6) : "";
  return [width && height && `${width} × ${height}`, bytes].filter(Boolean).join(", ");
}

function attachment(shape: "picture" | "file" | "voice" | "place" | "person", title: string, lines: (string | undefined)[], href?: string, doing = ""): HTMLElement {
  const detail = lines.filter(Boolean).join(" · ");
  const inside: Child[] = [sign(shape), h("span", { class: "attached-text" }, h("span", { class: "attached-title" }, title), detail && h("span", { class: "attached-detail" }, detail), href ? h("span", { class: "attached-open" }, doing) : null)];
  if (!href) return h("span", { class: "attached" }, ...inside);
  if (href.startsWith("#")) return h("a", { class: "attached", href }, ...inside);
  return away(href, { class: "attached" }, ...inside);
}
