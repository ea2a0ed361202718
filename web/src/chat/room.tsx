// The open chat.

import { useSignal, type Signal } from "@preact/signals";
import type { Message } from "@stoa-dev/client";
import type { RefObject } from "preact";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { now } from "../api";
import { ago } from "../days";
import { groupOf } from "../state/groups";
import { OpenChat } from "../state/open";
import { Quotes } from "../state/quotes";
import { c } from "../texts/chats";
import { g } from "../texts/groups";
import { Icon, Sign } from "../ui/icon";
import type { Actions } from "./bubble";
import { Composer, type ComposerHandle } from "./composer";
import { messageMenu } from "./doings";
import { ChatFace } from "./face";
import { openMenu, type Item } from "./menu";
import { Panel } from "./panel";
import { preview } from "./preview";
import { Stream, type StreamHandle } from "./stream";
import { Strips, type StripsHandle } from "./strips";
import { explain, isMuted, nameIn, placeOf, profileOf, titleOf, type Talk } from "./talk";
import { stateOf } from "./transfer";
import { untilWords } from "./when";

const FOREVER = "9999-01-01T00:00:00Z";

/** The functions of the open chat that the page calls. */
export interface RoomHandle {
  goTo: (seq: number) => void; // scrolls to a message
}

interface RoomProps {
  chat: string;
  at: number; // the message to show; 0 for none
  talk: Talk;
  handle: RefObject<RoomHandle | null>;
}

export function Room({ chat, at, talk, handle }: RoomProps) {
  const { chats, files, groups, signals, presences, client } = talk.line;
  const group = groupOf(chat);
  const user = group ? "" : placeOf(chat);
  const title = useRef<HTMLHeadingElement>(null);
  const opener = useRef<HTMLButtonElement>(null); // of the panel
  const offer = useRef<HTMLInputElement>(null);
  const composer = useRef<ComposerHandle>(null);
  const stream = useRef<StreamHandle>(null);
  const strips = useRef<StripsHandle>(null);
  const spoken = useSignal(""); // the text for screen readers
  const none = useSignal(false); // the chat has no messages
  const panel = useSignal(false);
  const { open, quotes } = useMemo(
    () => ({
      open: new OpenChat(chat, chats, signals, { failed: talk.failed, gone: () => (spoken.value = c.quoteGone) }),
      quotes: new Quotes((seq) => chats.message(chat, seq)),
    }),
    [],
  );

  // On a screen with a keyboard that opens by itself, the heading gets the focus.
  const focus = () => {
    if (matchMedia("(pointer: coarse)").matches) title.current!.focus({ preventScroll: true });
    else composer.current!.focus();
  };
  const on = useMemo<Actions & { leave: () => void }>(
    () => ({
      menu: (row, opener) =>
        messageMenu(chat, row, opener, talk, {
          reply: (m) => composer.current!.begin(m, false),
          edit: (m) => composer.current!.begin(m, true),
          said: (text) => (spoken.value = text),
          pinned: (seq) => strips.current?.pinned(seq) ?? false,
        }),
      goTo: (seq) => void open.goTo(seq),
      react: (seq, emoji, on) => void chats.react(chat, seq, emoji, on).catch(talk.failed),
      retry: (id) => chats.retry(id),
      discard: async (id) => {
        await signals.run(chat, (chats) => chats.discard(id));
        composer.current!.focus();
      },
      quote: (seq) => quotes.get(seq, signals.messages(chat)),
      leave: focus,
    }),
    [],
  );

  useLayoutEffect(() => {
    const arrived = async (m: Message) => {
      if (m.from === talk.me.id) {
        open.newFrom.value = 0;
        return;
      }
      open.arrived(m.seq);
      if (group) await groups.meet(group, m.from);
      const who = m.system ? "" : c.says(nameIn(talk, m.from, group)) + " ";
      spoken.value = who + preview(m, talk, chat);
    };
    const changed = (seq: number, m?: Message) => {
      quotes.update(seq, m);
      if (strips.current?.pinned(seq)) strips.current.load();
    };
    const offs = [
      chats.on("message", (m) => {
        if (m.chat !== chat) return;
        if (m.system?.event === "pinned" || m.system?.event === "unpinned") strips.current?.load();
        void arrived(m);
      }),
      chats.on("changed", (m) => m.chat === chat && changed(m.seq, m)),
      chats.on("hidden", (m) => m.chat === chat && changed(m.seq)),
      client.on("transfer.updated", (f) => {
        if (user && (f.from === user || f.to === user)) spoken.value = `${f.name}: ${stateOf(f, talk)}`;
      }),
    ];
    handle.current = { goTo: (seq) => void open.goTo(seq) };
    if (group)
      void groups.want(group).catch(() => {}); // the next connection retries
    else void presences.ask(user);
    void open.open(at);
    if (at === 0) focus(); // otherwise the message gets the focus
    return () => {
      handle.current = null;
      for (const off of offs) off();
      open.close();
    };
  }, []);

  const closePanel = () => {
    panel.value = false;
    opener.current?.focus();
  };
  const offerFile = async () => {
    const input = offer.current!;
    const [file] = input.files ?? [];
    try {
      if (file) await files.offer(user, file);
      await open.toNewest();
    } catch (err) {
      talk.failed(err);
    }
    input.value = "";
  };

  talk.clock.track(); // a mute ends
  const silenced = group ? groups.silenced(group) : undefined;
  const silence = silenced ? (silenced.all ? g.allSilenced : g.silenced)(untilWords(silenced.until)) : "";
  return (
    <section class="room" aria-label={(group ? g.with : c.with)(titleOf(talk, chat))} data-chat={placeOf(chat)}>
      <header class="room-head">
        <a class="round back" href="#/chats" aria-label={c.back}>
          <Icon name="left" />
        </a>
        <Peer chat={chat} talk={talk} title={title} />
        {group && (
          <button
            type="button"
            class="round about"
            aria-expanded={panel.value}
            aria-label={g.about}
            aria-describedby="asking"
            title={g.about}
            ref={opener}
            onClick={() => (panel.value ? closePanel() : (panel.value = true))}
          >
            <Sign name="people" />
            <Requests group={group} talk={talk} />
          </button>
        )}
        <input type="file" hidden name="offer" ref={offer} onChange={() => void offerFile()} />
        <Options
          chat={chat}
          talk={talk}
          picture={() => composer.current!.picture()}
          offer={() => offer.current!.click()}
        />
      </header>
      <Note talk={talk} />
      {group && <Strips group={group} talk={talk} handle={strips} goTo={on.goTo} />}
      <div class="room-body">
        <Empty open={open} none={none} talk={talk} />
        <Stream open={open} talk={talk} on={on} handle={stream} empty={(is) => (none.value = is)} />
        <Newest open={open} talk={talk} />
      </div>
      <p class="sr" role="status">
        {spoken.value}
      </p>
      <Composer
        chat={chat}
        talk={talk}
        silence={silence}
        handle={composer}
        on={{
          sent: () => void open.toNewest(),
          up: () => stream.current?.focusLast(),
          file: (file) => files.send(chat, file),
          voice: (r) => files.send(chat, r.file, "voice", { duration_ms: r.duration, waveform: r.waveform }),
        }}
      />
      {group && panel.value && <Panel group={group} talk={talk} close={closePanel} />}
    </section>
  );
}

// The picture, the name and the status of the peer or of the group.
function Peer({ chat, talk, title }: { chat: string; talk: Talk; title: RefObject<HTMLHeadingElement | null> }) {
  const { signals } = talk.line;
  const group = groupOf(chat);
  const typing = signals.get(chat)?.typing ?? false;
  talk.clock.track();
  return (
    <>
      <span class="room-face" data-status={group ? "offline" : signals.status(placeOf(chat))}>
        <ChatFace chat={chat} talk={talk} />
        <span class="presence" />
      </span>
      <div class="room-who">
        <h2 tabindex={-1} ref={title}>
          {titleOf(talk, chat)}
        </h2>
        <p class={typing ? "muted typing" : "muted"} role="status">
          {group ? groupStatus(group, typing, talk) : peerStatus(placeOf(chat), typing, talk)}
        </p>
      </div>
    </>
  );
}

function groupStatus(group: string, typing: boolean, talk: Talk): string {
  return typing ? g.somebodyTypes : g.members(talk.line.groups.get(group)?.group.members ?? 0);
}

function peerStatus(user: string, typing: boolean, talk: Talk): string {
  const { signals } = talk.line;
  const status = signals.status(user);
  const seen = signals.lastSeen(user);
  if (profileOf(talk, user).deleted) return "";
  if (typing) return c.typing;
  if (status !== "offline") return c.presence[status];
  return seen ? c.lastSeen(ago(seen, now())) : "";
}

function Requests({ group, talk }: { group: string; talk: Talk }) {
  const waiting = talk.line.groups.requests(group).length;
  return (
    <span id="asking" class="badge" data-requests="" hidden={waiting === 0}>
      {waiting > 0 && waiting}
      {waiting > 0 && <span class="sr">{g.requestsCount(waiting)}</span>}
    </span>
  );
}

function Note({ talk }: { talk: Talk }) {
  talk.clock.track();
  const away = talk.line.client.state !== "online";
  return (
    <p class="room-note" role="status" hidden={!away}>
      {away && c.away}
    </p>
  );
}

function Empty({ open, none, talk }: { open: OpenChat; none: Signal<boolean>; talk: Talk }) {
  const { chat } = open;
  let text = "";
  if (open.fault.value) text = explain(open.fault.value);
  else if (none.value) text = groupOf(chat) ? g.begin : c.begin(titleOf(talk, chat));
  return (
    <p class="empty" hidden={!text}>
      {text}
    </p>
  );
}

function Newest({ open, talk }: { open: OpenChat; talk: Talk }) {
  const unread = talk.line.signals.get(open.chat)?.unread ?? 0;
  const hidden = !open.ready.value || open.atEnd.value;
  return (
    <button type="button" class="newest" hidden={hidden} onClick={() => void open.toNewest()}>
      <Sign name="down" />
      <span>{unread > 0 ? c.newBelow(unread) : c.toNewest}</span>
    </button>
  );
}

interface OptionsProps {
  chat: string;
  talk: Talk;
  picture: () => void;
  offer: () => void;
}

function Options({ chat, talk, picture, offer }: OptionsProps) {
  const opener = useRef<HTMLButtonElement>(null);
  const { chats, signals } = talk.line;
  const then = (work: Promise<unknown>) => void work.catch(talk.failed);
  const open = () => {
    const state = chats.get(chat);
    const items: Item[] = [];
    if (state?.seq) {
      const muted = isMuted(state.muted);
      const until = muted ? new Date(0).toISOString() : FOREVER;
      items.push({
        text: state.pinned ? c.unpin : c.pin,
        run: () => then(chats.update(chat, { pinned: !state.pinned })),
      });
      items.push({ text: muted ? c.unmute : c.mute, run: () => then(chats.update(chat, { muted: until })) });
      items.push({
        text: c.clear,
        sure: c.clearSure,
        run: () => then(signals.run(chat, (chats) => chats.clear(chat))),
      });
    }
    items.push({ text: c.sendPicture, run: picture });
    if (!groupOf(chat)) items.push({ text: c.files.offer, run: offer });
    if (!groupOf(chat)) items.push({ text: c.toFriends, run: () => void (location.hash = "#/friends") });
    openMenu(opener.current!, [], items);
  };
  return (
    <button type="button" class="round" aria-haspopup="menu" aria-label={c.options} ref={opener} onClick={open}>
      <Sign name="more" />
    </button>
  );
}
