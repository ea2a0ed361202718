// The calls of the HTTP interface. The types of their bodies are those of @stoa-dev/client, which are generated.

import type { Problem as KnownProblem, Server } from "@stoa-dev/client";
import { t } from "./texts";

/** A problem document. A newer server, or a proxy, may send other codes than those of the client. */
export type Problem = Omit<KnownProblem, "code"> & { code: string };

export type BoardName = "streak" | "total_days" | "week" | "month";

/** A mail in the development outbox, GET /dev/mail.json. */
export interface Mail {
  to: string;
  subject: string;
  text: string;
  at: string;
  code: string;
}

/** A refusal by the server. */
export class Refused extends Error {
  constructor(
    readonly problem: Problem,
    readonly retryAfter: number, // seconds; 0 if the server states none
  ) {
    super(problem.detail || problem.title);
  }
}

/** The server is unreachable, or another program responded. */
export class Unreachable extends Error {
  constructor() {
    super(t.frame.unreachable);
  }
}

let skew = 0;

/** The server's time in ms: the clock of this device, corrected by the last response. */
export const now = () => Date.now() + skew;

function learnTime(res: Response): void {
  const date = Date.parse(res.headers.get("Date") ?? "");
  if (Number.isNaN(date)) return;
  // The header has whole seconds, so only a larger difference counts.
  const off = date + 500 - Date.now();
  skew = Math.abs(off) > 2000 ? off : 0;
}

export interface Call {
  method?: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  body?: unknown; // a Blob is sent unchanged, with its media type; other values as JSON
  token?: string;
  signal?: AbortSignal;
  accept?: string;
  once?: boolean; // no Idempotency-Key and no retry
}

// Pauses before the second and third try, in milliseconds.
const again = [400, 1600];

// The time in ms for retries of a write while its first try may still run. It is longer than the claim of a dead node.
const BUSY_FOR = 35_000;

/**
 * Sends one request. Another status than 2xx throws Refused; no response throws Unreachable. Without a response it
 * retries. That is safe: a read changes nothing, and a write has a key, so that the server recognises the retry.
 */
export async function send(path: string, call: Call = {}): Promise<Response> {
  const method = call.method ?? "GET";
  const headers: Record<string, string> = { Accept: call.accept ?? "application/json", "Accept-Language": t.locale };
  const raw = call.body instanceof Blob ? call.body : undefined;
  if (call.body !== undefined)
    headers["Content-Type"] = raw ? raw.type || "application/octet-stream" : "application/json";
  if (call.token) headers["Authorization"] = `Bearer ${call.token}`;
  if (method !== "GET" && !call.once) headers["Idempotency-Key"] = key();
  const init: RequestInit = { method, headers, cache: "no-store" };
  if (call.body !== undefined) init.body = raw ?? JSON.stringify(call.body);
  if (call.signal) init.signal = call.signal;

  const began = performance.now();
  for (let tries = 0; ;) {
    const pause = call.once || !navigator.onLine ? undefined : again[tries];
    let res: Response;
    try {
      res = await fetch(path, init);
    } catch (err) {
      if (call.signal?.aborted) throw err;
      if (pause === undefined) throw new Unreachable();
      tries++;
      await new Promise((done) => setTimeout(done, pause));
      continue;
    }
    learnTime(res);
    if (res.ok) return res;
    const refused = await refusal(res);
    // An earlier try still runs, or its node is dead.
    if (
      !(refused instanceof Refused) ||
      refused.problem.code !== "idempotency.busy" ||
      call.once ||
      performance.now() - began > BUSY_FOR
    )
      throw refused;
    await new Promise((done) => setTimeout(done, Math.max(1, refused.retryAfter) * 1000));
    if (call.signal?.aborted) throw call.signal.reason;
  }
}

async function refusal(res: Response): Promise<Refused | Unreachable> {
  const after = Number(res.headers.get("Retry-After")) || 0;
  if ((res.headers.get("Content-Type") ?? "").startsWith("application/problem+json")) {
    return new Refused((await res.json()) as Problem, after);
  }
  if (res.status >= 502) return new Unreachable(); // a proxy responds for an unavailable server
  return new Refused({ type: "about:blank", title: res.statusText, status: res.status, code: "" }, after);
}

// key returns a new Idempotency-Key. randomUUID exists only in secure contexts; a phone that opens a development server
// by its IP address is not in one.
function key(): string {
  if (typeof crypto.randomUUID === "function") return crypto.randomUUID();
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");
}

/** The settings of the server. If it does not respond, the settings of most servers. */
export const server: Promise<Server> = send("/v1/server").then(
  async (res) => (await res.json()) as Server,
  () => ({ sign_in: "own", development: false }),
);

/** The newest mails to an address, or null if the development outbox does not respond. */
export async function outbox(to: string): Promise<Mail[] | null> {
  try {
    const res = await send(`/dev/mail.json?to=${encodeURIComponent(to)}`);
    return (await res.json()) as Mail[];
  } catch {
    return null;
  }
}
