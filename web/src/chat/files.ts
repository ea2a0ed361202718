// Files between users: what is offered, how far it has come, and the uploads of this tab.

import { isTemporary, Refused, sendFile, type Media, type StoaClient, type Transfer, Unreachable } from "@stoa-dev/client";
import { Refused as Answered, Unreachable as NoAnswer, type Problem } from "../api";
import { authed, token } from "../session";
import { t } from "../texts";

const PAGES = 5; // of transfers that are looked at
const RETRY = 1000; // ms, at first
const RETRY_MOST = 30_000;
const MOST = 64 << 20; // bytes of one request: proxies on the way may take 100 MB at most
const STILL = 60_000; // ms without a byte after which a request has lost its line

interface Upload {
  file: File;
  running: boolean;
  sent: number; // bytes
  fault: unknown; // why it does not go on by itself
}

/** A file on its way into a message. */
export interface Sending {
  key: string; // the client_id of its message
  chat: string;
  file: File;
  kind: "image" | "voice" | "file";
  media: Pick<Media, "alt" | "waveform" | "duration_ms">;
  at: number; // when it was chosen, in ms since 1970
  sent: number; // bytes
  fault: unknown; // why it does not go on by itself
}

const PICTURES = ["image/png", "image/jpeg", "image/gif", "image/webp"];

// The server would call the request malformed.
const empty = () => new Refused(400, "transfer.size", "The file is empty.");

/** A request whose line was cut, or that is to be made anew from where the server stands. */
class Again extends Error {}

export class Files {
  #all = new Map<string, Transfer>();
  #uploads = new Map<string, Upload>(); // by transfer
  #sending = new Map<string, { of: Sending; stop: AbortController; upload: string | undefined }>();
  #wake = new EventTarget();
  #changed = new EventTarget();

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

  /** Calls fn after every change, until signal aborts. */
  watch(fn: () => void, signal: AbortSignal): void {
    this.#changed.addEventListener("change", fn, { signal });
  }

  /** The files between the user and another, the oldest first. */
  with(user: string): Transfer[] {
    return [...this.#all.values()].filter((t) => t.from === user || t.to === user).sort((a, b) => Date.parse(a.created) - Date.parse(b.created));
  }

  /** What others offer that the user has not answered. */
  offers(): Transfer[] {
    return [...this.#all.values()].filter((t) => t.to === this.user && t.status === "pending");
  }

  /** How an upload of this tab stands; undefined where this tab does not have the file. */
  upload(id: string): Readonly<Upload> | undefined {
    return this.#uploads.get(id);
  }

  async offer(to: string, file: File): Promise<void> {
    if (file.size === 0) throw empty();
    const t = await this.client.call("transfers.offer", { body: { to, name: file.name, size: file.size, ...(file.type && { type: file.type }) }, key: crypto.getRandomValues(new Uint32Array(4)).join("-") });
    this.#uploads.set(t.id, { file, running: false, sent: 0, fault: undefined });
    this.#take(t);
  }

  /** Uploads a file and sends it to a chat. It is lost with the page until it is uploaded. */
  send(chat: string, file: File, kind: Sending["kind"] = PICTURES.includes(file.type) ? "image" : "file", media: Sending["media"] = {}): void {
    if (file.size === 0) throw empty();
    const key = crypto.getRandomValues(new Uint32Array(4)).join("-");
    const of: Sending = { key, chat, file, kind, media, at: Date.now(), sent: 0, fault: undefined };
    this.#sending.set(key, { of, stop: new AbortController(), upload: undefined });
    void this.#send(key);
  }

  /** What is on its way into messages of a chat, in the order of choosing. */
  sending(chat: string): Sending[] {
    return [...this.#sending.values()].map(({ of }) => of).filter((of) => of.chat === chat);
  }

  /** Goes on with a file that did not get into its message. */
  sendAgain(key: string): void {
    const s = this.#sending.get(key);
    if (!s?.of.fault) return;
    s.of.fault = undefined;
    void this.#send(key);
  }

  /** Gives up a file on its way into a message. */
  async unsend(key: string): Promise<void> {
    const s = this.#sending.get(key);
    this.#sending.delete(key);
    s?.stop.abort();
    this.#tell();
    if (s?.upload) await this.client.call("transfers.cancel", { path: { transfer: s.upload } });
  }

  async #send(key: string): Promise<void> {
    const s = this.#sending.get(key)!;
    const { of, stop, upload } = s;
    this.#tell();
    try {
      await sendFile(this.client, of.chat, of.file, {
        ...{ kind: of.kind, media: of.media, name: of.file.name, clientId: key, signal: stop.signal },
        ...(upload && { resume: upload }),
        onBegun: (id) => (s.upload = id),
        onProgress: (sent) => {
          of.sent = sent;
          this.#tell();
        },
      });
      this.#sending.delete(key);
    } catch (err) {
      if (!stop.signal.aborted) of.fault = err;
      if (err instanceof Refused && OVER.includes(err.code)) s.upload = undefined; // the next try begins anew
    }
    this.#tell();
  }

  /** Goes on with an upload; false when it is another file than the one that was offered. */
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

  /** Ends a transfer, or removes the file of one that is done. */
  async cancel(id: string): Promise<void> {
    this.#take(await this.client.call("transfers.cancel", { path: { transfer: id } }));
  }

  /** An address from which the file can be fetched for some minutes. */
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
    this.#tell();
  }

  async #read(): Promise<void> {
    try {
      for (let page = 0, cursor: string | undefined = ""; cursor !== undefined && page < PAGES; page++) {
        const got: { transfers: Transfer[]; next?: string } = await this.client.call("transfers.list", cursor ? { query: { cursor } } : {});
        for (const t of got.transfers) this.#take(t);
        cursor = got.next || undefined;
      }
    } catch (err) {
      if (isTemporary(err) && this.client.state === "online") setTimeout(() => void this.#read(), 3 * RETRY);
    }
  }

  // #run uploads what the server does not have, in as many requests as it takes.
  async #run(id: string, up: Upload): Promise<void> {
    up.running = true;
    try {
      for (let pause = RETRY; this.#uploads.get(id) === up; ) {
        try {
          const stands = await authed(`/v1/transfers/${id}/upload`);
          const at = Number(stands.headers.get("Upload-Offset"));
          const t = (await stands.json()) as Transfer;
          this.#take(t);
          if (t.status !== "transferring" || at >= up.file.size) return;
          if (at > up.sent) pause = RETRY; // it gets on
          up.sent = at;
          await this.#put(id, up, at);
        } catch (err) {
          if (!lost(err)) throw err;
          const wanted = err instanceof Answered ? err.retryAfter * 1000 : 0;
          await this.#pause(Math.max(wanted, pause * (0.5 + Math.random() / 2)));
          pause = Math.min(RETRY_MOST, 2 * pause);
        }
      }
    } catch (err) {
      up.fault = err;
    } finally {
      up.running = false;
      this.#tell();
    }
  }

  async #put(id: string, up: Upload, from: number): Promise<void> {
    const access = await token();
    const request = new XMLHttpRequest(); // fetch does not tell how much of a body has gone
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
        this.#tell();
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

  #tell(): void {
    this.#changed.dispatchEvent(new Event("change"));
  }
}

// Codes of an upload that cannot be gone on with.
const OVER = ["transfer.failed", "transfer.ended", "transfer.gone", "transfer.unknown"];

// Codes after which the server is asked where the upload stands.
const AGAIN = ["transfer.offset", "transfer.cut", "transfer.not_accepted"];

function lost(err: unknown): boolean {
  if (err instanceof Answered) return err.problem.status === 429 || err.problem.status >= 500 || AGAIN.includes(err.problem.code);
  return err instanceof Again || err instanceof NoAnswer || err instanceof Unreachable || (err instanceof Refused && err.temporary);
}

function refusal(request: XMLHttpRequest): Error {
  try {
    return new Answered(JSON.parse(request.responseText) as Problem, Number(request.getResponseHeader("Retry-After")) || 0);
  } catch {
    return new Again(); // the line was cut, or a proxy spoke
  }
}
