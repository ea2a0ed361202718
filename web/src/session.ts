// Who is logged in on this device. The tokens live in localStorage, so that all
// tabs share one session; a refresh is done by one tab for all of them.

import { Ended, Refused as NotRenewed, refreshing, Unreachable as NoAnswer } from "@stoa-dev/client";
import { Refused, send, Unreachable, type Call, type Tokens, type User } from "./api";
import { storage } from "./storage";
import { t } from "./texts";

/** Thrown to whoever asked for something when the session ended; the page has changed by then. */
export { Ended };

const STORE = "stoa.session";

interface Stored {
  access: string;
  refresh: string;
  user: User;
  device: string;
}

let onEnd: (reason: string) => void = () => {};

/** Calls fn when the session ends other than by log out on this tab. */
export function whenEnded(fn: (reason: string) => void): void {
  onEnd = fn;
  addEventListener("storage", (e) => {
    if (e.key !== STORE && e.key !== null) return;
    const before = parse(e.oldValue);
    const after = parse(storage.getItem(STORE));
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

const load = () => parse(storage.getItem(STORE));

/** The user as last seen, or null when nobody is logged in. */
export const user = (): User | null => load()?.user ?? null;

/** The id of this device's session; "" when nobody is logged in. */
export const device = (): string => load()?.device ?? "";

/** Keeps what a log-in or a registration answered. */
export function begin(t: Tokens): void {
  save({ access: t.access_token, refresh: t.refresh_token, user: t.user, device: t.device });
}

/** Keeps a newer view of the user, unless somebody else is logged in by now. */
export function setUser(u: User): void {
  const s = load();
  if (s?.user.id === u.id) save({ ...s, user: u });
}

const save = (s: Stored) => storage.setItem(STORE, JSON.stringify(s));

/** Forgets the tokens on this device. */
export const forget = () => storage.removeItem(STORE);

/** A request as the logged-in user; an expired token is refreshed on the way. */
export async function authed(path: string, call: Call = {}): Promise<Response> {
  const mine = load();
  if (!mine) return ended("");
  try {
    return await send(path, { ...call, token: mine.access });
  } catch (err) {
    // A wrong password is 401 as well, and no fault of the token.
    if (!(err instanceof Refused) || err.problem.code !== "auth.token_invalid") throw err;
  }
  const fresh = await token(mine.access).catch((err) => {
    if (err instanceof NoAnswer) throw new Unreachable();
    if (err instanceof NotRenewed) throw new Refused({ type: "about:blank", title: err.detail, status: err.status, code: err.code }, err.retryAfter);
    throw err;
  });
  const another = () => mine.device !== device();
  if (another()) throw new Ended(""); // somebody else is logged in by now: what was asked for is not for them
  try {
    return await send(path, { ...call, token: fresh });
  } catch (err) {
    if (!(err instanceof Refused) || err.problem.code !== "auth.token_invalid") throw err;
    if (another()) throw new Ended("");
    return ended(t.frame.outHere);
  }
}

/** authed, with the JSON body of the answer. */
export async function json<T>(path: string, call: Call = {}): Promise<T> {
  return (await (await authed(path, call)).json()) as T;
}

const renewed = refreshing({
  url: location.origin,
  load: () => {
    const s = load();
    return s && { access_token: s.access, refresh_token: s.refresh };
  },
  save: (got) => begin(got as Tokens),
  fetch: (url, init) => fetch(url, { ...init, headers: { ...init?.headers, "Accept-Language": t.locale } }),
});

/** An access token other than one that was refused. It is renewed by one tab for all. Its errors are those of @stoa-dev/client. */
export async function token(refused?: string): Promise<string> {
  try {
    return await renewed(refused);
  } catch (err) {
    // Only a refusal ends the session; an absent server may know it still. Of a ban the server says until when.
    if (err instanceof Ended) return ended(err.code === "" ? "" : err.code === "account.banned" ? err.message : t.frame.outHere);
    throw err;
  }
}

function ended(reason: string): never {
  end(reason);
  throw new Ended("The session has ended.");
}

/** Forgets the tokens, and has the page say why. */
export function end(reason: string): void {
  forget();
  onEnd(reason);
}
