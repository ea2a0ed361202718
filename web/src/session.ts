// The session of this device. The tokens are in localStorage, so that all tabs share one session. One tab refreshes
// them for all.

import {
  Ended,
  Refused as NotRenewed,
  refreshing,
  Unreachable as NoAnswer,
  type Tokens,
  type User,
} from "@stoa-dev/client";
import { Refused, send, Unreachable, type Call } from "./api";
import { storage } from "./storage";
import { t } from "./texts";

/** Thrown to callers when the session has ended; the page has then already changed. */
export { Ended };

const STORE = "stoa.session";

interface Stored {
  access: string;
  refresh: string;
  user: User;
  device: string;
}

let onEnd: (reason: string) => void = () => {};

/** Calls fn when the session ends, except by a log-out on this tab. */
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

/** The last known state of the user, or null if no user is logged in. */
export const user = (): User | null => load()?.user ?? null;

/** The id of this device's session; "" if no user is logged in. */
export const device = (): string => load()?.device ?? "";

/** Stores the response of a log-in or a registration. */
export function begin(t: Tokens): void {
  save({ access: t.access_token, refresh: t.refresh_token, user: t.user, device: t.device });
}

/** Stores a newer state of the user, unless another user is already logged in. */
export function setUser(u: User): void {
  const s = load();
  if (s?.user.id === u.id) save({ ...s, user: u });
}

const save = (s: Stored) => storage.setItem(STORE, JSON.stringify(s));

/** Deletes the tokens of this device. */
export const forget = () => storage.removeItem(STORE);

/** Sends a request as the logged-in user. It refreshes an expired token. */
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
    if (err instanceof NotRenewed)
      throw new Refused({ type: "about:blank", title: err.detail, status: err.status, code: err.code }, err.retryAfter);
    throw err;
  });
  const another = () => mine.device !== device();
  if (another()) throw new Ended(""); // another user is already logged in: the response is not for them
  try {
    return await send(path, { ...call, token: fresh });
  } catch (err) {
    if (!(err instanceof Refused) || err.problem.code !== "auth.token_invalid") throw err;
    if (another()) throw new Ended("");
    return ended(t.frame.outHere);
  }
}

/** authed, with the JSON body of the response. */
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

/**
 * Returns an access token other than the refused one. One tab renews it for all. The errors are those of
 * @stoa-dev/client.
 */
export async function token(refused?: string): Promise<string> {
  try {
    return await renewed(refused);
  } catch (err) {
    // Only a refusal ends the session; an unavailable server may still have it. For a ban, the server states its end.
    if (err instanceof Ended)
      return ended(err.code === "" ? "" : err.code === "account.banned" ? err.message : t.frame.outHere);
    throw err;
  }
}

function ended(reason: string): never {
  end(reason);
  throw new Ended("The session has ended.");
}

/** Deletes the tokens, and shows the reason on the page. */
export function end(reason: string): void {
  forget();
  onEnd(reason);
}
