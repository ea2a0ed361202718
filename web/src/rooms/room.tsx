// The open room: player, danmaku, chat, playlist and people.

import { useSignal } from "@preact/signals";
import {
  isTemporary,
  Refused as RefusedOnLine,
  type Playback,
  type RoomGone,
  type RoomLines,
  type RoomMembers,
  type RoomOnline,
  type RoomPlaylist as Playlist,
  type RoomScene,
} from "@stoa-dev/client";
import { render } from "preact";
import { useLayoutEffect } from "preact/hooks";
import { now, Refused, Unreachable } from "../api";
import { h } from "../dom";
import { say } from "../form";
import { Ended, user } from "../session";
import { RoomChatState } from "../state/roomchat";
import { RoomPeople } from "../state/people";
import { RoomPlayer } from "../state/player";
import { OpenRoom, type Ending } from "../state/room";
import { r } from "../texts/rooms";
import { Act, Twice } from "../ui/act";
import { Sign, type SignName } from "../ui/icon";
import { Tabs } from "../ui/tabs";
import { broadcast, canStream, type Broadcast } from "./camera";
import { RoomChat } from "./chat";
import { Danmaku } from "./danmaku";
import { bans, invite, settings } from "./forms";
import { People } from "./people";
import { PlayerView } from "./player";
import { RoomPlaylist } from "./playlist";
import type { RoomMembership, Seat } from "./seat";
import { Shoot } from "./shoot";

const PAGE = 100; // lines, and members
const TABS = ["chat", "list", "people"] as const;

/** An open room on the page. */
export interface RoomView {
  el: HTMLElement;
  close: () => void;
  catchUp: () => void; // events may be missed
}

interface Parts {
  seat: Seat;
  room: OpenRoom;
  lines: RoomChatState;
  people: RoomPeople;
  player: RoomPlayer;
  danmaku: Danmaku;
  on: { fail: (text: string) => void; failed: (err: unknown) => void; leave: (why: Ending) => void };
}

/** Opens a room. gone is called when the user's stay ends. */
export function openRoom(
  seat: Seat,
  { fail, gone }: { fail: (text: string) => void; gone: (text: string) => void },
): RoomView {
  const failed = (err: unknown) => {
    if (!room.closed && !(err instanceof Ended)) fail(say(err));
  };
  const leave = (why: Ending) => {
    if (room.closed) return;
    const name = room.room.peek()?.name;
    close();
    gone(why === "unknown" ? r.unknown : r.gone[why](name ?? (why === "left" ? "" : r.doorTitle)));
  };
  const danmaku = new Danmaku(seat);
  const lines = new RoomChatState((before) =>
    seat.ask<RoomLines>(`/chat?limit=${PAGE}${before > 0 ? `&before=${before}` : ""}`),
  );
  const people = new RoomPeople({
    members: (cursor) =>
      seat.ask<RoomMembers>(`/members?limit=${PAGE}${cursor && `&cursor=${encodeURIComponent(cursor)}`}`),
    online: () => seat.ask<RoomOnline>("/online"),
  });
  const loads = {
    room: () => seat.ask<RoomMembership>(""),
    scene: () => seat.ask<RoomScene>("/scene"),
    playlist: () => seat.ask<Playlist>("/playlist"),
    missing: (err: unknown) => err instanceof Refused && err.problem.status === 404,
    temporary: (err: unknown) =>
      err instanceof Unreachable ||
      (err instanceof Refused && err.problem.status === 503) ||
      (err instanceof RefusedOnLine && isTemporary(err)),
  };
  const post = (path: string, body: unknown) => seat.ask<Playback>(path, { method: "POST", body });
  const player = new RoomPlayer(
    {
      clock: () => seat.client.call("rooms.clock"),
      source: (item) => seat.ask(`/playlist/${item}/source`),
      playback: () => seat.ask("/playback"),
      command: (command) => post("/playback", command),
      ended: (of) => post("/playback/ended", of),
      buffering: (buffering) => post("/playback/buffering", { buffering }),
      missing: loads.missing,
      temporary: loads.temporary,
      outdated: (err) => err instanceof Refused && err.problem.code === "room.playback_changed",
    },
    { item: (item) => danmaku.load(item), position: (ms) => danmaku.at(ms), failed },
  );
  const room = new OpenRoom(seat.room, loads, lines, people, { failed, ended: leave });
  room.stage = {
    room: (room, mayControl) => player.room(room, mayControl),
    items: (items) => player.setItems(items),
    playback: (playback) => {
      player.take(playback);
      return player.moment.item;
    },
    danmaku: (comment) => danmaku.live(comment),
    clear: () => danmaku.clear(),
    clears: () => danmaku.clears,
  };

  const el = h("div", { class: "watch" });
  render(
    <RoomPage
      seat={seat}
      room={room}
      lines={lines}
      people={people}
      player={player}
      danmaku={danmaku}
      on={{ fail, failed, leave }}
    />,
    el,
  );
  const offs = [
    seat.client.on("room.gone", (gone: RoomGone) => room.gone(gone)),
    seat.client.on("state", ({ state }) => {
      if (state === "ended" && seat.guest) leave("kicked");
    }),
    // Events from before the subscription are in the scene that is loaded after it.
    seat.client.subscribe(
      `room/${seat.room}`,
      (e) => room.event(e),
      () => void room.load("all"),
    ),
  ];
  function close(): void {
    if (room.closed) return;
    room.close();
    for (const off of offs) off();
    render(null, el);
    player.close();
    danmaku.close();
    seat.close();
  }
  return { el, close, catchUp: () => void room.load("all") };
}

function RoomPage({ seat, room, lines, people, player, danmaku, on }: Parts) {
  const tab = useSignal<(typeof TABS)[number]>("chat");
  const state = room.room.value;
  const me = room.me.value;
  const silent = Date.parse(me?.muted_until ?? "") > now();
  const { failed } = on;

  const choose = (name: (typeof TABS)[number]) => {
    tab.value = name;
    people.shown = name === "people";
    people.read().catch(failed);
  };
  const play = (item: string) => player.command({ do: "load", item });
  return (
    <>
      <header class="watch-head">
        <div>
          <h1 tabindex={-1}>{state?.name}</h1>
          <p class="muted" data-viewers="">
            {state && r.viewers(Math.max(1, state.viewers)) /* this user is a viewer too */}
          </p>
        </div>
        <RoomActions seat={seat} room={room} on={on} />
      </header>
      <Away seat={seat} />
      <div class="watch-main">
        <PlayerView player={player} danmaku={danmaku} />
        <Shoot
          seat={seat}
          player={player}
          danmaku={danmaku}
          may={room.may("danmaku") && !silent}
          moderate={room.may("moderate")}
          failed={failed}
        />
      </div>
      <section class="card watch-side">
        <Tabs
          label={r.doorLabel}
          names={TABS}
          texts={r.tabs}
          shown={tab.value}
          choose={choose}
          panel={(name, panel) => {
            switch (name) {
              case "chat":
                return (
                  <RoomChat
                    key={name}
                    panel={panel}
                    lines={lines}
                    seat={seat}
                    may={room.may("chat") && !silent}
                    failed={failed}
                  />
                );
              case "list":
                return (
                  <RoomPlaylist
                    key={name}
                    panel={panel}
                    items={room.items.value}
                    now={room.item.value}
                    arrange={room.may("playlist")}
                    control={room.may("control")}
                    seat={seat}
                    play={play}
                    camera={<Camera seat={seat} room={room} player={player} on={on} />}
                    failed={failed}
                  />
                );
              case "people":
                return <People key={name} panel={panel} people={people} me={me} seat={seat} failed={failed} />;
            }
          }}
        />
      </section>
    </>
  );
}

// Away states that the connection is interrupted.
function Away({ seat }: { seat: Seat }) {
  const away = useSignal(false);
  useLayoutEffect(() => seat.client.on("state", ({ state }) => void (away.value = state !== "online")), []);
  return (
    <p class="offline" role="status" hidden={!away.value}>
      {r.away}
    </p>
  );
}

function RoomActions({ seat, room, on }: Pick<Parts, "seat" | "room" | "on">) {
  const me = room.me.value;
  if (!me) return <div class="row room-doings" />;
  const doing = (shape: SignName, text: string, run: () => void) => (
    <button key={shape} type="button" class="secondary" aria-haspopup="dialog" onClick={run}>
      <Sign name={shape} />
      <span>{text}</span>
    </button>
  );
  const change = () =>
    settings(seat, room.room.peek()!, (saved) => room.settings({ ...saved, viewers: room.room.peek()!.viewers }));
  const leave = async () => {
    await seat.ask("/me", { method: "DELETE" });
    on.leave("left");
  };
  return (
    <div class="row room-doings">
      {room.may("invite") && doing("link", r.invite, () => invite(seat))}
      {room.may("settings") && doing("pen", r.settings, change)}
      {room.may("moderate") && doing("cross", r.bans, () => bans(seat))}
      {me.role === "owner" ? (
        <Twice
          key="end"
          text={r.end}
          sure={r.endSure}
          run={() => seat.ask("", { method: "DELETE" })}
          failed={on.failed}
        />
      ) : (
        <Twice key="leave" text={r.leave} sure={r.leaveSure} run={leave} failed={on.failed} />
      )}
    </div>
  );
}

// Camera publishes this device's camera to the room.
function Camera({ seat, room, player, on }: Pick<Parts, "seat" | "room" | "player" | "on">) {
  const running = useSignal<Broadcast | undefined>(undefined);
  const stop = async () => {
    const last = running.peek();
    running.value = undefined;
    await last?.stop();
  };
  useLayoutEffect(() => () => void stop().catch(() => {}), []); // the room is closed here
  const start = async () => {
    const title = r.live.title(user()?.name ?? "");
    try {
      running.value = await broadcast(seat, title, () => void stop().catch(on.failed));
    } catch (err) {
      if (!(err instanceof DOMException)) throw err;
      return on.fail(err.name === "NotAllowedError" ? r.live.refused : r.live.noCamera);
    }
    if (room.closed) return stop();
    const { item } = running.value;
    player.own = item;
    if (room.may("control")) await player.command({ do: "load", item });
  };
  return (
    <Act
      hidden={seat.guest || !navigator.mediaDevices || !canStream()} // a page without TLS has no access to cameras
      run={() => (running.peek() ? stop() : start())}
      failed={on.failed}
    >
      {running.value ? r.live.stop : r.live.begin}
    </Act>
  );
}
