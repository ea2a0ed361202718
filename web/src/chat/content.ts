// The content of messages in bubbles. Text of users is never parsed as markup.

import type { Media } from "@stoa-dev/client";
import { h, type Child } from "../dom";
import { t } from "../texts";
import { c } from "../texts/chats";
import { attachment, away, sizes } from "./attachment";
import type { Content } from "./preview";
import { storedFile, storedPicture, storedVoice, type Place } from "./stored";
import { nameIn, type Talk } from "./talk";

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
