import { Ended, Refused, Unreachable } from "./errors.js";
import { exclusive } from "./locks.js";
import type { Tokens } from "./wire.js";

/**
 * Returns an access token other than `refused`, which has expired or will soon expire. It throws {@link Ended} if there
 * is no session; after any other error the client retries.
 */
export type TokenSource = (refused?: string) => Promise<string>;

/** The part of a log-in response that an app stores. */
export type KeptTokens = Pick<Tokens, "access_token" | "refresh_token">;

export interface RefreshOptions {
  /** The server's address. */
  url: string;
  /**
   * Returns the stored tokens, or null if no user is logged in. It is called each time, because another tab may have
   * changed them.
   */
  load: () => KeptTokens | null | Promise<KeptTokens | null>;
  /** Stores the new tokens before they are used. Each refresh token works once. */
  save: (tokens: Tokens) => void | Promise<void>;
  /** Replaces globalThis.fetch. */
  fetch?: typeof fetch;
}

/** Returns a token source that renews tokens by `POST /v1/auth/refresh`, in one tab for all tabs. */
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
      if (kept.access_token !== refused) return kept.access_token; // another call or tab has renewed them
      let failed: unknown;
      const tokens = await renew(options, kept.refresh_token).catch((err: unknown) => void (failed = err));
      const now = await present();
      if (now.refresh_token !== kept.refresh_token) return now.access_token; // another log-in: the response does not belong to it
      if (!tokens) throw failed;
      await options.save(tokens);
      return tokens.access_token;
    });
  };
}

// tries with a timeout, because the connection may be dead; the next one waits without limit
const tries = 2;
const tryFor = 3000; // ms

// The server returns the same tokens for a used refresh token within ten seconds. So after a lost response, the request
// is repeated within them. A later repeat would count as theft.
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
  // 403: the account is banned, and detail states until when.
  if ((answer.status === 401 || answer.status === 403) && problem.code)
    throw new Ended(problem.detail ?? problem.code, problem.code);
  throw new Refused(answer.status, problem.code ?? "", problem.detail ?? answer.statusText);
}
