// Notifications of the browser, for messages and requests that arrive while the page is hidden.

import type { Message, User } from "@stoa-dev/client";
import type { Line } from "../line";
import type { People } from "../people";
import { nameOf } from "../person";
import { Changes } from "../state/changes";
import { storage } from "../storage";
import { c } from "../texts/chats";
import { g } from "../texts/groups";
import { preview } from "./preview";
import { groupOf } from "../state/groups";
import { calls, nameIn, placeOf, titleOf, type Talk } from "./talk";

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

/** Shows notifications of a connection's events while it exists. */
export function alertOf(line: Omit<Line, "stop">, me: User, people: People): void {
  const talk: Talk = { me, line: line as Line, people, signal: people.signal, clock: new Changes(), failed: () => {} };
  line.chats.on("message", (m) => {
    if (m.from === me.id || !concerns(m, line)) return;
    const known = groupOf(m.chat) ? line.groups.meet(groupOf(m.chat), m.from) : Promise.resolve();
    void known.then(() => notify(titleOf(talk, m.chat), said(m, talk), m.chat, `#/chats/${placeOf(m.chat)}/${m.seq}`));
  });
  line.client.on("transfer.updated", (f) => {
    if (f.to === me.id && f.status === "pending")
      notify(nameIn(talk, f.from), c.files.offers(f.name), `file ${f.id}`, `#/chats/${f.from}`);
  });
  line.client.on("friend.requested", (r) => {
    if (r.from.id !== me.id) notify(nameOf(r.from), c.asksFriendship, "friends", "#/friends");
  });
  line.client.on("group.requested", (r) => {
    if (r.user.id !== me.id)
      notify(line.groups.title(r.group), g.asksToJoin(nameOf(r.user)), `requests ${r.group}`, `#/chats/g:${r.group}`);
  });
}

// concerns reports whether the user wants a notification of a message.
function concerns(m: Message, { chats, groups }: Pick<Line, "chats" | "groups">): boolean {
  const chat = chats.get(m.chat);
  if (!chat || m.system || calls({ groups }, { ...chat, unread: 1 }) === 0) return false;
  return groups.notify(m.chat) !== "mentions" || groups.mentionsMe(m.mentions);
}

function said(m: Message, talk: Talk): string {
  const group = groupOf(m.chat);
  return (group ? c.says(nameIn(talk, m.from, group)) + " " : "") + preview(m, talk, m.chat);
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
