// The one connection of this tab, for events and for the calls of the chats.

import { Chats, Presences, SESSION_ENDED, StoaClient, type State, type User, type StoaEvent } from "@stoa-dev/client";
import { now } from "./api";
import { alertOf } from "./chat/alerts";
import { ChatSignals } from "./state/chats";
import { Files } from "./state/files";
import { Groups } from "./state/groups";
import { calls } from "./chat/context";
import type { Connection } from "./connection";
import type { People } from "./people";
import { device, end, Ended, token } from "./session";
import { t } from "./texts";

export type LiveState = "connecting" | "live" | "waiting";

export interface Listener {
  state: (s: LiveState) => void;
  missed: () => void; // something may be missed
  event: (e: StoaEvent) => void;
}

// The server limits the connections of a user. A further tab waits until another one closes.
const TOO_MANY = 3504;
const AGAIN = 30_000; // ms

const shown: Record<State, LiveState> = {
  connecting: "connecting",
  online: "live",
  offline: "waiting",
  ended: "waiting",
};

/** Connects as a user until stop is called. */
export async function connect(me: User, people: People, on: Listener): Promise<Connection> {
  const mine = device();
  const getToken = async (refused?: string) => {
    const got = await token(refused);
    if (mine !== device()) throw new Ended(""); // another user has logged in
    return got;
  };
  const client = new StoaClient({ url: location.origin, getToken });
  const chats = new Chats(client, { user: me.id });
  const presences = new Presences(client);
  const groups = new Groups(client, chats, me.id, now);
  let again: ReturnType<typeof setTimeout> | undefined;
  client.on("state", ({ state, code }) => {
    on.state(shown[state]);
    if (code === SESSION_ENDED && mine === device()) end(t.frame.outHere);
    if (code === TOO_MANY) again = setTimeout(() => client.connect(), AGAIN);
  });
  client.on("open", ({ resumed }) => {
    if (!resumed) on.missed();
  });
  client.on("event", (e) => on.event(e));
  let told = 0;
  let counts = 0; // requests: the response to an earlier one is older
  let onTold = () => {};
  const count = async () => {
    const mine = ++counts;
    try {
      const { unread, categories } = await client.call("notices.counts");
      if (mine !== counts) return;
      told = unread - (categories["friend"] ?? 0);
      onTold();
    } catch {
      // The next notice, or the next connection, retries.
    }
  };
  // A sent message ends its draft, even if the chat or the page was closed before the connection was back.
  const drafts: Connection["drafts"] = new Map();
  chats.on("outgoing", ({ chat, body, state }) => {
    const draft = chats.get(chat)?.draft;
    if (state === "sent" && draft && draft.trim() === body.text)
      void chats.update(chat, { draft: drafts.get(chat)?.() ?? "" }).catch(() => {});
  });
  for (const name of ["open", "notice.new", "notice.read"] as const) client.on(name, () => void count());
  on.state("connecting");
  const files = new Files(client, me.id);
  const signals = new ChatSignals(chats, presences, people, people.signal);
  const connection = {
    client,
    chats,
    signals,
    presences,
    groups,
    files,
    drafts,
    unread: () => chats.list().reduce((n, chat) => n + calls({ groups }, chat), 0),
    told: () => told,
    onTold: (fn: () => void) => void (onTold = fn),
  };
  alertOf(connection, me, people);
  await chats.start();
  client.connect();
  return {
    ...connection,
    stop: () => {
      clearTimeout(again);
      chats.stop();
      client.disconnect();
    },
  };
}
