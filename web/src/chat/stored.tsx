// Files of this server in messages: thumbnails of pictures, recordings, and downloads.

import { useSignal } from "@preact/signals";
import { fileLink, isTemporary, type Media } from "@stoa-dev/client";
import { useEffect, useRef } from "preact/hooks";
import { h } from "../dom";
import { t } from "../texts";
import { c } from "../texts/chats";
import { Act } from "../ui/act";
import { openDialog } from "../ui/dialog";
import { Sign } from "../ui/icon";
import { Attachment, sizes } from "./attachment";
import { explain, type ChatContext } from "./context";

/** A message of a chat; seq is 0 until it is sent. */
export interface MessageRef {
  chat: string;
  seq: number;
}

interface StoredProps {
  media: Media;
  at: MessageRef;
  ctx: ChatContext;
}

const WIDEST = 320; // px of a picture in a bubble
const LINK_AGAIN = 5_000; // ms until a failed request for a link is retried
const LINK_FOR = 4 * 60_000; // ms, the life of a link in this page; the server's default is five minutes
const BARS = 40; // of a waveform

const links = new Map<string, { url: string; until: number }>();

async function linkOf({ chat, seq }: MessageRef, ctx: ChatContext, side = 0): Promise<string> {
  const key = `${ctx.me.id}/${chat}/${seq}/${side}`; // the id of a chat of two names only the peer
  const known = links.get(key);
  if (known && known.until > Date.now()) return known.url;
  const { url } = await fileLink(ctx.connection.client, chat, seq, side);
  links.set(key, { url, until: Date.now() + LINK_FOR });
  return url;
}

async function save(media: Media, at: MessageRef, ctx: ChatContext): Promise<void> {
  h("a", { href: await linkOf(at, ctx), download: media.name ?? "" }).click();
}

/** A file with a download. */
export function StoredFile({ media, at, ctx }: StoredProps) {
  const fault = useSignal("");
  const box = <Attachment shape="file" title={media.name || c.kinds.file} lines={[sizes(media)]} />;
  if (!at.seq) return box;
  return (
    <div class="stored">
      {box}
      <Act kind="link" run={() => save(media, at, ctx)} failed={(err) => (fault.value = explain(err))}>
        {c.files.download}
      </Act>
      <p class="fault" role="alert">
        {fault.value}
      </p>
    </div>
  );
}

/**
 * A picture. The bubble shows a thumbnail. A tap opens the largest thumbnail in a dialog, with a download of the
 * original.
 */
export function StoredPicture({ media, at, ctx }: StoredProps) {
  const src = useSignal("");
  const broken = useSignal(false);
  const sides = [...(media.thumbnails ?? [])].sort((a, b) => a - b);
  const side = sides.find((n) => n >= WIDEST) ?? sides.at(-1);
  const { width = 0, height = 0 } = media;
  const shows = Boolean(at.seq && side && width && height) && !broken.value;
  useEffect(() => {
    if (!shows) return;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let over = false;
    const load = async (): Promise<void> => {
      try {
        const url = await linkOf(at, ctx, side);
        if (!over) src.value = url;
      } catch (err) {
        if (over) return;
        if (!isTemporary(err)) broken.value = true;
        else timer = setTimeout(() => void load(), LINK_AGAIN);
      }
    };
    void load();
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [shows, at.chat, at.seq]);
  if (!shows) return <StoredFile media={media} at={at} ctx={ctx} />;

  const name = media.alt || media.name || c.kinds.image;
  const view = async () => {
    const url = await linkOf(at, ctx, sides.at(-1));
    openDialog(name, (close) => (
      <>
        <img class="viewed" alt={name} src={url} />
        <div class="row">
          <Act run={() => save(media, at, ctx)} failed={ctx.failed}>
            {c.files.savePicture}
          </Act>
          <button type="button" class="secondary" onClick={close}>
            {t.words.close}
          </button>
        </div>
      </>
    )).classList.add("viewer");
  };
  const shown = Math.min(WIDEST, width);
  return (
    <Act class="link shot-link" run={view} failed={ctx.failed} label={c.files.viewPicture(name)}>
      <img
        class="shot"
        alt={name}
        width={shown}
        height={Math.round((shown * height) / width)}
        src={src.value || undefined}
        onError={() => (broken.value = true)}
      />
    </Act>
  );
}

/** A recording, with its waveform. */
export function StoredVoice({ media, at, ctx }: StoredProps) {
  const fault = useSignal("");
  const plays = useSignal(false);
  const done = useSignal(0); // 0 to 1
  const player = useRef<HTMLAudioElement | undefined>(undefined);
  const heard = useRef(0); // s, the position of a player that failed: a link expires while a recording is paused
  const lasts = c.lasts(Math.round((media.duration_ms ?? 0) / 1000));
  const update = () => {
    const audio = player.current;
    plays.value = Boolean(audio && !audio.paused);
    done.value = audio?.duration ? audio.currentTime / audio.duration : 0;
  };
  const failed = () => {
    fault.value = c.files.noPlay;
    heard.current = player.current?.currentTime ?? heard.current;
    player.current = undefined;
    update();
  };
  const toggle = async () => {
    fault.value = "";
    const playing = player.current;
    if (playing && !playing.paused) return playing.pause();
    if (!playing) {
      const src = await linkOf(at, ctx);
      const audio = new Audio();
      for (const name of ["play", "pause", "ended", "timeupdate"]) audio.addEventListener(name, update);
      audio.addEventListener("error", () => audio === player.current && failed());
      player.current = audio;
      audio.src = src;
      audio.currentTime = heard.current;
    }
    await player.current?.play();
  };
  return (
    <div class="stored">
      <div class="recording">
        {at.seq ? (
          <Act
            class="round play"
            run={toggle}
            failed={failed}
            label={plays.value ? c.files.pause : c.files.play(lasts)}
          >
            <Sign name={plays.value ? "pause" : "play"} />
          </Act>
        ) : (
          <Sign name="voice" />
        )}
        <Waves waveform={media.waveform ?? []} done={done.value} />
        <span class="muted">{lasts}</span>
      </div>
      <p class="fault" role="alert">
        {fault.value}
      </p>
    </div>
  );
}

function Waves({ waveform, done }: { waveform: number[]; done: number }) {
  const bars = Array.from({ length: BARS }, (_, i) => {
    const loud = waveform[Math.floor((i * waveform.length) / BARS)] ?? 0;
    const height = 3 + (loud * 19) / 100;
    const cls = i / BARS < done ? "heard" : undefined;
    return <rect key={i} class={cls} x={3 * i + 0.5} y={12 - height / 2} width={2} height={height} rx={1} />;
  });
  return (
    <svg class="waves" viewBox={`0 0 ${3 * BARS} 24`} preserveAspectRatio="none" aria-hidden="true">
      {bars}
    </svg>
  );
}
