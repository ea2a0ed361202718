// The wire types and the calls. The types mirror the Go package api (api/*.go): change both together.

import { t } from "./texts";

export interface Problem {
  type: string;
  title: string;
  status: number;
  detail?: string;
  code: string;
  errors?: { location: string; message: string }[];
}

export interface CodeRequest {
  email: string;
  purpose: "register" | "login" | "reset_password";
}

export interface CodeReply {
  expires_in: number;
}

export interface RegisterRequest {
  email: string;
  code: string;
  password?: string;
  name: string;
  zone?: string;
  device?: string;
}

export interface LoginRequest {
  email: string;
  password?: string;
  code?: string;
  device?: string;
}

export interface Tokens {
  access_token: string;
  refresh_token: string;
  expires_in: number;
  user: User;
  device: string;
  restored?: boolean;
}

export interface User {
  id: string;
  email: string;
  name: string;
  bio?: string;
  avatar?: string; // the picture's id
  zone: string;
  next_zone?: string;
  find_by_id: boolean;
  find_by_email: boolean;
  requests: boolean;
  on_boards: boolean;
  presence?: "friends" | "nobody"; // the users who see the presence of the user
  has_password: boolean;
  created: string;
  version: number; // grows with each change
}

export interface UserUpdate {
  name?: string;
  bio?: string;
  zone?: string;
  find_by_id?: boolean;
  find_by_email?: boolean;
  requests?: boolean;
  on_boards?: boolean;
}

export interface PasswordReset {
  email: string;
  code: string;
  password: string;
}

export interface PasswordChange {
  current?: string;
  code?: string;
  password: string;
}

export interface OwnCodeRequest {
  purpose: "set_password" | "leave_email";
}

export interface EmailUndo {
  token: string;
}

export interface EmailCodeRequest {
  email: string;
}

export interface EmailChange {
  email: string;
  code: string;
  password?: string;
  old_code?: string;
}

export interface AccountDeletion {
  password?: string;
}

export interface AccountDeleted {
  erased: string;
}

export interface Avatar {
  avatar: string;
}

/** An account for other users. */
export interface Profile {
  id: string;
  name: string;
  bio?: string;
  avatar?: string;
  deleted?: boolean;
}

export interface Profiles {
  users: Profile[];
}

export interface Card {
  token: string;
  url: string;
  expires_in: number; // seconds
}

export interface Session {
  device: string;
  name: string;
  agent?: string;
  ip: string;
  created: string;
  used: string;
  current: boolean;
}

export interface Sessions {
  sessions: Session[];
}

export interface FriendRequestNew {
  user?: string;
  card?: string;
  message?: string;
  source?: string;
  remark?: string;
  tag?: string;
}

export interface FriendRequest {
  id: string;
  from: Profile;
  to: Profile;
  message?: string;
  source?: string;
  state: "pending" | "accepted" | "refused" | "withdrawn" | "expired";
  created: string;
  expires: string;
}

export interface FriendRequestReply {
  request: FriendRequest;
  new: boolean;
}

export interface FriendRequests {
  requests: FriendRequest[];
  next?: string;
}

export interface FriendRequestAccept {
  remark?: string;
  tag?: string;
}

export interface Unread {
  unread: number;
  version?: number; // in events
}

export interface Friend {
  user: Profile;
  remark?: string;
  tag?: string;
  source?: string;
  streak?: number; // absent if the server cannot compute it now
  order: number;
  since: string;
  updated: string;
}

export interface Friends {
  friends: Friend[];
  next?: string;
  version: number;
}

export interface FriendChanges {
  changed: Friend[];
  removed: string[];
  version: number;
  more: boolean;
  reset: boolean;
}

export interface FriendUpdate {
  remark?: string;
  tag?: string;
  order?: number;
}

export interface Relation {
  user: string;
  friend: boolean;
  blocked: boolean;
  asks?: RelationRequest;
  asked?: RelationRequest;
}

export interface RelationRequest {
  id: string;
  message?: string;
}

export interface Relations {
  relations: Relation[];
}

export interface Block {
  user: Profile;
  since: string;
}

export interface Blocks {
  blocks: Block[];
  next?: string;
}

export interface CheckinRequest {
  words?: number;
  minutes?: number;
}

export interface CheckinStatus {
  day: string;
  today: boolean;
  yesterday: boolean;
  streak: number;
  longest: number;
  total: number;
  freezes?: number; // optional fields may be absent, because nodes are upgraded one by one
  freezes_used?: number;
}

export interface CheckinReply extends CheckinStatus {
  new: boolean;
  at: string;
}

export interface Calendar {
  year: number;
  month?: number;
  days: string[];
  covered: string[];
}

export interface CheckinStats {
  streak: number;
  longest: number;
  total: number;
  words: number;
  minutes: number;
  freezes: number;
  freezes_used: number;
  names?: { words: string; minutes: string };
}

export interface MakeupRequest {
  day: string;
}

export interface Makeup {
  day: string;
  at: string;
}

export interface MakeupReply {
  made_up: Makeup;
  left: number;
  status: CheckinStatus;
}

export interface Makeups {
  left: number;
  limit: number; // 0: disabled
  days: string[]; // missed, and recent enough for a make-up
  history: Makeup[]; // newest first
  next?: string;
}

export type BoardName = "streak" | "total_days" | "week" | "month";

export interface BoardRow {
  rank: number;
  user?: string;
  name?: string;
  avatar?: string;
  value: number;
}

export interface Board {
  board: BoardName;
  season?: string; // "2026-W47" or "2026-11"; absent for an all-time board
  entries: BoardRow[];
  me?: BoardRow;
  around?: BoardRow[]; // the caller and the neighbours
}

export interface Event {
  type: string;
  time: string;
  data: unknown;
}

export interface Notice {
  kind: "password_changed" | "email_changed" | "deletion" | "restored";
  device?: string;
}

export interface SessionEnded {
  device: string;
}

/** The facts that a client needs before the log-in: GET /v1/server. */
export interface Server {
  sign_in: "own" | "jwt" | "both";
  development: boolean;
}

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
