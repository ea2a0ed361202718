// Who is in a room: a user by the page's own connection, or a guest by one of the guest's token.

import { Ended, MemoryStorage, StoaClient, type Room, type RoomGuest, type RoomSelf } from "@stoa-dev/client";
import { now, send, type Call } from "../api";
import { authed } from "../session";
import { tabStorage } from "../storage";
import { t } from "../texts";

export interface Seat {
  room: string;
  guest: boolean;
  client: StoaClient; // events come over it
  /** A request below /v1/rooms/{room}, with the body of its answer. */
  ask: <T>(path: string, call?: Call) => Promise<T>;
  leave: () => void; // what is kept for the seat is forgotten
  close: () => void;
}

export interface Place {
  room: Room;
  me?: RoomSelf;
}

const STORE = "stoa.guest."; // with the room's id

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

/** Keeps a guest's token for as long as the tab is open. */
export function keepGuest({ token, expires, room }: RoomGuest): void {
  tabStorage.setItem(STORE + room.id, JSON.stringify({ token, expires }));
}

/** The seat of a guest who came into a room in this tab before; undefined where there is none. */
export function guestSeat(room: string): Seat | undefined {
  const kept = JSON.parse(tabStorage.getItem(STORE + room) ?? "null") as { token: string; expires: string } | null;
  if (!kept || Date.parse(kept.expires) < now()) return undefined;
  const { token } = kept;
  const getToken = async (refused?: string) => {
    if (refused) throw new Ended(""); // a guest has no other one
    return token;
  };
  const client = new StoaClient({ url: location.origin, getToken, storage: new MemoryStorage(), wire: { headers: { "Accept-Language": t.locale } } });
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
