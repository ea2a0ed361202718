// Notifications of the browser, for messages and requests that arrive while the page is hidden.

import type { Message, User } from "@stoa-dev/client";
import type { Connection } from "../connection";
import type { People } from "../people";
import { nameOf } from "../person";
import { Changes } from "../state/changes";
import { storage } from "../storage";
import { c } from "../texts/chats";
import { g } from "../texts/groups";
import { preview } from "./preview";
import { groupOf } from "../state/groups";
import { calls, nameIn, addressPart, titleOf, type ChatContext } from "./context";

const STORE = "stoa.alerts";

/** Whether this browser shows notifications. "denied" is a setting of the browser; "none" means that it cannot. */
export type AlertState = "on" | "off" | "denied" | "none";

export function alertState(): AlertState {
  if (typeof Notification === "undefined" || !isSecureContext) return "none";
  if (Notification.permission === "denied") return "denied";
  return Notification.permission === "granted" && storage.getItem(STORE) === "on" ? "on" : "off";
}

/** Switches notifications on or off. For on, the browser asks the user. */
export async function setAlerts(on: boolean): Promise<AlertState> {
  if (on && alertState() !== "none" && (await Notification.requestPermission()) === "granted")
    storage.setItem(STORE, "on");
  else storage.removeItem(STORE);
  return alertState();
}

/** Shows notifications for events of a connection, until the connection is closed. */
export function alertOf(connection: Omit<Connection, "stop">, me: User, people: People): void {
  const ctx: ChatContext = {
    me,
    connection: connection as Connection,
    people,
    signal: people.signal,
    clock: new Changes(),
    failed: () => {},
  };
  connection.chats.on("message", (m) => {
    if (m.from === me.id || !concerns(m, connection)) return;
    const known = groupOf(m.chat) ? connection.groups.loadProfile(groupOf(m.chat), m.from) : Promise.resolve();
    void known.then(() =>
      notify(titleOf(ctx, m.chat), said(m, ctx), m.chat, `#/chats/${addressPart(m.chat)}/${m.seq}`),
    );
  });
  connection.client.on("transfer.updated", (f) => {
    if (f.to === me.id && f.status === "pending")
      notify(nameIn(ctx, f.from), c.files.offers(f.name), `file ${f.id}`, `#/chats/${f.from}`);
  });
  connection.client.on("friend.requested", (r) => {
    if (r.from.id !== me.id) notify(nameOf(r.from), c.asksFriendship, "friends", "#/friends");
  });
  connection.client.on("group.requested", (r) => {
    if (r.user.id !== me.id)
      notify(
        connection.groups.title(r.group),
        g.asksToJoin(nameOf(r.user)),
        `requests ${r.group}`,
        `#/chats/g:${r.group}`,
      );
  });
}

// concerns reports whether the user wants a notification of a message.
function concerns(m: Message, { chats, groups }: Pick<Connection, "chats" | "groups">): boolean {
  const chat = chats.get(m.chat);
  if (!chat || m.system || calls({ groups }, { ...chat, unread: 1 }) === 0) return false;
  return groups.notify(m.chat) !== "mentions" || groups.mentionsMe(m.mentions);
}

function said(m: Message, ctx: ChatContext): string {
  const group = groupOf(m.chat);
  return (group ? c.says(nameIn(ctx, m.from, group)) + " " : "") + preview(m, ctx, m.chat);
}

// Only one notification per tag is shown: a later one replaces it.
function notify(title: string, body: string, tag: string, hash: string): void {
  if (alertState() !== "on" || document.visibilityState === "visible") return;
  try {
    const shown = new Notification(title, {
      body,
      tag,
      icon: document.querySelector<HTMLLinkElement>("link[rel=icon]")!.href,
    });
    shown.onclick = () => {
      focus();
      location.hash = hash;
      shown.close();
    };
  } catch {
    // Some browsers of phones allow notifications only in a service worker.
  }
}
