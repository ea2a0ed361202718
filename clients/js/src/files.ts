import type { StoaClient } from "./client.js";
import { busyFor, isTemporary, Refused, Unreachable } from "./errors.js";
import { newID } from "./outbox.js";
import type { FileLink, Media, Send, Sent } from "./wire.js";

export interface FileOptions {
  /** The name of the file. The default is the name of a File. */
  name?: string;
  /** Reports the bytes that the server has stored, and the size. */
  onProgress?: (sent: number, size: number) => void;
  /** Aborts the upload, which can be resumed later. */
  signal?: AbortSignal;
  /** The id of an earlier upload to resume, from onBegun. */
  resume?: string;
  /** Reports the id of the upload before its first byte is sent. Store it to resume later. */
  onBegun?: (id: string) => void;
}

export interface SendFileOptions extends FileOptions {
  kind?: "file" | "image" | "voice";
  /** A caption. */
  text?: string;
  /** Facts that the server cannot compute: alt; waveform and duration_ms of a recording. */
  media?: Pick<Media, "alt" | "waveform" | "duration_ms">;
  /** Identifies the message: a second send with the same id is the same message. */
  clientId?: string;
  replyTo?: number;
}

const slice = 4 << 20; // bytes of one request; the server stores those before a break
const tries = 6; // in a row without progress
const retryAfter = 500; // ms, the first wait
const longest = 60; // s, the longest retryAfter that is waited for; after that the caller gets the error
const lookEvery = 300; // ms between two checks whether the server has finished with a file

/**
 * Uploads a file for messages, from the server's offset on. It returns the file's id after the server has checked it.
 * After a break it resumes from the stored bytes.
 */
export async function uploadFile(client: StoaClient, file: Blob, options: FileOptions = {}): Promise<string> {
  const { signal } = options;
  let id = options.resume;
  if (!id) {
    const name = options.name ?? (file as File).name ?? "file";
    const key = newID();
    const body = JSON.stringify({ name, size: file.size, ...(file.type && { type: file.type }) });
    const begun = await again(signal, () =>
      json(client, "/v1/transfers", {
        method: "POST",
        body,
        headers: { "Content-Type": "application/json", "Idempotency-Key": key },
      }),
    );
    id = begun.id;
    options.onBegun?.(id);
  }
  const path = `/v1/transfers/${id}/upload`;
  const tus = { "Tus-Resumable": "1.0.0" };
  for (let at = -1, most = 0, failed = 0, pause = retryAfter; at < file.size;) {
    try {
      if (at < 0)
        at = standsAt(await client.request(path, { method: "HEAD", headers: tus, ...(signal && { signal }) }));
      else {
        const headers = { ...tus, "Content-Type": "application/offset+octet-stream", "Upload-Offset": String(at) };
        at = standsAt(
          await client.request(path, {
            method: "PATCH",
            headers,
            body: file.slice(at, at + slice),
            ...(signal && { signal }),
          }),
        );
      }
      if (at > most) [most, failed, pause] = [at, 0, retryAfter];
      options.onProgress?.(at, file.size);
    } catch (err) {
      const elsewhere = err instanceof Refused && (err.code === "transfer.offset" || err.code === "transfer.cut");
      if (signal?.aborted || !(elsewhere || isTemporary(err)) || ++failed >= tries) throw err;
      at = -1; // ask for the offset
      await wait(pauseAfter(pause, err), signal);
      pause *= 2;
    }
  }
  for (;;) {
    const { status, reason } = await again(signal, () => json(client, `/v1/transfers/${id}`, {}));
    if (status === "done") return id;
    if (status === "failed") throw new Refused(409, "transfer.failed", reason ?? "The upload has failed.");
    await wait(lookEvery, signal);
  }
}

/** Uploads a file and sends it to a chat. When it returns, the message is durable. */
export async function sendFile(
  client: StoaClient,
  chat: string,
  file: Blob,
  options: SendFileOptions = {},
): Promise<Sent> {
  const id = await uploadFile(client, file, options);
  const body: Send = {
    client_id: options.clientId ?? newID(),
    kind: options.kind ?? "file",
    media: { ...options.media, file: id },
    ...(options.text && { text: options.text }),
    ...(options.replyTo && { reply_to: options.replyTo }),
  };
  return again(options.signal, () => client.call("chats.send", { path: { chat }, body }));
}

/**
 * Returns a link to the file of a message, or to its thumbnail with the given side. It is valid for some minutes and
 * needs no token. `client.at` turns it into an address for an image, a player or a download. On another origin than the
 * server's, an image or a player needs `crossOrigin = "anonymous"`.
 */
export async function fileLink(client: StoaClient, chat: string, seq: number, side = 0): Promise<FileLink> {
  return client.call("chats.file", { path: { chat, seq }, query: { side } });
}

/** Loads the bytes of a message's file, or of its thumbnail with the given side, from a byte on. */
export async function fetchFile(
  client: StoaClient,
  chat: string,
  seq: number,
  options: { side?: number; from?: number; signal?: AbortSignal } = {},
): Promise<Response> {
  const { side = 0, from = 0, signal } = options;
  const { url } = await fileLink(client, chat, seq, side);
  const answer = await client.request(url, {
    headers: from > 0 ? { Range: `bytes=${from}-` } : {},
    ...(signal && { signal }),
  });
  if (from > 0 && answer.status !== 206) throw new Unreachable("The server does not go on from there.");
  return answer;
}

interface Upload {
  id: string;
  status: string;
  reason?: string;
}

async function json(client: StoaClient, path: string, init: RequestInit): Promise<Upload> {
  return (await client.request(path, init)).json() as Promise<Upload>;
}

function standsAt(answer: Response): number {
  const at = Number(answer.headers.get("Upload-Offset") ?? NaN);
  if (!Number.isSafeInteger(at)) throw new Unreachable("The server does not say where the upload stands.");
  return at;
}

// again calls fn until it succeeds, fails for good, or fails too often. It retries for busyFor while an earlier try may
// still run.
async function again<T>(signal: AbortSignal | undefined, fn: () => Promise<T>): Promise<T> {
  const began = Date.now();
  for (let n = 1, pause = retryAfter; ; n++, pause *= 2) {
    try {
      return await fn();
    } catch (err) {
      if (signal?.aborted || !isTemporary(err)) throw err;
      if (err instanceof Refused && err.code === "idempotency.busy" && Date.now() - began < busyFor) {
        await wait(pauseAfter(retryAfter, err), signal);
        n--;
        continue;
      }
      if (n >= tries || isForCaller(err, n)) throw err;
      await wait(pauseAfter(pause, err), signal);
    }
  }
}

// isForCaller reports whether a short wait cannot end the refusal. Either the server asks for a long wait, or it
// refuses the second try because the user has too many unfinished transfers.
function isForCaller(err: unknown, n: number): boolean {
  return err instanceof Refused && (err.retryAfter > longest || (err.code === "transfer.open" && n > 1));
}

// pauseAfter returns the wait before a retry, at least the server's retryAfter. Jitter spreads uploads that break
// together.
function pauseAfter(pause: number, err: unknown): number {
  return Math.max(pause * (0.5 + Math.random() / 2), err instanceof Refused ? err.retryAfter * 1000 : 0);
}

function wait(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((done, fail) => {
    signal?.throwIfAborted();
    const stop = () => {
      clearTimeout(timer);
      fail(signal?.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      done();
    }, ms);
    signal?.addEventListener("abort", stop, { once: true });
  });
}
