// Files between users and files of messages: offers, progress, and the uploads of this tab.

import {
  isTemporary,
  Refused,
  sendFile,
  type Media,
  type StoaClient,
  type Transfer,
  Unreachable,
  type Problem,
} from "@stoa-dev/client";
import { Refused as ApiRefused, Unreachable as ApiUnreachable } from "../api";
import { authed, token } from "../session";
import { t } from "../texts";
import { Changes } from "./changes";

const PAGES = 5; // of transfers that are loaded
const RETRY = 1000; // ms, the first wait
const RETRY_MOST = 30_000;
const MOST = 64 << 20; // bytes of one request: some proxies allow at most 100 MB
const STILL = 60_000; // ms without a byte until a request counts as broken

interface Upload {
  file: File;
  running: boolean;
  sent: number; // bytes
  fault: unknown; // the error that stopped it
}

/** A file that is being uploaded for a message. */
export interface Sending {
  key: string; // the client_id of its message
  chat: string;
  file: File;
  kind: "image" | "voice" | "file";
  media: Pick<Media, "alt" | "waveform" | "duration_ms">;
  at: number; // the time of the choice, in ms since 1970
  sent: number; // bytes
  fault: unknown; // the error that stopped it
}

const PICTURES = ["image/png", "image/jpeg", "image/gif", "image/webp"];

// Without this check, the server would report a malformed request for an empty file.
const empty = () => new Refused(400, "transfer.size", "The file is empty.");

/** A request that was cut, or that has to be repeated from the server's offset. */
class Again extends Error {}

export class Files {
  #all = new Map<string, Transfer>();
  #uploads = new Map<string, Upload>(); // by transfer
  #sending = new Map<string, { of: Sending; stop: AbortController; upload: string | undefined }>();
  #wake = new EventTarget();
  #changes = new Changes();

  constructor(
    private readonly client: StoaClient,
    private readonly user: string,
  ) {
    client.on("open", ({ resumed }) => {
      this.#wake.dispatchEvent(new Event("wake"));
      if (!resumed) void this.#read();
    });
    client.on("transfer.updated", (t) => this.#take(t));
    client.on("transfer.progress", ({ id, received, percent, chunk }) => {
      const t = this.#all.get(id);
      if (t?.status === "transferring") this.#take({ ...t, received, percent, chunk });
    });
  }

  /** Subscribes the running component or effect to all changes. */
  track(): void {
    this.#changes.track();
  }

  /** Calls fn after every change, until signal aborts. */
  watch(fn: () => void, signal: AbortSignal): void {
    this.#changes.watch(fn, signal);
  }

  /** The files between the user and another, oldest first. */
  with(user: string): Transfer[] {
    this.#changes.track();
    return [...this.#all.values()]
      .filter((t) => t.from === user || t.to === user)
      .sort((a, b) => Date.parse(a.created) - Date.parse(b.created));
  }

  /** Offers of other users that wait for the user's answer. */
  offers(): Transfer[] {
    this.#changes.track();
    return [...this.#all.values()].filter((t) => t.to === this.user && t.status === "pending");
  }

  /** The state of an upload of this tab; undefined if this tab does not have the file. */
  upload(id: string): Readonly<Upload> | undefined {
    this.#changes.track();
    return this.#uploads.get(id);
  }

  async offer(to: string, file: File): Promise<void> {
    if (file.size === 0) throw empty();
    const t = await this.client.call("transfers.offer", {
      body: { to, name: file.name, size: file.size, ...(file.type && { type: file.type }) },
      key: crypto.getRandomValues(new Uint32Array(4)).join("-"),
    });
    this.#uploads.set(t.id, { file, running: false, sent: 0, fault: undefined });
    this.#take(t);
  }

  /** Uploads a file and sends it to a chat. Before the upload is complete, closing the page loses it. */
  send(
    chat: string,
    file: File,
    kind: Sending["kind"] = PICTURES.includes(file.type) ? "image" : "file",
    media: Sending["media"] = {},
  ): void {
    if (file.size === 0) throw empty();
    const key = crypto.getRandomValues(new Uint32Array(4)).join("-");
    const of: Sending = { key, chat, file, kind, media, at: Date.now(), sent: 0, fault: undefined };
    this.#sending.set(key, { of, stop: new AbortController(), upload: undefined });
    void this.#send(key);
  }

  /** The files that are being uploaded for a chat, in the order of choosing. */
  sending(chat: string): Sending[] {
    this.#changes.track();
    return [...this.#sending.values()].map(({ of }) => of).filter((of) => of.chat === chat);
  }

  /** Retries a file that failed. */
  sendAgain(key: string): void {
    const s = this.#sending.get(key);
    if (!s?.of.fault) return;
    s.of.fault = undefined;
    void this.#send(key);
  }

  /** Cancels a file that is being uploaded for a message. */
  async unsend(key: string): Promise<void> {
    const s = this.#sending.get(key);
    this.#sending.delete(key);
    s?.stop.abort();
    this.#changes.publish();
    if (s?.upload) await this.client.call("transfers.cancel", { path: { transfer: s.upload } });
  }

  async #send(key: string): Promise<void> {
    const s = this.#sending.get(key)!;
    const { of, stop, upload } = s;
    this.#changes.publish();
    try {
      await sendFile(this.client, of.chat, of.file, {
        ...{ kind: of.kind, media: of.media, name: of.file.name, clientId: key, signal: stop.signal },
        ...(upload && { resume: upload }),
        onBegun: (id) => (s.upload = id),
        onProgress: (sent) => {
          of.sent = sent;
          this.#changes.publish();
        },
      });
      this.#sending.delete(key);
    } catch (err) {
      if (!stop.signal.aborted) of.fault = err;
      if (err instanceof Refused && OVER.includes(err.code)) s.upload = undefined; // the next try is a new upload
    }
    this.#changes.publish();
  }

  /** Resumes an upload. It returns false if the file is not the offered one. */
  resume(id: string, file: File): boolean {
    const t = this.#all.get(id);
    if (!t || file.size !== t.size) return false;
    this.#uploads.set(id, { file, running: false, sent: t.received, fault: undefined });
    this.#take(t);
    return true;
  }

  async accept(id: string): Promise<void> {
    this.#take(await this.client.call("transfers.accept", { path: { transfer: id } }));
  }

  async reject(id: string): Promise<void> {
    this.#take(await this.client.call("transfers.reject", { path: { transfer: id } }));
  }

  /** Ends a transfer, or deletes the file of a completed one. */
  async cancel(id: string): Promise<void> {
    this.#take(await this.client.call("transfers.cancel", { path: { transfer: id } }));
  }

  /** Returns an address of the file that is valid for some minutes. */
  async link(id: string): Promise<string> {
    return (await this.client.call("transfers.link", { path: { transfer: id } })).url;
  }

  #take(t: Transfer): void {
    if (!t.to) return; // it is for a message
    const old = this.#all.get(t.id);
    if (old && Date.parse(old.updated) > Date.parse(t.updated)) return;
    this.#all.set(t.id, t);
    const up = this.#uploads.get(t.id);
    if (up && t.status === "transferring" && !up.running && !up.fault) void this.#run(t.id, up);
    if (up && t.status !== "transferring" && t.status !== "pending") {
      this.#uploads.delete(t.id);
      this.#wake.dispatchEvent(new Event("wake"));
    }
    this.#changes.publish();
  }

  async #read(): Promise<void> {
    try {
      for (let page = 0, cursor: string | undefined = ""; cursor !== undefined && page < PAGES; page++) {
        const got: { transfers: Transfer[]; next?: string } = await this.client.call(
          "transfers.list",
          cursor ? { query: { cursor } } : {},
        );
        for (const t of got.transfers) this.#take(t);
        cursor = got.next || undefined;
      }
    } catch (err) {
      if (isTemporary(err) && this.client.state === "online") setTimeout(() => void this.#read(), 3 * RETRY);
    }
  }

  // #run uploads the bytes that the server does not have, in as many requests as necessary.
  async #run(id: string, up: Upload): Promise<void> {
    up.running = true;
    try {
      for (let pause = RETRY; this.#uploads.get(id) === up;) {
        try {
          const stands = await authed(`/v1/transfers/${id}/upload`);
          const at = Number(stands.headers.get("Upload-Offset"));
          const t = (await stands.json()) as Transfer;
          this.#take(t);
          if (t.status !== "transferring" || at >= up.file.size) return;
          if (at > up.sent) pause = RETRY; // there was progress
          up.sent = at;
          await this.#put(id, up, at);
        } catch (err) {
          if (!retryable(err)) throw err;
          const wanted = err instanceof ApiRefused ? err.retryAfter * 1000 : 0;
          await this.#pause(Math.max(wanted, pause * (0.5 + Math.random() / 2)));
          pause = Math.min(RETRY_MOST, 2 * pause);
        }
      }
    } catch (err) {
      up.fault = err;
    } finally {
      up.running = false;
      this.#changes.publish();
    }
  }

  async #put(id: string, up: Upload, from: number): Promise<void> {
    const access = await token();
    const request = new XMLHttpRequest(); // fetch does not report the progress of a body
    await new Promise<void>((done, fail) => {
      let still: ReturnType<typeof setTimeout>;
      const alive = () => {
        clearTimeout(still);
        still = setTimeout(() => request.abort(), STILL);
      };
      request.upload.onprogress = ({ loaded }) => {
        up.sent = from + loaded;
        if (this.#uploads.get(id) !== up) request.abort(); // it was cancelled
        alive();
        this.#changes.publish();
      };
      request.onloadend = () => {
        clearTimeout(still);
        if (request.status === 204) return done();
        if (request.status === 401) return void token(access).then(() => fail(new Again()), fail);
        fail(refusal(request));
      };
      request.open("PATCH", `/v1/transfers/${id}/upload`);
      request.setRequestHeader("Authorization", `Bearer ${access}`);
      request.setRequestHeader("Accept-Language", t.locale);
      request.setRequestHeader("Content-Type", "application/offset+octet-stream");
      request.setRequestHeader("Tus-Resumable", "1.0.0");
      request.setRequestHeader("Upload-Offset", String(from));
      request.send(up.file.slice(from, from + MOST));
      alive();
    });
  }

  #pause(ms: number): Promise<void> {
    return new Promise((done) => {
      const go = () => {
        clearTimeout(timer);
        this.#wake.removeEventListener("wake", go);
        done();
      };
      const timer = setTimeout(go, ms);
      this.#wake.addEventListener("wake", go);
    });
  }
}

// Codes of uploads that cannot be resumed.
const OVER = ["transfer.failed", "transfer.ended", "transfer.gone", "transfer.unknown"];

// Codes that require the server's offset.
const AGAIN = ["transfer.offset", "transfer.cut", "transfer.not_accepted"];

function retryable(err: unknown): boolean {
  if (err instanceof ApiRefused)
    return err.problem.status === 429 || err.problem.status >= 500 || AGAIN.includes(err.problem.code);
  return (
    err instanceof Again ||
    err instanceof ApiUnreachable ||
    err instanceof Unreachable ||
    (err instanceof Refused && err.temporary)
  );
}

function refusal(request: XMLHttpRequest): Error {
  try {
    return new ApiRefused(
      JSON.parse(request.responseText) as Problem,
      Number(request.getResponseHeader("Retry-After")) || 0,
    );
  } catch {
    return new Again(); // the connection was cut, or a proxy responded
  }
}
