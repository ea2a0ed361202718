/**
 * The time in ms for retries of a call with a `key` while the server returns idempotency.busy. It is longer than the
 * claim of a dead node.
 */
export const busyFor = 35_000;

/** The server refused a request. `code` is stable, such as "message.refused"; `detail` is for people. */
export class Refused extends Error {
  override readonly name = "Refused";
  constructor(
    /** The HTTP status. */
    readonly status: number,
    readonly code: string,
    readonly detail: string,
    /** Seconds to wait before a retry; 0 if the server states none. */
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
 * No response arrived, so the outcome is unknown. With the same `key` (or `client_id`, for messages), a retry is safe:
 * the server carries it out once.
 */
export class Unreachable extends Error {
  override readonly name = "Unreachable";
}

/** The session has ended, or there was none. The user has to log in. */
export class Ended extends Error {
  override readonly name = "Ended";
  constructor(
    message: string,
    /** The code of the server's refusal, such as "account.banned"; "" if the server was not asked. */
    readonly code = "",
  ) {
    super(message);
  }
}

/** Whether the same call may succeed later. */
export function isTemporary(err: unknown): boolean {
  return err instanceof Unreachable || (err instanceof Refused && err.temporary);
}

// The protocol's own errors have no code of Stoa's. These are their status and code as a refusal.
const protocol: Record<number, [number, string]> = {
  100: [500, "internal"],
  104: [404, "operation.unknown"],
  106: [429, "rate.limited"],
  107: [400, "request.malformed"],
  108: [404, "operation.unknown"],
  111: [429, "rate.limited"],
};

/** Converts an error of the library centrifuge. */
export function fromWire(err: { code?: number; message?: string }): Refused | Unreachable {
  const code = err.code ?? 0;
  const message = err.message ?? String(err);
  if (code < 400) {
    const known = protocol[code];
    return known ? new Refused(known[0], known[1], message) : new Unreachable(message);
  }
  const colon = message.indexOf(": ");
  const after = / Retry after (\d+) s\.$/.exec(message);
  return new Refused(
    code,
    message.slice(0, colon < 0 ? undefined : colon),
    colon < 0 ? "" : message.slice(colon + 2),
    Number(after?.[1] ?? 0),
  );
}
