// The list of the user's rooms and of the public ones.

import { signal, type Signal } from "@preact/signals";
import type { MyRooms, Room, Rooms } from "@stoa-dev/client";
import { render } from "preact";
import { useRef } from "preact/hooks";
import { h } from "../dom";
import { json } from "../session";
import { t } from "../texts";
import { r } from "../texts/rooms";
import { Act } from "../ui/act";
import { useKeptFocus } from "../ui/focus";

const PAGE = 50;
const TYPED = 250; // ms after the last key until a search starts
const SORTS = ["viewers", "new"] as const;

/** Shows the lists. create opens the dialog for a new room. */
export function roomList(failed: (err: unknown) => void, create: () => void) {
  const mine = signal<Room[] | undefined>(undefined);
  const found = signal<Room[] | undefined>(undefined);
  const cursor = signal("");
  const query = { text: "", sort: "viewers" };
  let timer: ReturnType<typeof setTimeout> | undefined;
  let requests = 0;

  async function search(further: boolean): Promise<void> {
    const request = ++requests;
    const text = query.text.trim();
    const next = further && cursor.peek();
    const params = new URLSearchParams({
      sort: query.sort,
      limit: String(PAGE),
      ...(text && { q: text }),
      ...(next && { cursor: next }),
    });
    try {
      const page = await json<Rooms>(`/v1/rooms?${params}`);
      if (request !== requests) return; // a later request has been sent
      const all = [...(further ? (found.peek() ?? []) : []), ...page.rooms];
      found.value = all.filter((room, i) => all.findIndex((other) => other.id === room.id) === i);
      cursor.value = page.next ?? "";
    } catch (err) {
      if (request === requests) failed(err);
    }
  }
  async function loadMine(): Promise<void> {
    try {
      const rooms: Room[] = [];
      let next: string | undefined;
      do {
        const path = `/v1/rooms/mine${next ? `?${new URLSearchParams({ cursor: next })}` : ""}`;
        const page: MyRooms = await json<MyRooms>(path);
        rooms.push(...page.rooms.map(({ room }) => room));
        next = page.next;
      } while (next);
      mine.value = rooms;
    } catch (err) {
      failed(err);
    }
  }
  const catchUp = () => {
    void loadMine();
    void search(false);
  };
  const on = {
    text: (text: string) => {
      query.text = text;
      clearTimeout(timer);
      timer = setTimeout(() => void search(false), TYPED);
    },
    sort: (sort: string) => {
      query.sort = sort;
      void search(false);
    },
    more: () => search(true),
    create,
    failed,
  };
  const el = h("div", { class: "narrow rooms" });
  render(<RoomsPage mine={mine} found={found} cursor={cursor} on={on} />, el);
  catchUp();
  return {
    el,
    catchUp,
    close: () => {
      clearTimeout(timer);
      requests++;
      render(null, el);
    },
  };
}

interface RoomsProps {
  mine: Signal<Room[] | undefined>;
  found: Signal<Room[] | undefined>;
  cursor: Signal<string>;
  on: {
    text: (text: string) => void;
    sort: (sort: string) => void;
    more: () => Promise<void>;
    create: () => void;
    failed: (err: unknown) => void;
  };
}

function RoomsPage({ mine, found, cursor, on }: RoomsProps) {
  const heading = useRef<HTMLHeadingElement>(null);
  const rest = () => heading.current;
  return (
    <>
      <div class="rooms-head">
        <h1 tabindex={-1} ref={heading}>
          {t.frame.titles.rooms}
        </h1>
        <button type="button" class="primary small" aria-haspopup="dialog" onClick={on.create}>
          {r.newRoom}
        </button>
      </div>
      <p class="muted">{r.about}</p>
      <section class="card" aria-label={r.mine}>
        <h2>{r.mine}</h2>
        <p class="muted" hidden={mine.value?.length !== 0}>
          {r.noneMine}
        </p>
        <RoomItems name="mine" label={r.mine} rooms={mine.value} rest={rest} />
      </section>
      <section class="card" aria-label={r.list}>
        <h2>{r.list}</h2>
        <div class="rooms-find">
          <input
            type="search"
            name="q"
            maxlength={60}
            autocomplete="off"
            aria-label={r.find}
            placeholder={r.find}
            onInput={(e) => on.text(e.currentTarget.value)}
          />
          <select name="sort" aria-label={r.sort} onChange={(e) => on.sort(e.currentTarget.value)}>
            {SORTS.map((value) => (
              <option key={value} value={value}>
                {r.sorts[value]}
              </option>
            ))}
          </select>
        </div>
        <p class="muted" role="status" hidden={found.value?.length !== 0}>
          {r.none}
        </p>
        <RoomItems name="public" label={r.list} rooms={found.value} rest={rest} />
        <Act kind="link" hidden={!cursor.value} run={on.more} failed={on.failed}>
          {t.words.showMore}
        </Act>
      </section>
    </>
  );
}

interface ItemsProps {
  name: string;
  label: string;
  rooms: Room[] | undefined;
  rest: () => HTMLElement | null;
}

function RoomItems({ name, label, rooms = [], rest }: ItemsProps) {
  const list = useRef<HTMLUListElement>(null);
  useKeptFocus(list, rest);
  return (
    <ul class="room-list" aria-label={label} data-list={name} ref={list}>
      {rooms.map((room) => (
        <li key={room.id} data-room={room.id}>
          <a class="room-row" href={`#/rooms/${room.id}`}>
            <span class="face group" aria-hidden="true">
              {([...room.name][0] ?? "").toUpperCase()}
            </span>
            <span class="chat-text">
              <span class="chat-name">{room.name}</span>
              <span class="chat-line">
                {[r.viewers(room.viewers), room.password && r.locked].filter(Boolean).join(" · ")}
              </span>
            </span>
          </a>
        </li>
      ))}
    </ul>
  );
}
