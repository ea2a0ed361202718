import { Centrifuge, UnauthorizedError, type Options, type TransportEndpoint } from "centrifuge";
import { Emitter } from "./emitter.js";
import { Ended, fromWire, Refused, Unreachable } from "./errors.js";
import { openStorage, type Storage } from "./storage.js";
import type { TokenSource } from "./tokens.js";
import type { EventCatalogue, operations } from "./wire.js";

/** The code of the server's close when the session has ended. */
export const SESSION_ENDED = 4500;

// The timeout of a call in ms. A server takes up to 5.3 s for most operations.
const answerTime = 10_000;

// Codes that end the session, or that report a token of another session. Code 1 is that of getToken after it has thrown
// Ended.
const sessionOver = [1, 3500, SESSION_ENDED];

// The server closes a connection with this code if the connect command arrives too late, for example because the device
// slept. The library would not connect again.
const STALE = 3502;

/**
 * - offline: there is no connection; the client reconnects unless disconnect was called
 * - connecting: the first try runs
 * - online: the client sends calls and receives events
 * - ended: the session has ended, or the server refuses this client; there are no more tries
 */
export type State = "offline" | "connecting" | "online" | "ended";

/** An event of the server. */
export interface StoaEvent<T = unknown> {
  type: string;
  time: string;
  data: T;
}

/** The client's own events, in addition to the server's. */
export interface ClientEvents {
  state: { state: State; code: number; reason: string };
  /**
   * The connection is ready. With `resumed`, every event since the last one follows, in order. Without it, events may
   * be missing: load the present state now.
   */
  open: { resumed: boolean };
  /** Every event, of any type. */
  event: StoaEvent;
}

export interface StoaOptions {
  /** The server's address, such as `https://stoa.example.org`. */
  url: string;
  /** See {@link TokenSource}; `refreshing` creates one. */
  getToken: TokenSource;
  /** Stores the outbox. The default is IndexedDB, if available. */
  storage?: Storage;
  /** In the order of the tries. */
  transports?: ("websocket" | "http_stream")[];
  /** Options of the library centrifuge, such as `websocket` if there is no global one. */
  wire?: Partial<Omit<Options, "token" | "getToken" | "emulationEndpoint">>;
}

type Part<T, K extends string> = T extends { [P in K]: infer V }
  ? { [P in K]: V }
  : T extends { [P in K]?: infer V }
    ? [NonNullable<V>] extends [never]
      ? unknown
      : { [P in K]?: V }
    : unknown;
type Body<T> = T extends { requestBody: { content: { "application/json": infer B } } } ? { body: B } : unknown;

/** The input of an operation. */
export type Input<O extends keyof operations> = Part<operations[O]["parameters"], "path"> &
  Part<operations[O]["parameters"], "query"> &
  Body<operations[O]> & {
    /**
     * An Idempotency-Key. If a user is logged in, a write with a key is carried out once in 24 hours, even if it is
     * called again.
     */
    key?: string;
  };

type Responses<O extends keyof operations> = operations[O]["responses"];

/** The response of an operation. */
export type Answer<O extends keyof operations> = Responses<O>[keyof Responses<O>] extends infer R
  ? R extends { content: { "application/json": infer A } }
    ? A
    : never
  : never;

/** A connection to a Stoa server. It reconnects after each break. */
export class StoaClient extends Emitter<EventCatalogue & ClientEvents> {
  /** The id of the connected user; "" before the first connection. */
  user = "";
  /** The id of the device's session; "" before the first connection. */
  device = "";
  readonly storage: Promise<Storage>;

  private current: State = "offline";
  private over = false; // it has ended, and the session with it
  private token: string | undefined;
  private readonly url: string;
  private readonly getToken: TokenSource;
  private readonly wire: Centrifuge;
  private retry: ReturnType<typeof setTimeout> | undefined; // connects again after STALE

  constructor(options: StoaOptions) {
    super();
    this.url = options.url;
    this.getToken = options.getToken;
    this.storage = options.storage ? Promise.resolve(options.storage) : openStorage();
    const at = (path: string, scheme: string) => {
      const url = new URL(path, options.url);
      if (scheme === "ws") url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
      return url.href;
    };
    const endpoints = { websocket: at("/v1/socket", "ws"), http_stream: at("/v1/socket/http_stream", "http") };
    const transports: TransportEndpoint[] = (options.transports ?? ["websocket", "http_stream"]).map((transport) => ({
      transport,
      endpoint: endpoints[transport],
    }));
    this.wire = new Centrifuge(transports, {
      name: "stoa-js",
      timeout: answerTime,
      ...options.wire,
      emulationEndpoint: at("/v1/socket/emulation", "http"),
      getToken: async () => {
        try {
          return (this.token = await options.getToken(this.token));
        } catch (err) {
          throw err instanceof Ended ? new UnauthorizedError(err.message) : err;
        }
      },
    });
    this.listen();
  }

  get state(): State {
    return this.current;
  }

  /** Opens the connection. It stays open, with reconnects, until disconnect. */
  connect(): void {
    clearTimeout(this.retry);
    this.wire.connect();
  }

  /** Closes the connection. */
  disconnect(): void {
    clearTimeout(this.retry);
    this.wire.disconnect();
  }

  /**
   * Calls an operation of the API by its id. It waits some seconds for a connection. It throws Refused, Unreachable or
   * Ended.
   */
  async call<O extends keyof operations>(operation: O, input?: Input<O>): Promise<Answer<O>> {
    if (this.current === "ended")
      throw this.over
        ? new Ended("The session has ended.")
        : new Unreachable("The server does not want this connection.");
    try {
      return (await this.wire.rpc(operation, input ?? {})).data as Answer<O>;
    } catch (err) {
      throw fromWire(err as { code?: number; message?: string });
    }
  }

  /**
   * Sends an HTTP request to the API with the user's token, for example for bytes. It does not use the connection. It
   * throws Refused, Unreachable or Ended.
   */
  async request(path: string, init: RequestInit = {}): Promise<Response> {
    for (let refused: string | undefined; ;) {
      const token = (this.token = refused === undefined && this.token ? this.token : await this.getToken(refused));
      let answer: Response;
      try {
        answer = await fetch(new URL(path, this.url), {
          ...init,
          headers: { ...(init.headers as Record<string, string>), Authorization: `Bearer ${token}` },
        });
      } catch (err) {
        if (init.signal?.aborted) throw err;
        throw new Unreachable(String(err));
      }
      if (answer.ok) return answer;
      const problem = (await answer.json().catch(() => ({}))) as { code?: string; detail?: string };
      if (answer.status === 401 && refused === undefined) {
        refused = token;
        continue;
      }
      throw new Refused(
        answer.status,
        problem.code ?? "",
        problem.detail ?? answer.statusText,
        Number(answer.headers.get("Retry-After")) || 0,
      );
    }
  }

  /** Returns the address of a path of the server, such as that of a link to a file. */
  at(path: string): string {
    return new URL(path, this.url).href;
  }

  /**
   * Subscribes fn to the events of a channel, over all connections. The returned function ends the subscription. Events
   * during a break are lost, and if the server refuses the channel, there are none. A channel has one listener at a
   * time. subscribed is called when the subscription starts, and after each break: load what may be missing then.
   */
  subscribe(channel: string, fn: (event: StoaEvent) => void, subscribed?: () => void): () => void {
    const sub = this.wire.newSubscription(channel);
    sub.on("publication", ({ data }) => fn(data as StoaEvent));
    if (subscribed) sub.on("subscribed", subscribed);
    sub.subscribe();
    return () => this.wire.removeSubscription(sub);
  }

  private become(state: State, code: number, reason: string): void {
    if (this.current === state) return;
    this.current = state;
    this.emit("state", { state, code, reason });
  }

  private listen(): void {
    this.wire.on("connecting", ({ code, reason }) => this.become(code === 0 ? "connecting" : "offline", code, reason));
    this.wire.on("error", ({ error }) => {
      if (this.current === "connecting") this.become("offline", error.code, error.message);
    });
    this.wire.on("disconnected", ({ code, reason }) => {
      this.over = sessionOver.includes(code);
      if (code === STALE) this.retry = setTimeout(() => this.wire.connect(), 500 + 1500 * Math.random());
      this.become(code === 0 || code === STALE ? "offline" : "ended", code, reason);
    });
    this.wire.on("connected", ({ data }) => {
      ({ user: this.user, device: this.device } = data as { user: string; device: string });
    });
    this.wire.on("subscribed", ({ channel, wasRecovering, recovered }) => {
      if (channel !== this.user) return;
      this.become("online", 0, "");
      this.emit("open", { resumed: wasRecovering && recovered });
    });
    this.wire.on("publication", ({ channel, data }) => {
      if (channel !== this.user) return;
      const event = data as StoaEvent;
      this.emit("event", event);
      this.emit(event.type as keyof EventCatalogue, event.data as never);
    });
  }
}
