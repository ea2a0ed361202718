// The stream of server-sent events, for as long as the page is looked at.

import type { Event } from "./api";
import { events } from "./events";
import { authed, Ended } from "./session";

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
        for await (const e of events<Event>(res)) on.event(e);
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

