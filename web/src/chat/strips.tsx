// The strips above the messages of a group: a new announcement, and pinned messages.

import { useSignal } from "@preact/signals";
import type { Message } from "@stoa-dev/client";
import type { RefObject } from "preact";
import { useLayoutEffect } from "preact/hooks";
import { t } from "../texts";
import { g } from "../texts/groups";
import { Act } from "../ui/act";
import { openDialog } from "../ui/dialog";
import { CloseRow } from "../ui/form";
import { Sign } from "../ui/icon";
import { preview } from "./preview";
import { ask, nameIn, type ChatContext } from "./context";

/** The functions of the strips that the open chat calls. */
export interface StripsHandle {
  pinned: (seq: number) => boolean;
  load: () => void; // loads the pinned messages again
}

interface StripsProps {
  group: string;
  ctx: ChatContext;
  handle: RefObject<StripsHandle | null>;
  goTo: (seq: number) => void;
}

export function Strips({ group, ctx, handle, goTo }: StripsProps) {
  const pins = useSignal<Message[] | undefined>(undefined);
  useLayoutEffect(() => {
    const load = async () => {
      try {
        const { messages } = await ctx.connection.client.call("chats.pins", { path: { chat: `g:${group}` } });
        pins.value = messages ?? [];
      } catch {
        // The next pin, or the next connection, retries.
      }
    };
    handle.current = {
      pinned: (seq) => pins.peek()?.some((m) => m.seq === seq) ?? false,
      load: () => void load(),
    };
    void load();
    return ctx.connection.client.on("open", ({ resumed }) => {
      if (!resumed || !pins.peek()) void load();
    });
  }, []);
  const all = pins.value ?? [];
  const [newest] = all;
  const open = () => {
    if (newest && all.length === 1) goTo(newest.seq);
    else pinnedDialog(all, group, ctx, goTo);
  };
  return (
    <div class="strips">
      <Announcement group={group} ctx={ctx} />
      <button type="button" class="strip pins" hidden={!newest} onClick={open}>
        {newest && <Sign name="pin" />}
        {newest && <span class="strip-text">{preview(newest, ctx, newest.chat)}</span>}
        {all.length > 1 && <span class="muted">{g.pinnedMore(all.length)}</span>}
        {newest && <span class="sr">{g.pinned}</span>}
      </button>
    </div>
  );
}

function Announcement({ group, ctx }: { group: string; ctx: ChatContext }) {
  const membership = ctx.connection.groups.get(group);
  const { announced = 0, announcement = "" } = membership?.group ?? {};
  const fresh = announcement !== "" && (membership?.me.seen ?? 0) < announced;
  const seen = () => ask(ctx, "groups.set_me", { path: { group }, body: { seen: announced } });
  return (
    <section class="strip announced" aria-label={g.announcement} hidden={!fresh}>
      {fresh && <Sign name="horn" />}
      {fresh && (
        <div class="strip-text">
          <p class="strip-title">{g.announcement}</p>
          <p class="strip-said">{announcement}</p>
        </div>
      )}
      {fresh && (
        <Act run={seen} failed={ctx.failed}>
          {g.read}
        </Act>
      )}
    </section>
  );
}

function pinnedDialog(pins: Message[], group: string, ctx: ChatContext, goTo: (seq: number) => void): void {
  openDialog(g.pinned, (close) => {
    const open = (m: Message) => {
      close();
      goTo(m.seq);
    };
    return (
      <>
        <ul class="picks">
          {pins.map((m) => (
            <li key={m.seq}>
              <button type="button" class="pick pinned-message" onClick={() => open(m)}>
                <span class="author">{m.from === ctx.me.id ? t.words.you : nameIn(ctx, m.from, group)}</span>
                <span>{preview(m, ctx, m.chat)}</span>
              </button>
            </li>
          ))}
        </ul>
        <CloseRow close={close} />
      </>
    );
  });
}
