// The messages of an open chat: bubbles, lines of days, and the line before the new ones.

import { useSignal } from "@preact/signals";
import type { RefObject } from "preact";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import type { Sending } from "../state/files";
import { groupOf } from "../state/groups";
import type { OpenChat } from "../state/open";
import { streamRows, type Row } from "../state/stream";
import { c } from "../texts/chats";
import { Bubble, Happening, type Actions } from "./bubble";
import { Scroller } from "./scroller";
import { addressPart, type ChatContext } from "./context";
import { TransferItem, UploadItem } from "./transfer";
import { dayLine } from "./when";

/** The functions of the list that the open chat calls. */
export interface StreamHandle {
  focusLast: () => void; // moves the focus to the last message
}

interface StreamProps {
  open: OpenChat;
  ctx: ChatContext;
  on: Actions & { leave: () => void };
  handle: RefObject<StreamHandle | null>;
  empty: (none: boolean) => void; // reports whether the chat has no rows
}

export function Stream({ open, ctx, on, handle, empty }: StreamProps) {
  const el = useRef<HTMLDivElement>(null);
  const scroller = useRef<Scroller>(null);
  const rendered = useRef<(() => void)[]>([]); // functions that wait for the next rendering
  const refresh = useSignal(0);
  const { chat } = open;
  const { signals, files, groups } = ctx.connection;

  // The rows subscribe to names and pictures themselves. The list is rendered with them, so that the view stays in place.
  groups.track();
  files.track();
  ctx.clock.track();
  void refresh.value;
  const group = groupOf(chat);
  const ready = open.ready.value;
  const hasNewer = signals.hasNewer(chat);
  const rows: Row<Sending>[] = !ready
    ? []
    : streamRows({
        me: ctx.me.id,
        chat: signals.get(chat),
        messages: signals.messages(chat),
        pending: signals.pending(chat),
        files: group ? [] : files.with(addressPart(chat)),
        uploads: files.sending(chat),
        hasOlder: signals.hasOlder(chat),
        hasNewer,
        newFrom: open.newFrom.value,
      });

  const before = scroller.current;
  if (before?.goneUp) open.atEnd.value = false;
  before?.measure();
  useLayoutEffect(() => {
    scroller.current?.restore(open.atEnd.peek() && !hasNewer);
    empty(ready && rows.length === 0);
    open.moved();
    for (const done of rendered.current.splice(0)) done();
  });

  useLayoutEffect(() => {
    const list = el.current!;
    const places = (scroller.current = new Scroller(list, {
      top: () => void open.load("older"),
      bottom: () => void open.load("newer"),
      moved: () => open.moved(),
    }));
    open.list = {
      atEnd: () => places.atEnd,
      lastSeen: () => places.lastSeen(),
      toEnd: () => places.toEnd(),
      look: () => places.look(),
      showNew: () => list.querySelector(".newline")?.scrollIntoView({ block: "start" }),
      show: (seq) => show(list, seq),
      visible: () => document.visibilityState === "visible",
      rendered: () =>
        new Promise((done) => {
          rendered.current.push(done);
          refresh.value++; // there may be no other change
        }),
    };
    handle.current = { focusLast: () => ([...list.querySelectorAll<HTMLElement>(".message")].at(-1) ?? list).focus() };
  }, []);

  const item = (row: Row<Sending>) => {
    switch (row.kind) {
      case "day":
        return <Separator key={row.key} class="day" text={dayLine(row.at)} />;
      case "new":
        return <Separator key={row.key} class="newline" text={c.newFromHere} />;
      case "event":
        return <Happening key={row.key} message={row.message} ctx={ctx} />;
      case "bubble": {
        const { key, ...rest } = row;
        return <BubbleItem key={key} id={key} {...rest} chat={chat} ctx={ctx} on={on} />;
      }
      case "file":
        return <TransferItem key={row.key} transfer={row.transfer} ctx={ctx} />;
      case "upload":
        return <UploadItem key={row.key} upload={row.upload} ctx={ctx} />;
    }
  };
  return (
    <div
      class="stream"
      role="log"
      aria-live="off"
      tabindex={0}
      aria-label={c.messages}
      ref={el}
      onKeyDown={(e) => walk(el.current!, e, on.leave)}
    >
      <ol class="messages">{rows.map(item)}</ol>
    </div>
  );
}

const Separator = ({ class: cls, text }: { class: string; text: string }) => (
  <li class={cls}>
    <span>{text}</span>
  </li>
);

interface BubbleItemProps extends Omit<Extract<Row<Sending>, { kind: "bubble" }>, "key"> {
  id: string;
  chat: string;
  ctx: ChatContext;
  on: Actions;
}

// The properties of a row are compared one by one, so that only changed rows are rendered again.
function BubbleItem({ id, chat, ctx, on, ...row }: BubbleItemProps) {
  const whole = useMemo(() => ({ ...row, key: id }), Object.values(row));
  return <Bubble row={whole} chat={chat} ctx={ctx} on={on} />;
}

// show scrolls a message into the middle, and moves the focus to it. It returns false if the message is not loaded.
function show(list: HTMLElement, seq: number): boolean {
  const row = list.querySelector<HTMLElement>(`[data-seq="${seq}"]`);
  if (!row) return false;
  row.scrollIntoView({ block: "center" });
  row.focus({ preventScroll: true });
  row.classList.remove("found-here");
  void row.offsetWidth; // restarts the animation
  row.classList.add("found-here");
  return true;
}

// The arrow keys move from message to message; Enter opens the menu of one.
function walk(list: HTMLElement, e: KeyboardEvent, leave: () => void): void {
  const all = [...list.querySelectorAll<HTMLElement>(".message")];
  const on = document.activeElement;
  const at = all.indexOf(on as HTMLElement);
  if (at < 0 && on !== list) return;
  const to = {
    ArrowUp: at < 0 ? all.length - 1 : at - 1,
    ArrowDown: at < 0 ? all.length : at + 1,
    Home: 0,
    End: all.length - 1,
  }[e.key];
  if (to !== undefined) {
    e.preventDefault();
    if (to >= all.length) return leave();
    all[Math.max(0, to)]?.focus();
  } else if (e.key === "Enter" && at >= 0) {
    e.preventDefault();
    all[at]!.querySelector<HTMLElement>(".more")?.click();
  } else if (e.key === "Escape") leave();
}
