// The stream of server-sent events. EventSource cannot send a bearer token, so
// this reads the body of an ordinary fetch.

import type { Event } from "./api";
import { authed, Ended } from "./session";

// The server sends a comment every 15 s; after two that did not come, the
// connection is gone though nobody said so.
const silence = 40_000;

export type LiveState = "connecting" | "live" | "waiting";

export interface Listener {
  state: (s: LiveState) => void;
  catchUp: () => void; // something may have been missed: after every connection, and when the page is looked at again
  event: (e: Event) => void;
}

/** Listens for as long as the page is looked at, until the answer is called. */
export function listen(on: Listener): () => void {
  const stopped = new AbortController();
  let live: ReturnType<typeof follow> | undefined = follow(on);
  // A browser allows six connections to a server, for all its tabs together: one
  // that has been hidden for a minute gives its stream back.
  let hidden: ReturnType<typeof setTimeout> | undefined;
  const awake = () => {
    clearTimeout(hidden);
    if (document.visibilityState !== "visible") {
      hidden = setTimeout(() => {
        live?.stop();
        live = undefined;
      }, 60_000);
      return;
    }
    if (live) live.wake();
    else live = follow(on);
    on.catchUp();
  };
  document.addEventListener("visibilitychange", awake, { signal: stopped.signal });
  addEventListener("online", awake, { signal: stopped.signal });
  return () => {
    stopped.abort();
    live?.stop();
    clearTimeout(hidden);
  };
}

// follow reads GET /v1/events until stop is called.
function follow(on: Listener): { stop: () => void; wake: () => void } {
  const stopped = new AbortController();
  let wake = () => {};

  const run = async () => {
    for (let failures = 0; !stopped.signal.aborted; ) {
      on.state("connecting");
      try {
        const res = await authed("/v1/events", { accept: "text/event-stream", signal: stopped.signal });
        failures = 0;
        on.state("live");
        on.catchUp();
        await read(res, on.event);
      } catch (err) {
        if (stopped.signal.aborted || err instanceof Ended) return;
      }
      on.state("waiting");
      // From half a second to half a minute, spread so that a server that comes
      // back is not met by everybody at once.
      const pause = Math.min(30_000, 500 * 2 ** failures++) * (0.5 + Math.random() / 2);
      await new Promise<void>((done) => {
        wake = done;
        setTimeout(done, pause);
        stopped.signal.addEventListener("abort", () => done(), { once: true });
      });
    }
  };
  void run();
  return { stop: () => stopped.abort(), wake: () => wake() };
}

/** Reads events until the server ends the stream. */
async function read(res: Response, event: (e: Event) => void): Promise<void> {
  if (!res.body) return;
  const reader = res.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const dead = setTimeout(() => void reader.cancel(), silence);
    const { done, value } = await reader.read().finally(() => clearTimeout(dead));
    if (done) return;
    // A line may end in \r\n, \n or \r; this server ends them in \n.
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop() ?? "";
    for (const block of blocks) {
      const data = block
        .split("\n")
        .filter((line) => line.startsWith("data:"))
        .map((line) => line.slice(5).trimStart())
        .join("\n");
      if (data) event(JSON.parse(data) as Event);
    }
  }
}
