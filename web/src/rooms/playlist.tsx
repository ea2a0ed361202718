// The playlist of a room.

import { useSignal } from "@preact/signals";
import { uploadFile, type RoomItem, type RoomItemNew } from "@stoa-dev/client";
import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import { h } from "../dom";
import { clockOf } from "../state/player";
import { r } from "../texts/rooms";
import { Act } from "../ui/act";
import { useKeptFocus } from "../ui/focus";
import { Form, Input } from "../ui/form";
import { Sign, type SignName } from "../ui/icon";
import type { TabPanel } from "../ui/tabs";
import type { Seat } from "./seat";

const SAMPLE = "/sample.webm"; // a sample that every server has
const SAMPLE_LASTS = 60_000; // ms
const PROBE = 5000; // ms to wait for the duration of a video

interface PlaylistProps {
  panel: TabPanel;
  items: readonly RoomItem[];
  now: string; // the present item
  arrange: boolean; // the caller may change the playlist
  control: boolean; // the caller may control the player
  seat: Seat;
  play: (item: string) => Promise<void>;
  camera: ComponentChildren; // the button that publishes this device's camera
  failed: (err: unknown) => void;
}

export function RoomPlaylist({ panel, items, now, arrange, control, seat, play, camera, failed }: PlaylistProps) {
  const list = useRef<HTMLOListElement>(null);
  const rest = useRef<HTMLSpanElement>(null);
  useKeptFocus(list, () => rest.current);
  return (
    <div class="stack" {...panel}>
      <span tabindex={-1} ref={rest} />
      <p class="muted" hidden={items.length > 0}>
        {r.items.none}
      </p>
      <ol class="items" aria-label={r.tabs.list} ref={list}>
        {items.map((item, i) => (
          <PlaylistItem
            key={item.id}
            item={item}
            now={item.id === now}
            arrange={arrange}
            control={control}
            before={i === 0 ? null : (items[i - 2]?.id ?? "")}
            after={items[i + 1]?.id ?? ""}
            seat={seat}
            play={play}
            failed={failed}
          />
        ))}
      </ol>
      <Additions hidden={!arrange} seat={seat} camera={camera} failed={failed} />
      <p class="hint" hidden={arrange}>
        {r.items.mayNot}
      </p>
    </div>
  );
}

interface ItemProps {
  item: RoomItem;
  now: boolean;
  arrange: boolean;
  control: boolean;
  before: string | null; // after a move up it follows this item; null: it is the first one
  after: string; // after a move down it follows this item; "": it is the last one
  seat: Seat;
  play: (item: string) => Promise<void>;
  failed: (err: unknown) => void;
}

function PlaylistItem({ item, now, arrange, control, before, after, seat, play, failed }: ItemProps) {
  const { id, title, duration } = item;
  const button = (text: string, shape: SignName, run: () => Promise<unknown>) => (
    <Act key={shape} class="round" title={text} label={text} run={run} failed={failed}>
      <Sign name={shape} />
    </Act>
  );
  const move = (behind: string) => () =>
    seat.ask(`/playlist/${id}/move`, { method: "POST", body: behind ? { after: behind } : {} });
  return (
    <li class="item" data-item={id} aria-current={now ? "true" : undefined}>
      <div class="item-text">
        <p class="person-name">{title}</p>
        <p class="muted">
          {[now && r.items.now, duration && clockOf(duration)].filter(Boolean).join(" · ")}
          {item.kind === "live" && <span class="badge">{r.live.now}</span>}
        </p>
      </div>
      {control && !now && button(r.items.put(title), "play", () => play(id))}
      {arrange && before !== null && button(r.items.up(title), "up", move(before))}
      {arrange && after !== "" && button(r.items.down(title), "down", move(after))}
      {arrange && button(r.items.remove(title), "cross", () => seat.ask(`/playlist/${id}`, { method: "DELETE" }))}
    </li>
  );
}

/** An upload of a video from this device. */
interface Upload {
  id: number;
  file: File;
  sent: number; // bytes
  transfer: string;
  stop: AbortController;
}

interface AdditionsProps {
  hidden: boolean;
  seat: Seat;
  camera: ComponentChildren;
  failed: (err: unknown) => void;
}

// The ways to add items: the camera, the sample, a file, an address.
function Additions({ hidden, seat, camera, failed }: AdditionsProps) {
  const uploads = useSignal<readonly Upload[]>([]);
  const input = useRef<HTMLInputElement>(null);
  const form = useRef<HTMLDivElement>(null);
  const count = useRef(0);

  const add = async (body: RoomItemNew) => void (await seat.ask("/playlist", { method: "POST", body }));
  const addAddress = async (source: string, title: string) => {
    const path = source.split(/[?#]/)[0]!;
    const kind = /\.m3u8$/i.test(path) ? "hls" : "url";
    const duration = await lasts(source);
    await add({ kind, source, title: title || nameOf(path).slice(0, 200), ...(duration > 0 && { duration }) });
  };
  const submit = async () => {
    const [url, title] = [...form.current!.querySelectorAll<HTMLInputElement>("input[name]:not([type=file])")];
    const [source, named] = [url!.value, title!.value];
    await addAddress(source.trim(), named.trim());
    // New input during the request belongs to the next item.
    if (url!.value === source) url!.value = "";
    if (title!.value === named) title!.value = "";
  };
  const upload = async (file: File) => {
    const id = ++count.current;
    const stop = new AbortController();
    const update = (change: Partial<Upload>) =>
      (uploads.value = uploads.peek().map((u) => (u.id === id ? { ...u, ...change } : u)));
    uploads.value = [...uploads.peek(), { id, file, sent: 0, transfer: "", stop }];
    try {
      const source = await uploadFile(seat.client, file, {
        onProgress: (sent) => update({ sent }),
        onBegun: (transfer) => update({ transfer }),
        signal: stop.signal,
      });
      const { url } = await seat.client.call("transfers.link", { path: { transfer: source } });
      const duration = await lasts(url);
      await add({ kind: "file", source, title: file.name.slice(0, 200), ...(duration > 0 && { duration }) });
    } catch (err) {
      if (!stop.signal.aborted) throw err;
    } finally {
      uploads.value = uploads.peek().filter((u) => u.id !== id);
    }
  };
  const choose = () => {
    const [file] = input.current!.files ?? [];
    input.current!.value = "";
    if (file) void upload(file).catch(failed);
  };
  const cancel = async ({ stop, transfer }: Upload) => {
    stop.abort();
    if (transfer) await seat.client.call("transfers.cancel", { path: { transfer } });
  };
  return (
    <div class="stack items-add" hidden={hidden} ref={form}>
      <div class="row">
        {camera}
        <Act run={() => addAddress(SAMPLE, r.items.sampleTitle)} failed={failed}>
          {r.items.sample}
        </Act>
        {!seat.guest && (
          <button type="button" class="secondary" title={r.items.fileHint} onClick={() => input.current!.click()}>
            {r.items.file}
          </button>
        )}
        {!seat.guest && (
          <input
            type="file"
            class="sr"
            tabindex={-1}
            accept="video/*"
            aria-label={r.items.file}
            ref={input}
            onChange={choose}
          />
        )}
      </div>
      <div class="stack">
        {uploads.value.map((u) => (
          <div key={u.id} class="stack" role="status">
            <p class="muted">{r.items.uploading(u.file.name)}</p>
            <progress max={u.file.size} value={u.sent} aria-label={r.items.uploading(u.file.name)} />
            <div class="row">
              <Act kind="link" run={() => cancel(u)} failed={failed}>
                {r.items.cancel}
              </Act>
            </div>
          </div>
        ))}
      </div>
      <Form
        class="stack"
        submit={submit}
        fields={
          <>
            <Input
              label={r.items.url}
              name="source"
              hint={r.items.urlHint}
              type="url"
              required
              maxlength={2000}
              placeholder="https://"
            />
            <Input label={r.items.title} name="title" maxlength={200} />
          </>
        }
      >
        <div class="row">
          <button type="submit" class="secondary">
            {r.items.add}
          </button>
        </div>
      </Form>
    </div>
  );
}

// nameOf returns the last part of a path. A part with an invalid UTF-8 encoding stays encoded.
function nameOf(path: string): string {
  const last = path.split("/").at(-1) || path;
  try {
    return decodeURIComponent(last);
  } catch {
    return last;
  }
}

// lasts returns the duration of a video in ms, or 0 if it is unknown. With a duration, the next item follows without a
// viewer who may control the player.
function lasts(source: string): Promise<number> {
  if (source === SAMPLE) return Promise.resolve(SAMPLE_LASTS);
  if (!/^(https:|\/v1\/files\/)/i.test(source)) return Promise.resolve(0); // the server refuses it
  return new Promise((done) => {
    const probe = h("video", { preload: "metadata", muted: true });
    const end = (ms: number) => {
      clearTimeout(patience);
      probe.removeAttribute("src");
      probe.load();
      done(ms);
    };
    const patience = setTimeout(() => end(0), PROBE);
    probe.onloadedmetadata = () => end(Number.isFinite(probe.duration) ? Math.round(probe.duration * 1000) : 0);
    probe.onerror = () => end(0);
    probe.src = source;
  });
}
