// Who is logged in on this device. The tokens live in localStorage, so that all
// tabs share one session; a refresh is done by one tab for all of them.

import { Refused, send, type Call, type Tokens, type User } from "./api";
import { t } from "./texts";

const STORE = "stoa.session";

interface Stored {
  access: string;
  refresh: string;
  user: User;
  device: string;
}

let refreshing: Promise<Stored> | undefined;
let onEnd: (reason: string) => void = () => {};

/** Calls fn when the session ends other than by log out on this tab. */
export function whenEnded(fn: (reason: string) => void): void {
  onEnd = fn;
  addEventListener("storage", (e) => {
    if (e.key !== STORE && e.key !== null) return;
    const before = parse(e.oldValue);
    const after = parse(localStorage.getItem(STORE));
    if (before?.device !== after?.device) fn(after ? "" : t.frame.outInOtherTab);
  });
}

function parse(text: string | null): Stored | null {
  try {
    const s = JSON.parse(text ?? "null") as Stored | null;
    return s?.access && s.refresh && s.user?.id ? s : null;
  } catch {
    return null;
  }
}

const load = () => parse(localStorage.getItem(STORE));

/** The user as last seen, or null when nobody is logged in. */
export const user = (): User | null => load()?.user ?? null;

/** The id of this device's session; "" when nobody is logged in. */
export const device = (): string => load()?.device ?? "";

/** Keeps what a log-in or a registration answered. */
export function begin(t: Tokens): void {
  save({ access: t.access_token, refresh: t.refresh_token, user: t.user, device: t.device });
}

/** Keeps a newer view of the user. */
export function setUser(u: User): void {
  const s = load();
  if (s) save({ ...s, user: u });
}

const save = (s: Stored) => localStorage.setItem(STORE, JSON.stringify(s));

/** Forgets the tokens on this device. */
export const forget = () => localStorage.removeItem(STORE);

/** A request as the logged-in user; an expired token is refreshed on the way. */
export async function authed(path: string, call: Call = {}): Promise<Response> {
  const s = load();
  if (!s) return ended("");
  try {
    return await send(path, { ...call, token: s.access });
  } catch (err) {
    // A wrong password is 401 as well, and no fault of the token.
    if (!(err instanceof Refused) || err.problem.code !== "auth.token_invalid") throw err;
  }
  const fresh = await refresh(s.access);
  try {
    return await send(path, { ...call, token: fresh.access });
  } catch (err) {
    if (err instanceof Refused && err.problem.code === "auth.token_invalid") return ended(t.frame.outHere);
    throw err;
  }
}

/** authed, with the JSON body of the answer. */
export async function json<T>(path: string, call: Call = {}): Promise<T> {
  return (await (await authed(path, call)).json()) as T;
}

// refresh replaces the access token that was just refused. Within this tab the
// callers share one promise, between tabs a lock; whoever comes second finds the
// new token in the store.
function refresh(refused: string): Promise<Stored> {
  refreshing ??= locked(async () => {
    const s = load();
    if (!s) return ended("");
    if (s.access !== refused) return s;
    try {
      const res = await send("/v1/auth/refresh", { method: "POST", body: { refresh_token: s.refresh }, once: true });
      const t = (await res.json()) as Tokens;
      begin(t);
      return load()!;
    } catch (err) {
      // Only a refusal ends the session; an absent server may know it still.
      if (!(err instanceof Refused)) throw err;
      if (err.problem.status === 401) return ended(t.frame.outHere);
      if (err.problem.status === 403) return ended(err.message); // banned: the server says until when
      throw err;
    }
  }).finally(() => (refreshing = undefined));
  return refreshing;
}

function locked<T>(fn: () => Promise<T>): Promise<T> {
  return navigator.locks ? navigator.locks.request("stoa.refresh", fn) : fn();
}

function ended(reason: string): never {
  end(reason);
  throw new Ended();
}

/** Forgets the tokens, and has the page say why. */
export function end(reason: string): void {
  forget();
  onEnd(reason);
}

/** Thrown to whoever asked for something when the session ended; the page has changed by then. */
export class Ended extends Error {}
