// The rows of an open chat: its messages and files in the order of time, with lines between days and before the new ones.

import type { ChatState, Message, Outgoing, Transfer } from "@stoa-dev/client";

const TOGETHER = 5 * 60_000; // ms within which messages of one sender form a group

/** The progress of one of the user's messages. */
export type Tick = "sending" | "failed" | "sent" | "delivered" | "read";

/** A file that is being uploaded for a message. */
export interface Upload {
  key: string; // the client_id of its message
  at: number; // the time of the choice, in ms since 1970
}

export interface BubbleRow {
  kind: "bubble";
  key: string;
  seq: number; // 0 until the message is sent
  from: string;
  own: boolean;
  follows: boolean; // it follows one of the same sender
  tick: Tick | undefined;
  message: Message | undefined;
  out: Outgoing | undefined;
}

export type Row<U extends Upload> =
  | { kind: "day"; key: string; at: number }
  | { kind: "new"; key: string }
  | { kind: "event"; key: string; message: Message }
  | BubbleRow
  | { kind: "file"; key: string; transfer: Transfer }
  | { kind: "upload"; key: string; upload: U };

export interface StreamInput<U extends Upload> {
  me: string;
  chat: Pick<ChatState, "peer_read" | "peer_got"> | undefined;
  messages: readonly Message[];
  pending: readonly Outgoing[];
  files: readonly Transfer[]; // oldest first
  uploads: readonly U[];
  hasOlder: boolean;
  hasNewer: boolean;
  newFrom: number; // the first message that was new on arrival; 0 for none
}

/** The day of an instant in this zone; equal texts for equal days. */
export const dayOf = (at: number) => new Date(at).toDateString();

/** Returns the rows of a chat. */
export function streamRows<U extends Upload>(input: StreamInput<U>): Row<U>[] {
  const { me, chat, messages, hasNewer, newFrom } = input;
  const rows: Row<U>[] = [];
  let day = "";
  let marked = false; // the line before the new messages is placed
  let before: { from: string; at: number } | undefined;

  const lines = (from: string, at: number, seq: number) => {
    if (dayOf(at) !== day) {
      day = dayOf(at);
      rows.push({ kind: "day", key: `day ${day}`, at });
      before = undefined;
    }
    if (newFrom > 0 && seq >= newFrom && !marked && from !== me) {
      marked = true;
      rows.push({ kind: "new", key: "new" });
      before = undefined;
    }
  };
  const bubble = (at: number, row: Omit<BubbleRow, "kind" | "own" | "follows">) => {
    lines(row.from, at, row.seq);
    const follows = before?.from === row.from && at - before.at < TOGETHER;
    rows.push({ ...row, kind: "bubble", own: row.from === me, follows });
    before = { from: row.from, at };
  };
  const files = [...input.files];
  const filesUntil = (at: number) => {
    for (let file = files[0]; file && Date.parse(file.created) < at; file = files[0]) {
      files.shift();
      lines(file.from, Date.parse(file.created), 0);
      before = undefined;
      rows.push({ kind: "file", key: `file ${file.id}`, transfer: file });
    }
  };

  // Files older than the loaded messages are left out until older messages are loaded.
  const start = input.hasOlder && messages[0] ? Date.parse(messages[0].at) : -Infinity;
  while (files[0] && Date.parse(files[0].created) < start) files.shift();
  for (const m of messages) {
    const at = Date.parse(m.at);
    filesUntil(at);
    if (m.system) {
      lines(m.from, at, m.seq);
      before = undefined;
      rows.push({ kind: "event", key: `${m.seq}`, message: m });
      continue;
    }
    const tick = m.from === me && !m.recalled ? progress(m.seq, chat) : undefined;
    // The client_id is the key, so that a sent message keeps its row.
    bubble(at, { key: m.client_id ?? `${m.seq}`, seq: m.seq, from: m.from, tick, message: m, out: undefined });
  }
  if (hasNewer) return rows;
  filesUntil(Infinity);
  for (const out of input.pending)
    bubble(out.at, { key: out.body.client_id, seq: 0, from: me, tick: out.state, message: undefined, out });
  const sent = new Set(messages.map((m) => m.client_id));
  for (const upload of input.uploads) {
    if (sent.has(upload.key)) continue;
    lines(me, upload.at, 0);
    rows.push({ kind: "upload", key: `upload ${upload.key}`, upload });
  }
  return rows;
}

function progress(seq: number, chat: StreamInput<Upload>["chat"]): Tick {
  if (seq <= (chat?.peer_read ?? 0)) return "read";
  return seq <= (chat?.peer_got ?? 0) ? "delivered" : "sent";
}
