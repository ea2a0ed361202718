import { Centrifuge, UnauthorizedError, type Options, type TransportEndpoint } from "centrifuge";
import { Emitter } from "./emitter.js";
import { Ended, fromWire, Refused, Unreachable } from "./errors.js";
import { openStorage, type Storage } from "./storage.js";
import type { TokenSource } from "./tokens.js";
import type { EventCatalogue, operations } from "./wire.js";

/** The code with which the server closes a connection whose session has ended. */
export const SESSION_ENDED = 4500;

// The time in ms for the answer to a call; a server takes up to 5.3 s for most operations.
const answerTime = 10_000;

// Codes with which a session is over, or a token is of another one: 1 is that of getToken, which has thrown Ended.
const sessionOver = [1, 3500, SESSION_ENDED];

/**
 * - offline: there is no connection; unless disconnect was called, one is tried again and again
 * - connecting: the first try runs
 * - online: calls go out and events come in
 * - ended: the session is over, or the server does not want this client; nothing is tried any more
 */
export type State = "offline" | "connecting" | "online" | "ended";

/** An event as it comes. */
export interface StoaEvent<T = unknown> {
  type: string;
  time: string;
  data: T;
}

/** What a client tells besides the server's events. */
export interface ClientEvents {
  state: { state: State; code: number; reason: string };
  /**
   * The connection stands. With `resumed`, every event since the last one follows, in order;
   * without, some may have been missed: now is the time to ask for the present state.
   */
  open: { resumed: boolean };
  /** Every event, whatever its type. */
  event: StoaEvent;
}

export interface StoaOptions {
  /** The server's address, such as `https://stoa.example.org`. */
  url: string;
  /** See {@link TokenSource}; `refreshing` makes one. */
  getToken: TokenSource;
  /** Keeps the outbox; IndexedDB where there is one. */
  storage?: Storage;
  /** In the order of trying. */
  transports?: ("websocket" | "http_stream")[];
  /** Options of the library centrifuge, such as `websocket` where there is no global one. */
  wire?: Partial<Omit<Options, "token" | "getToken" | "emulationEndpoint">>;
}

type Part<T, K extends string> = T extends { [P in K]: infer V } ? { [P in K]: V } : T extends { [P in K]?: infer V } ? ([NonNullable<V>] extends [never] ? unknown : { [P in K]?: V }) : unknown;
type Body<T> = T extends { requestBody: { content: { "application/json": infer B } } } ? { body: B } : unknown;

/** What an operation takes. */
export type Input<O extends keyof operations> = Part<operations[O]["parameters"], "path"> &
  Part<operations[O]["parameters"], "query"> &
  Body<operations[O]> & {
    /** An Idempotency-Key: a write of somebody who is logged in that has one is carried out once in 24 hours, however often it is called. */
    key?: string;
  };

type Responses<O extends keyof operations> = operations[O]["responses"];

/** What an operation answers. */
export type Answer<O extends keyof operations> = Responses<O>[keyof Responses<O>] extends infer R ? (R extends { content: { "application/json": infer A } } ? A : never) : never;

/** A connection to a Stoa server that is opened again whenever it breaks. */
export class StoaClient extends Emitter<EventCatalogue & ClientEvents> {
  /** The id of the user who is connected; "" before the first connection. */
  user = "";
  /** The id of the device's session; "" before the first connection. */
  device = "";
  readonly storage: Promise<Storage>;

  private current: State = "offline";
  private over = false; // ended, and with the session
  private token: string | undefined;
  private readonly url: string;
  private readonly getToken: TokenSource;
  private readonly wire: Centrifuge;

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
    const transports: TransportEndpoint[] = (options.transports ?? ["websocket", "http_stream"]).map((transport) => ({ transport, endpoint: endpoints[transport] }));
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

  /** Opens the connection, and keeps it open until disconnect. */
  connect(): void {
    this.wire.connect();
  }

  /** Closes the connection. */
  disconnect(): void {
    this.wire.disconnect();
  }

  /**
   * Calls an operation of the API by its id. It waits some seconds for a connection. It throws
   * Refused, Unreachable or Ended.
   */
  async call<O extends keyof operations>(operation: O, input?: Input<O>): Promise<Answer<O>> {
    if (this.current === "ended") throw this.over ? new Ended("The session has ended.") : new Unreachable("The server does not want this connection.");
    try {
      return (await this.wire.rpc(operation, input ?? {})).data as Answer<O>;
    } catch (err) {
      throw fromWire(err as { code?: number; message?: string });
    }
  }

  /**
   * Makes a request of the API beside the connection, as for bytes, with the user's token. It throws
   * Refused, Unreachable or Ended.
   */
  async request(path: string, init: RequestInit = {}): Promise<Response> {
    for (let refused: string | undefined; ; ) {
      const token = (this.token = refused === undefined && this.token ? this.token : await this.getToken(refused));
      let answer: Response;
      try {
        answer = await fetch(new URL(path, this.url), { ...init, headers: { ...(init.headers as Record<string, string>), Authorization: `Bearer ${token}` } });
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
      throw new Refused(answer.status, problem.code ?? "", problem.detail ?? answer.statusText, Number(answer.headers.get("Retry-After")) || 0);
    }
  }

  /** The address of a path of the server, such as that of a link to a file. */
  at(path: string): string {
    return new URL(path, this.url).href;
  }

  /**
   * Has fn called with the events of a channel until the function that is returned is called, also over
   * connections to come. What passes while there is none is missed, and where the server refuses there is none. A
   * channel has one listener at a time. subscribed is called whenever the subscription stands, at first and after each break:
   * then is the time to read what may have been missed.
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
      this.become(code === 0 ? "offline" : "ended", code, reason);
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
