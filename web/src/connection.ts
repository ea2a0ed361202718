// The connection as its users see it: the parts that live.ts creates around it.

import type { Chats, Presences, StoaClient } from "@stoa-dev/client";
import type { ChatSignals } from "./state/chats";
import type { Files } from "./state/files";
import type { Groups } from "./state/groups";

/** The parts that use the connection. */
export interface Connection {
  client: StoaClient;
  chats: Chats;
  /** The state of the chats, for components. */
  signals: ChatSignals;
  presences: Presences;
  groups: Groups;
  files: Files;
  /** The texts in the fields of open chats, which are stored as drafts. */
  drafts: Map<string, () => string>;
  /** The number of unread messages that call for the user, without those of muted chats. */
  unread: () => number;
  /** The number of unread notices, without those of friends, which the page Friends counts. */
  told: () => number;
  onTold: (fn: () => void) => void;
  stop: () => void;
}
