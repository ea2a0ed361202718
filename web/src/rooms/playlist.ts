// The playlist of a room.

import { uploadFile, type RoomItem, type RoomItemNew } from "@stoa-dev/client";
import { act } from "../buttons";
import { h } from "../dom";
import { field, form } from "../form";
import { rows } from "../rows";
import { r } from "../texts/rooms";
import { sign } from "../chat/icons";
import { clockOf } from "./player";
import type { Seat } from "./seat";

const SAMPLE = "/sample.webm"; // a sample that every server has
const SAMPLE_LASTS = 60_000; // ms
const PROBE = 5000; // ms to wait for the duration of a video

interface Row {
  item: RoomItem;
  now: boolean;
  arrange: boolean;
  control: boolean;
  before: string | null; // after a move up it follows this item; null: it is the first one
  after: string; // after a move down it follows this item; "": it is the last one
}

export class RoomPlaylist {
  readonly el: HTMLElement;

  readonly #list = h("ol", { class: "items", "aria-label": r.tabs.list });
  readonly #none = h("p", { class: "muted" }, r.items.none);
  readonly #add: HTMLElement;
  readonly #coming = h("div", { class: "stack" }); // the running uploads
  readonly #mayNot = h("p", { class: "hint" }, r.items.mayNot);
  readonly #show: (items: Row[]) => void;

  constructor(
    private readonly seat: Seat,
    private readonly put: (item: string) => Promise<void>,
    private readonly camera: HTMLElement, // the button that publishes this device's camera
    private readonly failed: (err: unknown) => void,
  ) {
    const url = field(
      r.items.url,
      { name: "source", type: "url", required: true, maxlength: 2000, autocomplete: "off", placeholder: "https://" },
      r.items.urlHint,
    );
    const title = field(r.items.title, { name: "title", maxlength: 200, autocomplete: "off" });
    const add = async (source: string, title: string) => {
      const path = source.split(/[?#]/)[0]!;
      const kind = /\.m3u8$/i.test(path) ? "hls" : "url";
      const duration = await lasts(source);
      const body: RoomItemNew = {
        kind,
        source,
        title: title || nameOf(path).slice(0, 200),
        ...(duration > 0 && { duration }),
      };
      await this.seat.ask("/playlist", { method: "POST", body });
    };
    this.#add = h(
      "div",
      { class: "stack items-add" },
      h(
        "div",
        { class: "row" },
        this.camera,
        act(r.items.sample, "secondary", () => add(SAMPLE, r.items.sampleTitle), failed),
        ...(seat.guest ? [] : this.#ownFile()),
      ),
      this.#coming,
      form(
        { class: "stack" },
        [url, title],
        async () => {
          const [source, named] = [url.input.value, title.input.value];
          await add(source.trim(), named.trim());
          // New input during the request belongs to the next item.
          if (url.input.value === source) url.input.value = "";
          if (title.input.value === named) title.input.value = "";
        },
        h("div", { class: "row" }, h("button", { type: "submit", class: "secondary" }, r.items.add)),
      ),
    );
    const rest = h("span", { tabindex: -1 });
    this.el = h("div", { class: "stack" }, rest, this.#none, this.#list, this.#add, this.#mayNot);
    this.#show = rows<Row>(
      this.#list,
      (row) => row.item.id,
      (row) => this.#row(row),
      rest,
    );
  }

  show(items: RoomItem[], now: string, may: (what: "playlist" | "control") => boolean): void {
    this.#none.hidden = items.length > 0;
    this.#add.hidden = !may("playlist");
    this.#mayNot.hidden = may("playlist");
    this.#show(
      items.map((item, i) => ({
        item,
        now: item.id === now,
        arrange: may("playlist"),
        control: may("control"),
        before: i === 0 ? null : (items[i - 2]?.id ?? ""),
        after: items[i + 1]?.id ?? "",
      })),
    );
  }

  // #ownFile returns the button that uploads a video from this device and adds it to the playlist.
  #ownFile(): HTMLElement[] {
    const input = h("input", {
      type: "file",
      class: "sr",
      tabindex: -1,
      accept: "video/*",
      "aria-label": r.items.file,
      onchange: () => {
        const [file] = input.files ?? [];
        input.value = "";
        if (file) void this.#upload(file).catch(this.failed);
      },
    });
    return [
      h(
        "button",
        { type: "button", class: "secondary", title: r.items.fileHint, onclick: () => input.click() },
        r.items.file,
      ),
      input,
    ];
  }

  async #upload(file: File): Promise<void> {
    const bar = h("progress", { max: file.size, value: 0, "aria-label": r.items.uploading(file.name) });
    const stop = new AbortController();
    let begun = "";
    const cancel = act(
      r.items.cancel,
      "link",
      async () => {
        stop.abort();
        if (begun) await this.seat.client.call("transfers.cancel", { path: { transfer: begun } });
      },
      this.failed,
    );
    const row = h(
      "div",
      { class: "stack", role: "status" },
      h("p", { class: "muted" }, r.items.uploading(file.name)),
      bar,
      h("div", { class: "row" }, cancel),
    );
    this.#coming.append(row);
    try {
      const source = await uploadFile(this.seat.client, file, {
        onProgress: (sent) => (bar.value = sent),
        onBegun: (id) => (begun = id),
        signal: stop.signal,
      });
      const duration = await lasts((await this.seat.client.call("transfers.link", { path: { transfer: source } })).url);
      const body: RoomItemNew = {
        kind: "file",
        source,
        title: file.name.slice(0, 200),
        ...(duration > 0 && { duration }),
      };
      await this.seat.ask("/playlist", { method: "POST", body });
    } catch (err) {
      if (!stop.signal.aborted) throw err;
    } finally {
      row.remove();
    }
  }

  #row({ item, now, arrange, control, before, after }: Row): HTMLLIElement {
    const button = (text: string, shape: Parameters<typeof sign>[0], run: () => Promise<unknown>) => {
      const b = act("", "link", run, this.failed, text);
      b.className = "round";
      b.title = text;
      b.append(sign(shape));
      return b;
    };
    const move = (behind: string) => () =>
      this.seat.ask(`/playlist/${item.id}/move`, { method: "POST", body: behind ? { after: behind } : {} });
    const { title } = item;
    return h(
      "li",
      { class: "item", "data-item": item.id, "aria-current": now ? "true" : null },
      h(
        "div",
        { class: "item-text" },
        h("p", { class: "person-name" }, title),
        h(
          "p",
          { class: "muted" },
          [now && r.items.now, item.duration && clockOf(item.duration)].filter(Boolean).join(" · "),
          item.kind === "live" && h("span", { class: "badge" }, r.live.now),
        ),
      ),
      control && !now && button(r.items.put(title), "play", () => this.put(item.id)),
      arrange && before !== null && button(r.items.up(title), "up", move(before)),
      arrange && after !== "" && button(r.items.down(title), "down", move(after)),
      arrange &&
        button(r.items.remove(title), "cross", () => this.seat.ask(`/playlist/${item.id}`, { method: "DELETE" })),
    );
  }
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
