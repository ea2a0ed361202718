// The one connection of this tab: events come over it, chats are read and sent over it.

import { Chats, Presences, SESSION_ENDED, StoaClient, type State } from "@stoa-dev/client";
import type { Event, User } from "./api";
import { alertOf } from "./chat/alerts";
import { Files } from "./chat/files";
import { Groups } from "./chat/groups";
import { calls } from "./chat/talk";
import type { People } from "./people";
import { device, end, Ended, token } from "./session";
import { t } from "./texts";

export type LiveState = "connecting" | "live" | "waiting";

export interface Listener {
  state: (s: LiveState) => void;
  missed: () => void; // something may have been missed
  event: (e: Event) => void;
}

/** What stands on the connection. */
export interface Line {
  client: StoaClient;
  chats: Chats;
  presences: Presences;
  groups: Groups;
  files: Files;
  /** What is written in the fields of open chats, and is to be kept as their drafts. */
  drafts: Map<string, () => string>;
  /** Messages that wait for the user, where they have not said that they want no news. */
  unread: () => number;
  /** Notices that the user has not read, without those of friends, which the page Friends counts. */
  told: () => number;
  onTold: (fn: () => void) => void;
  stop: () => void;
}

// A server takes so many connections of a user; whoever has more tabs open waits for one to close.
const TOO_MANY = 3504;
const AGAIN = 30_000; // ms

const shown: Record<State, LiveState> = { connecting: "connecting", online: "live", offline: "waiting", ended: "waiting" };

/** Connects as a user until stop is called. */
export async function connect(me: User, people: People, on: Listener): Promise<Line> {
  const mine = device();
  const getToken = async (refused?: string) => {
    const got = await token(refused);
    if (mine !== device()) throw new Ended(""); // somebody else is logged in by now
    return got;
  };
  const client = new StoaClient({ url: location.origin, getToken });
  const chats = new Chats(client, { user: me.id });
  const presences = new Presences(client);
  const groups = new Groups(client, chats, me.id);
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
  let counts = 0; // questions: the answer to an earlier one is older
  let onTold = () => {};
  const count = async () => {
    const mine = ++counts;
    try {
      const { unread, categories } = await client.call("notices.counts");
      if (mine !== counts) return;
      told = unread - (categories["friend"] ?? 0);
      onTold();
    } catch {
      // The next notice, or the next connection, asks again.
    }
  };
  // A message ends its draft, also where its chat was left, or the page closed, before the line was back.
  const drafts: Line["drafts"] = new Map();
  chats.on("outgoing", ({ chat, body, state }) => {
    const draft = chats.get(chat)?.draft;
    if (state === "sent" && draft && draft.trim() === body.text) void chats.update(chat, { draft: drafts.get(chat)?.() ?? "" }).catch(() => {});
  });
  for (const name of ["open", "notice.new", "notice.read"] as const) client.on(name, () => void count());
  on.state("connecting");
  const files = new Files(client, me.id);
  const line = { client, chats, presences, groups, files, drafts, unread: () => chats.list().reduce((n, chat) => n + calls({ groups }, chat), 0), told: () => told, onTold: (fn: () => void) => void (onTold = fn) };
  alertOf(line, me, people);
  await chats.start();
  client.connect();
  return {
    ...line,
    stop: () => {
      clearTimeout(again);
      chats.stop();
      client.disconnect();
    },
  };
}
