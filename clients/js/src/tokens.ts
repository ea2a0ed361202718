import { Ended, Refused, Unreachable } from "./errors.js";
import { exclusive } from "./locks.js";
import type { Tokens } from "./wire.js";

/**
 * Returns an access token other than `refused`, which is one that has expired or is about to.
 * It throws {@link Ended} when nobody is logged in any more; after any other error the client
 * asks again later.
 */
export type TokenSource = (refused?: string) => Promise<string>;

/** The part of the answer to a log-in that an app keeps. */
export type KeptTokens = Pick<Tokens, "access_token" | "refresh_token">;

export interface RefreshOptions {
  /** The server's address. */
  url: string;
  /** What is kept; null when nobody is logged in. It is called anew each time: another tab may have changed it. */
  load: () => KeptTokens | null | Promise<KeptTokens | null>;
  /** Keeps what the server gave, before it is used. A refresh token can be used once. */
  save: (tokens: Tokens) => void | Promise<void>;
  /** Another way than globalThis.fetch. */
  fetch?: typeof fetch;
}

/** Returns a source of tokens that renews them by `POST /v1/auth/refresh`, in one tab for all. */
export function refreshing(options: RefreshOptions): TokenSource {
  const present = async () => {
    const kept = await options.load();
    if (!kept) throw new Ended("Nobody is logged in.");
    return kept;
  };
  return async (refused) => {
    const kept = await present();
    if (kept.access_token !== refused) return kept.access_token;
    return exclusive("stoa.refresh", async () => {
      const kept = await present();
      if (kept.access_token !== refused) return kept.access_token; // somebody else was quicker
      let failed: unknown;
      const tokens = await renew(options, kept.refresh_token).catch((err: unknown) => void (failed = err));
      const now = await present();
      if (now.refresh_token !== kept.refresh_token) return now.access_token; // another log-in, which the answer is not for
      if (!tokens) throw failed;
      await options.save(tokens);
      return tokens.access_token;
    });
  };
}

const tries = 2; // of a renewal that may be waiting on a line that is dead, before the one that waits for as long as it takes
const tryFor = 3000; // ms

// The server answers a refresh token that is used again with the same tokens for ten seconds: an answer that got lost is asked
// for once more within them. Later it would be taken for a theft.
async function renew(options: RefreshOptions, refresh_token: string): Promise<Tokens> {
  for (let n = 0; n < tries; n++) {
    const signal = AbortSignal.timeout(tryFor);
    try {
      return await ask(options, refresh_token, signal);
    } catch (err) {
      if (!signal.aborted || !(err instanceof Unreachable)) throw err;
    }
  }
  return ask(options, refresh_token);
}

async function ask(options: RefreshOptions, refresh_token: string, signal?: AbortSignal): Promise<Tokens> {
  let answer: Response;
  try {
    answer = await (options.fetch ?? fetch)(new URL("/v1/auth/refresh", options.url), {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ refresh_token }),
      ...(signal && { signal }),
    });
    if (answer.ok) return (await answer.json()) as Tokens;
  } catch (err) {
    throw new Unreachable(String(err));
  }
  const problem = (await answer.json().catch(() => ({}))) as { code?: string; detail?: string };
  // 403: the account is banned, and detail says until when.
  if ((answer.status === 401 || answer.status === 403) && problem.code) throw new Ended(problem.detail ?? problem.code, problem.code);
  throw new Refused(answer.status, problem.code ?? "", problem.detail ?? answer.statusText);
}
