// The content of messages in bubbles. Text of users is never parsed as markup.

import { useSignal } from "@preact/signals";
import type { Media } from "@stoa-dev/client";
import type { ComponentChildren } from "preact";
import { t } from "../texts";
import { c } from "../texts/chats";
import { Attachment, Away, sizes } from "./attachment";
import type { Content } from "./preview";
import { StoredFile, StoredPicture, StoredVoice, type MessageRef } from "./stored";
import { nameIn, type ChatContext } from "./context";

/** The complete content of a message. names are those of the mentioned users. */
export function MessageContent({
  m,
  ctx,
  at,
  names,
}: {
  m: Content;
  ctx: ChatContext;
  at: MessageRef;
  names: string[];
}) {
  if (m.recalled) return <p class="said muted">{c.recalled}</p>;
  return (
    <>
      <Attached m={m} ctx={ctx} at={at} />
      {m.text && <p class="said">{linked(m.text, mentionsOf(names))}</p>}
    </>
  );
}

function Attached({ m, ctx, at }: { m: Content; ctx: ChatContext; at: MessageRef }) {
  const { media } = m;
  switch (m.kind) {
    case "image":
      if (!media) return null;
      return media.file ? <StoredPicture media={media} at={at} ctx={ctx} /> : <Picture media={media} />;
    case "voice":
      if (!media) return null;
      return media.file ? <StoredVoice media={media} at={at} ctx={ctx} /> : <File kind="voice" media={media} />;
    case "file":
      if (!media) return null;
      return media.file ? <StoredFile media={media} at={at} ctx={ctx} /> : <File kind="file" media={media} />;
    case "location": {
      const { lat, lon, name, address } = m.location ?? { lat: 0, lon: 0 };
      const where = `${lat.toFixed(5)}, ${lon.toFixed(5)}`;
      const href = `https://www.openstreetmap.org/?mlat=${lat}&mlon=${lon}#map=15/${lat}/${lon}`;
      const title = name || c.kinds.location;
      return <Attachment shape="place" title={title} lines={[address, where]} href={href} open={c.openMap} />;
    }
    case "card": {
      const user = m.card?.user ?? "";
      const own = user === ctx.me.id;
      const name = own ? t.words.you : nameIn(ctx, user);
      const href = own ? undefined : `#/chats/${user}`;
      return (
        <Attachment shape="person" title={c.kinds.card} lines={[name]} href={href} open={t.people.writeTo(name)} />
      );
    }
    case "custom":
      return m.text ? null : <Attachment shape="file" title={c.kinds.custom} lines={[m.custom?.type]} />;
    default:
      return null;
  }
}

const URL_IN_TEXT = /(https?:\/\/[^\s<>"']+[^\s<>"'.,:;!?)\]，。！？）、])/;

// Addresses in a text become links that send no referrer. Mentions are highlighted.
function linked(text: string, names: RegExp | undefined): ComponentChildren {
  const words = (part: string): ComponentChildren[] =>
    names ? part.split(names).map((word, i) => (i % 2 === 0 ? word : <strong class="mention">{word}</strong>)) : [part];
  return text.split(URL_IN_TEXT).flatMap((part, i) => (i % 2 === 0 ? words(part) : [<Away href={part}>{part}</Away>]));
}

// mentionsOf returns an expression that matches mentions of the names.
function mentionsOf(names: string[]): RegExp | undefined {
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

// Picture shows a picture of this server. A picture of another server is a link: loading it would reveal the reader's IP
// address and the time of reading. The page's policy also blocks such pictures.
function Picture({ media }: { media: Media }) {
  const broken = useSignal(false);
  const { url = "" } = media;
  const host = hostOf(url);
  const name = media.alt || c.kinds.image;
  if (host !== "" || broken.value) {
    const lines = [host && c.pictureAt(host), sizes(media)];
    const href = host === undefined ? undefined : url;
    return <Attachment shape="picture" title={name} lines={lines} href={href} open={c.openPicture} />;
  }
  const { width = 0, height = 0 } = media;
  const shown = Math.min(320, width);
  const size = width && height ? { width: shown, height: Math.round((shown * height) / width) } : {};
  return (
    <Away href={url} class="shot-link">
      <img class="shot" src={url} alt={name} loading="lazy" {...size} onError={() => (broken.value = true)} />
    </Away>
  );
}

function File({ kind, media }: { kind: "voice" | "file"; media: Media }) {
  const { url = "" } = media;
  const host = hostOf(url);
  const title = (kind === "file" && media.name) || media.alt || c.kinds[kind];
  const lasts = media.duration_ms ? c.lasts(Math.round(media.duration_ms / 1000)) : "";
  const lines = [lasts, media.type, sizes(media), host];
  return (
    <Attachment shape={kind} title={title} lines={lines} href={host === undefined ? undefined : url} open={c.open} />
  );
}
