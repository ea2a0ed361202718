// Files of this server in messages: thumbnails of pictures, recordings, and downloads.

import { fileLink, isTemporary, type Media } from "@stoa-dev/client";
import { act } from "../buttons";
import { dialog } from "../dialog";
import { h, s, type Child } from "../dom";
import { t } from "../texts";
import { c } from "../texts/chats";
import { attachment, sizes } from "./attachment";
import { sign } from "./icons";
import { explain, type Talk } from "./talk";

/** The place of a message; seq is 0 until it is sent. */
export interface Place {
  chat: string;
  seq: number;
}

const WIDEST = 320; // px of a picture in a bubble
const LINK_AGAIN = 5_000; // ms until a failed request for a link is retried
const LINK_FOR = 4 * 60_000; // ms, the life of a link in this page; the server's default is five minutes

const links = new Map<string, { url: string; until: number }>();

async function linkOf({ chat, seq }: Place, talk: Talk, side = 0): Promise<string> {
  const key = `${talk.me.id}/${chat}/${seq}/${side}`; // "u:" and an id is another chat for another user
  const known = links.get(key);
  if (known && known.until > Date.now()) return known.url;
  const { url } = await fileLink(talk.line.client, chat, seq, side);
  links.set(key, { url, until: Date.now() + LINK_FOR });
  return url;
}

/** A file with a download. */
export function storedFile(media: Media, at: Place, talk: Talk): Child {
  const wrong = h("p", { class: "fault", role: "alert" });
  const card = attachment("file", media.name || c.kinds.file, [sizes(media)]);
  if (!at.seq) return card;
  return h(
    "div",
    { class: "stored" },
    card,
    act(
      c.files.download,
      "link",
      () => save(media, at, talk),
      (err) => void (wrong.textContent = explain(err)),
    ),
    wrong,
  );
}

/**
 * A picture. The bubble shows a thumbnail. A tap opens the largest thumbnail in a dialog, with a download of the
 * original.
 */
export function storedPicture(media: Media, at: Place, talk: Talk): Child {
  const side = [...(media.thumbnails ?? [])].sort((a, b) => a - b).find((n) => n >= WIDEST) ?? media.thumbnails?.at(-1);
  const { width = 0, height = 0 } = media;
  if (!at.seq || !side || !width || !height) return storedFile(media, at, talk);
  const name = media.alt || media.name || c.kinds.image;
  const shown = Math.min(WIDEST, width);
  const img = h("img", {
    class: "shot",
    alt: name,
    width: shown,
    height: Math.round((shown * height) / width),
    onerror: () => el.replaceWith(storedFile(media, at, talk) as Node),
  });
  const view = async () => {
    const src = await linkOf(at, talk, Math.max(...media.thumbnails!));
    const el = dialog(name, (close) => [
      h("img", { class: "viewed", alt: name, src }),
      h(
        "div",
        { class: "row" },
        act(c.files.savePicture, "secondary", () => save(media, at, talk), talk.failed),
        h("button", { type: "button", class: "secondary", onclick: close }, t.words.close),
      ),
    ]);
    el.classList.add("viewer");
  };
  const el = act("", "link", view, talk.failed, c.files.viewPicture(name));
  el.classList.add("shot-link");
  el.append(img);
  const load = async (): Promise<void> => {
    try {
      img.src = await linkOf(at, talk, side);
    } catch (err) {
      if (!isTemporary(err)) return el.replaceWith(storedFile(media, at, talk) as Node);
      setTimeout(() => el.isConnected && void load(), LINK_AGAIN);
    }
  };
  void load();
  return el;
}

/** A recording, with its waveform. */
export function storedVoice(media: Media, at: Place, talk: Talk): Child {
  const wrong = h("p", { class: "fault", role: "alert" });
  const lasts = c.lasts(Math.round((media.duration_ms ?? 0) / 1000));
  const waves = s(
    "svg",
    { class: "waves", viewBox: `0 0 ${3 * BARS} 24`, preserveAspectRatio: "none", "aria-hidden": "true" },
    ...bars(media.waveform ?? []),
  );
  let player: HTMLAudioElement | undefined;
  let heard = 0; // s, the position of a player that failed: a link expires while a recording is paused
  const draw = () => {
    const plays = Boolean(player && !player.paused);
    button.replaceChildren(sign(plays ? "pause" : "play"));
    button.setAttribute("aria-label", plays ? c.files.pause : c.files.play(lasts));
    const done = player?.duration ? player.currentTime / player.duration : 0;
    [...waves.children].forEach((bar, i) => bar.classList.toggle("heard", i / BARS < done));
  };
  const failed = () => {
    wrong.textContent = c.files.noPlay;
    heard = player?.currentTime ?? heard;
    player = undefined;
    draw();
  };
  const button = act(
    "",
    "link",
    async () => {
      wrong.textContent = "";
      if (player && !player.paused) return player.pause();
      if (!player) {
        const src = await linkOf(at, talk);
        player = h("audio", {
          onplay: draw,
          onpause: draw,
          onended: draw,
          ontimeupdate: draw,
          onerror: (e: Event) => e.target === player && failed(),
        });
        player.src = src;
        player.currentTime = heard;
      }
      await player.play();
    },
    failed,
  );
  button.className = "round play";
  draw();
  return h(
    "div",
    { class: "stored" },
    h("div", { class: "recording" }, at.seq ? button : sign("voice"), waves, h("span", { class: "muted" }, lasts)),
    wrong,
  );
}

const BARS = 40;

function bars(waveform: number[]): SVGElement[] {
  return Array.from({ length: BARS }, (_, i) => {
    const loud = waveform[Math.floor((i * waveform.length) / BARS)] ?? 0;
    const height = 3 + (loud * 19) / 100;
    return s("rect", { x: 3 * i + 0.5, y: 12 - height / 2, width: 2, height, rx: 1 });
  });
}

async function save(media: Media, at: Place, talk: Talk): Promise<void> {
  h("a", { href: await linkOf(at, talk), download: media.name ?? "" }).click();
}
