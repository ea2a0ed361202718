// The chat of a room.

import type { RoomLine } from "@stoa-dev/client";
import { useLayoutEffect, useRef } from "preact/hooks";
import { timeOf } from "../chat/when";
import { taken } from "../form";
import type { RoomChatState } from "../state/roomchat";
import { r } from "../texts/rooms";
import { Act } from "../ui/act";
import { Form } from "../ui/form";
import type { TabPanel } from "../ui/tabs";
import type { Seat } from "./seat";

const NEAR = 60; // px: this near to the end, the view scrolls to new lines

interface ChatProps {
  panel: TabPanel;
  lines: RoomChatState;
  seat: Seat;
  may: boolean; // the caller may write
  failed: (err: unknown) => void;
}

export function RoomChat({ panel, lines, seat, may, failed }: ChatProps) {
  const list = useRef<HTMLDivElement>(null);
  const input = useRef<HTMLInputElement>(null);
  const sent = useRef(false); // the next line is the user's own
  const all = lines.all.value;

  const el = list.current; // before the lines change
  const near = !el || el.scrollHeight - el.scrollTop - el.clientHeight < NEAR;
  useLayoutEffect(() => {
    if (near || sent.current) list.current!.scrollTop = list.current!.scrollHeight;
    sent.current = false;
  }, [all]);

  const send = async () => {
    const field = input.current!;
    const text = field.value.trim();
    if (!text) return;
    const line = await taken(field, () => seat.ask<RoomLine>("/chat", { method: "POST", body: { text } }));
    sent.current = true;
    lines.add(line);
    list.current!.scrollTop = list.current!.scrollHeight;
  };
  return (
    <div class="room-chat" {...panel}>
      <Act kind="link" hidden={!lines.hasOlder.value} run={lines.older} failed={failed}>
        {r.older}
      </Act>
      <p class="muted" hidden={!lines.ready.value || all.length > 0}>
        {r.saidNothing}
      </p>
      <div class="said-list" role="log" aria-label={r.tabs.chat} tabindex={0} ref={list}>
        {all.map((line) => (
          <LineItem key={line.seq} line={line} />
        ))}
      </div>
      <Form class="say" hidden={!may} submit={send}>
        <div class="say-row">
          <input name="say" maxlength={500} autocomplete="off" aria-label={r.say} placeholder={r.say} ref={input} />
          <button type="submit" class="primary small">
            {r.send}
          </button>
        </div>
      </Form>
      <p class="muted" hidden={may}>
        {r.silent}
      </p>
    </div>
  );
}

function LineItem({ line }: { line: RoomLine }) {
  return (
    <p data-seq={line.seq}>
      <span class="said-name">{line.name}</span>{" "}
      {line.guest && (
        <>
          <span class="role">{r.roles.guest}</span>{" "}
        </>
      )}
      <span class="said-text">{line.text}</span>{" "}
      <time class="said-at" datetime={line.at}>
        {timeOf(line.at)}
      </time>
    </p>
  );
}
