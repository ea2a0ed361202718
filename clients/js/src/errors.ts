/** The time in ms for which a call with a `key` is repeated while the server answers idempotency.busy: longer than the claim of a node that has died. */
export const busyFor = 35_000;

/** The server refused. `code` is stable, such as "message.refused"; `detail` is for people. */
export class Refused extends Error {
  override readonly name = "Refused";
  constructor(
    /** HTTP's status. */
    readonly status: number,
    readonly code: string,
    readonly detail: string,
    /** Seconds after which to try again; 0 when the server did not say. */
    readonly retryAfter = 0,
  ) {
    super(`${code}: ${detail}`);
  }

  /** Whether the same call may succeed later. */
  get temporary(): boolean {
    return this.status === 429 || this.status >= 500 || this.code === "idempotency.busy";
  }
}

/**
 * No answer came. Nobody knows whether the call was carried out: with the same `key` (or
 * `client_id`, for messages) it is carried out once, however often it is called.
 */
export class Unreachable extends Error {
  override readonly name = "Unreachable";
}

/** The session is over, or was never there: somebody has to log in. */
export class Ended extends Error {
  override readonly name = "Ended";
  constructor(
    message: string,
    /** The code of the server's refusal, such as "account.banned"; "" when it was not asked. */
    readonly code = "",
  ) {
    super(message);
  }
}

/** Whether the same call may succeed later. */
export function isTemporary(err: unknown): boolean {
  return err instanceof Unreachable || (err instanceof Refused && err.temporary);
}

// What the protocol's own errors, which have no code of Stoa's, are as a refusal.
const protocol: Record<number, [number, string]> = {
  100: [500, "internal"],
  104: [404, "operation.unknown"],
  106: [429, "rate.limited"],
  107: [400, "request.malformed"],
  108: [404, "operation.unknown"],
  111: [429, "rate.limited"],
};

/** What an error of the library centrifuge is to a caller. */
export function fromWire(err: { code?: number; message?: string }): Refused | Unreachable {
  const code = err.code ?? 0;
  const message = err.message ?? String(err);
  if (code < 400) {
    const known = protocol[code];
    return known ? new Refused(known[0], known[1], message) : new Unreachable(message);
  }
  const colon = message.indexOf(": ");
  const after = / Retry after (\d+) s\.$/.exec(message);
  return new Refused(code, message.slice(0, colon < 0 ? undefined : colon), colon < 0 ? "" : message.slice(colon + 2), Number(after?.[1] ?? 0));
}
