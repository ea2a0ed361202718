// The participant in a room: a user with the page's own connection, or a guest with a connection for the guest's token.

import { Ended, MemoryStorage, StoaClient, type Room, type RoomGuest, type RoomSelf } from "@stoa-dev/client";
import { now, send, type Call } from "../api";
import { authed } from "../session";
import { tabStorage } from "../storage";
import { t } from "../texts";

export interface Seat {
  room: string;
  guest: boolean;
  client: StoaClient; // for the events
  /** Sends a request below /v1/rooms/{room}, and returns the body of the response. */
  ask: <T>(path: string, call?: Call) => Promise<T>;
  leave: () => void; // deletes the stored token of the seat
  close: () => void;
}

export interface RoomMembership {
  room: Room;
  me?: RoomSelf;
}

const STORE = "stoa.guest."; // followed by the room's id

async function bodyOf<T>(res: Response): Promise<T> {
  return (res.status === 204 ? undefined : await res.json()) as T;
}

/** A user's seat. */
export const userSeat = (room: string, client: StoaClient): Seat => ({
  room,
  guest: false,
  client,
  ask: async (path, call) => bodyOf(await authed(`/v1/rooms/${room}${path}`, call)),
  leave: () => {},
  close: () => {},
});

/** Stores a guest's token while the tab is open. */
export function keepGuest({ token, expires, room }: RoomGuest): void {
  tabStorage.setItem(STORE + room.id, JSON.stringify({ token, expires }));
}

/** The seat of a guest who joined a room in this tab earlier; undefined if there is none. */
export function guestSeat(room: string): Seat | undefined {
  const kept = JSON.parse(tabStorage.getItem(STORE + room) ?? "null") as { token: string; expires: string } | null;
  if (!kept || Date.parse(kept.expires) < now()) return undefined;
  const { token } = kept;
  const getToken = async (refused?: string) => {
    if (refused) throw new Ended(""); // a guest has no other token
    return token;
  };
  const client = new StoaClient({
    url: location.origin,
    getToken,
    storage: new MemoryStorage(),
    wire: { headers: { "Accept-Language": t.locale } },
  });
  client.connect();
  return {
    room,
    guest: true,
    client,
    ask: async (path, call) => bodyOf(await send(`/v1/rooms/${room}${path}`, { ...call, token })),
    leave: () => tabStorage.removeItem(STORE + room),
    close: () => client.disconnect(),
  };
}
