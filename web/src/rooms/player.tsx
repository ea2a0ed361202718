// The player of a room on the page: the stage and the controls.

import { useSignal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { clockOf, type RoomPlayer } from "../state/player";
import { r } from "../texts/rooms";
import { Sign, type SignName } from "../ui/icon";
import { Watched } from "./camera";
import type { Danmaku } from "./danmaku";

const RATES = [0.5, 0.75, 1, 1.25, 1.5, 2];
const known = (rate = 1) => (RATES.includes(rate) ? rate : 1);

export function PlayerView({ player, danmaku }: { player: RoomPlayer; danmaku: Danmaku }) {
  const stage = useRef<HTMLDivElement>(null);
  const video = useRef<HTMLVideoElement>(null);
  const muted = useSignal(false);
  useLayoutEffect(() => {
    const el = video.current!;
    el.after(danmaku.el);
    void player.start({ video: el, hidden: () => document.hidden, watch: (...on) => new Watched(el, ...on) });
  }, []);
  const key = (e: KeyboardEvent) => {
    if (e.target !== e.currentTarget && e.target !== video.current) return; // buttons handle their own keys
    if (player.key(e.key)) e.preventDefault();
  };
  const full = () => void (document.fullscreenElement ? document.exitFullscreen() : stage.current!.requestFullscreen());
  const may = player.mayControl.value;
  const { item, rate = 1 } = player.playback.value ?? {};
  const plays = player.plays.value;
  const some = player.items.value.length > 0;
  const still = player.live.value || player.removed.value; // there is no position
  const button = (shape: SignName, text: string, run: () => unknown, disabled = false, cls = "round") => (
    <button type="button" class={cls} aria-label={text} title={text} disabled={disabled} onClick={() => void run()}>
      <Sign name={shape} />
    </button>
  );
  return (
    <section class="player" aria-label={r.player} onKeyDown={key}>
      <div class="stage" ref={stage}>
        <video
          playsInline
          preload="auto"
          aria-label={r.player}
          ref={video}
          onLoadedMetadata={() => player.loaded()}
          onDurationChange={() => player.show()}
          onCanPlay={() => player.ready()}
          onPlaying={() => player.ready()}
          onWaiting={() => player.buffers(true)}
          onEnded={() => void player.ended()}
          onError={() => player.broke()}
          onVolumeChange={() => (muted.value = video.current!.muted)}
          onClick={() => void player.toggle()}
        />
        <p class="stage-note" role="status">
          {noteOf(player)}
        </p>
      </div>
      <div class="controls" title={may ? "" : r.onlyOthers}>
        {button(plays ? "pause" : "play", plays ? r.pause : r.play, () => player.toggle(), !may || (!item && !some))}
        {button("next", r.next, () => player.next(), !may || !some)}
        <Position player={player} hidden={still} disabled={!may || !item} />
        <select
          aria-label={r.rate}
          disabled={!may}
          hidden={still}
          value={known(rate)}
          onChange={(e) => void choose(e.currentTarget, player)}
        >
          {RATES.map((value) => (
            <option key={value} value={value}>
              {r.rateOf(value)}
            </option>
          ))}
        </select>
        {button(
          muted.value ? "silent" : "loud",
          muted.value ? r.unmute : r.mute,
          () => (video.current!.muted = !video.current!.muted),
          false,
          muted.value ? "round calls" : "round",
        )}
        {document.fullscreenEnabled && button("wide", r.fullscreen, full)}
      </div>
    </section>
  );
}

// choose sends a rate. If it is refused, the control shows the present one again.
async function choose(select: HTMLSelectElement, player: RoomPlayer): Promise<void> {
  await player.command({ do: "rate", rate: Number(select.value) });
  select.value = String(known(player.playback.peek()?.rate));
}

function noteOf(player: RoomPlayer): string {
  const may = player.mayControl.value;
  switch (player.note.value) {
    case "held":
      return may ? `${r.waits} ${r.goOn}` : r.waits;
    case "removed":
      return r.removed;
    case "empty":
      return may ? `${r.nothing} ${r.nothingHint}` : r.nothing;
    case "off air":
      return r.live.waits;
    case "broken":
      return r.cannotPlay;
    case "":
      return "";
  }
}

function Position({ player, hidden, disabled }: { player: RoomPlayer; hidden: boolean; disabled: boolean }) {
  const dragged = useSignal<number | undefined>(undefined);
  const { position, duration } = player.time.value;
  const at = dragged.value ?? position;
  const onAir = player.onAir.value;
  const spoken = player.playback.value?.item ? r.at(clockOf(at), clockOf(duration)) : "";
  const seek = async (to: number) => {
    dragged.value = to;
    await player.seek(to);
    if (dragged.peek() === to) dragged.value = undefined; // the user has not moved on
  };
  return (
    <>
      <input
        type="range"
        class="seek"
        min={0}
        max={Math.max(1000, duration)}
        step={100}
        aria-label={r.position}
        aria-valuetext={spoken}
        disabled={disabled}
        hidden={hidden}
        value={at}
        onInput={(e) => (dragged.value = Number(e.currentTarget.value))}
        onChange={(e) => void seek(Number(e.currentTarget.value))}
      />
      {hidden ? (
        <span class={onAir ? "badge" : "time"}>{onAir ? r.live.now : ""}</span>
      ) : (
        <span class="time">{spoken}</span>
      )}
    </>
  );
}
