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
import { messageMenu } from "./messagemenu";
import { ChatFace } from "./face";
import { openMenu, type Item } from "./menu";
import { Panel } from "./panel";
import { preview } from "./preview";
import { Stream, type StreamHandle } from "./stream";
import { Strips, type StripsHandle } from "./strips";
import { explain, isMuted, nameIn, addressPart, profileOf, titleOf, type ChatContext } from "./context";
import { stateOf } from "./transfer";
import { untilWords } from "./when";

const FOREVER = "9999-01-01T00:00:00Z";

/** The functions of the open chat that the page calls. */
export interface OpenChatHandle {
  goTo: (seq: number) => void; // scrolls to a message
}

interface OpenChatProps {
  chat: string;
  at: number; // the message to show; 0 for none
  ctx: ChatContext;
  handle: RefObject<OpenChatHandle | null>;
}

export function OpenChatView({ chat, at, ctx, handle }: OpenChatProps) {
  const { chats, files, groups, signals, presences, client } = ctx.connection;
  const group = groupOf(chat);
  const user = group ? "" : addressPart(chat);
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
      open: new OpenChat(chat, chats, signals, { failed: ctx.failed, gone: () => (spoken.value = c.quoteGone) }),
      quotes: new Quotes((seq) => chats.message(chat, seq)),
    }),
    [],
  );

  // On a touch screen, focus on the field would open the keyboard, so the heading gets the focus.
  const focus = () => {
    if (matchMedia("(pointer: coarse)").matches) title.current!.focus({ preventScroll: true });
    else composer.current!.focus();
  };
  const on = useMemo<Actions & { leave: () => void }>(
    () => ({
      menu: (row, opener) =>
        messageMenu(chat, row, opener, ctx, {
          reply: (m) => composer.current!.begin(m, false),
          edit: (m) => composer.current!.begin(m, true),
          said: (text) => (spoken.value = text),
          pinned: (seq) => strips.current?.pinned(seq) ?? false,
        }),
      goTo: (seq) => void open.goTo(seq),
      react: (seq, emoji, on) => void chats.react(chat, seq, emoji, on).catch(ctx.failed),
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
      if (m.from === ctx.me.id) {
        open.newFrom.value = 0;
        return;
      }
      open.arrived(m.seq);
      if (group) await groups.loadProfile(group, m.from);
      const who = m.system ? "" : c.says(nameIn(ctx, m.from, group)) + " ";
      spoken.value = who + preview(m, ctx, chat);
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
        if (user && (f.from === user || f.to === user)) spoken.value = `${f.name}: ${stateOf(f, ctx)}`;
      }),
    ];
    handle.current = { goTo: (seq) => void open.goTo(seq) };
    if (group)
      void groups.loadMembers(group).catch(() => {}); // the next connection retries
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
      ctx.failed(err);
    }
    input.value = "";
  };

  ctx.clock.track(); // a mute ends
  const silenced = group ? groups.silenced(group) : undefined;
  const silence = silenced ? (silenced.all ? g.allSilenced : g.silenced)(untilWords(silenced.until)) : "";
  return (
    <section class="room" aria-label={(group ? g.with : c.with)(titleOf(ctx, chat))} data-chat={addressPart(chat)}>
      <header class="room-head">
        <a class="round back" href="#/chats" aria-label={c.back}>
          <Icon name="left" />
        </a>
        <Peer chat={chat} ctx={ctx} title={title} />
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
            <Requests group={group} ctx={ctx} />
          </button>
        )}
        <input type="file" hidden name="offer" ref={offer} onChange={() => void offerFile()} />
        <Options
          chat={chat}
          ctx={ctx}
          picture={() => composer.current!.picture()}
          offer={() => offer.current!.click()}
        />
      </header>
      <Note ctx={ctx} />
      {group && <Strips group={group} ctx={ctx} handle={strips} goTo={on.goTo} />}
      <div class="room-body">
        <Empty open={open} none={none} ctx={ctx} />
        <Stream open={open} ctx={ctx} on={on} handle={stream} empty={(is) => (none.value = is)} />
        <Newest open={open} ctx={ctx} />
      </div>
      <p class="sr" role="status">
        {spoken.value}
      </p>
      <Composer
        chat={chat}
        ctx={ctx}
        silence={silence}
        handle={composer}
        on={{
          sent: () => void open.toNewest(),
          up: () => stream.current?.focusLast(),
          file: (file) => files.send(chat, file),
          voice: (r) => files.send(chat, r.file, "voice", { duration_ms: r.duration, waveform: r.waveform }),
        }}
      />
      {group && panel.value && <Panel group={group} ctx={ctx} close={closePanel} />}
    </section>
  );
}

// The picture, the name and the status of the peer or of the group.
function Peer({ chat, ctx, title }: { chat: string; ctx: ChatContext; title: RefObject<HTMLHeadingElement | null> }) {
  const { signals } = ctx.connection;
  const group = groupOf(chat);
  const typing = signals.get(chat)?.typing ?? false;
  ctx.clock.track();
  return (
    <>
      <span class="room-face" data-status={group ? "offline" : signals.status(addressPart(chat))}>
        <ChatFace chat={chat} ctx={ctx} />
        <span class="presence" />
      </span>
      <div class="room-who">
        <h2 tabindex={-1} ref={title}>
          {titleOf(ctx, chat)}
        </h2>
        <p class={typing ? "muted typing" : "muted"} role="status">
          {group ? groupStatus(group, typing, ctx) : peerStatus(addressPart(chat), typing, ctx)}
        </p>
      </div>
    </>
  );
}

function groupStatus(group: string, typing: boolean, ctx: ChatContext): string {
  return typing ? g.somebodyTypes : g.members(ctx.connection.groups.get(group)?.group.members ?? 0);
}

function peerStatus(user: string, typing: boolean, ctx: ChatContext): string {
  const { signals } = ctx.connection;
  const status = signals.status(user);
  const seen = signals.lastSeen(user);
  if (profileOf(ctx, user).deleted) return "";
  if (typing) return c.typing;
  if (status !== "offline") return c.presence[status];
  return seen ? c.lastSeen(ago(seen, now())) : "";
}

function Requests({ group, ctx }: { group: string; ctx: ChatContext }) {
  const waiting = ctx.connection.groups.requests(group).length;
  return (
    <span id="asking" class="badge" data-requests="" hidden={waiting === 0}>
      {waiting > 0 && waiting}
      {waiting > 0 && <span class="sr">{g.requestsCount(waiting)}</span>}
    </span>
  );
}

function Note({ ctx }: { ctx: ChatContext }) {
  ctx.clock.track();
  const away = ctx.connection.client.state !== "online";
  return (
    <p class="room-note" role="status" hidden={!away}>
      {away && c.away}
    </p>
  );
}

function Empty({ open, none, ctx }: { open: OpenChat; none: Signal<boolean>; ctx: ChatContext }) {
  const { chat } = open;
  let text = "";
  if (open.fault.value) text = explain(open.fault.value);
  else if (none.value) text = groupOf(chat) ? g.begin : c.begin(titleOf(ctx, chat));
  return (
    <p class="empty" hidden={!text}>
      {text}
    </p>
  );
}

function Newest({ open, ctx }: { open: OpenChat; ctx: ChatContext }) {
  const unread = ctx.connection.signals.get(open.chat)?.unread ?? 0;
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
  ctx: ChatContext;
  picture: () => void;
  offer: () => void;
}

function Options({ chat, ctx, picture, offer }: OptionsProps) {
  const opener = useRef<HTMLButtonElement>(null);
  const { chats, signals } = ctx.connection;
  const then = (work: Promise<unknown>) => void work.catch(ctx.failed);
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
