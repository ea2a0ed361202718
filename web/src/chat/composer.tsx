// The field for messages, with the quoted or edited message and the draft.

import { effect, useSignal } from "@preact/signals";
import type { Message } from "@stoa-dev/client";
import type { RefObject } from "preact";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { Draft } from "../state/draft";
import { groupOf } from "../state/groups";
import { t } from "../texts";
import { c } from "../texts/chats";
import { Act } from "../ui/act";
import { Icon, Sign } from "../ui/icon";
import { Mentions, type MentionsHandle } from "./mentions";
import { pictureDialog } from "./picture";
import { preview } from "./preview";
import { canRecord, record, type Recorder, type Recording } from "./recorder";
import { explain, nameIn, type ChatContext } from "./context";

const LONGEST = 4000; // letters of a message

/** The functions of the field that the open chat calls. */
export interface ComposerHandle {
  focus: () => void;
  begin: (message: Message, edits: boolean) => void; // starts a reply or an edit
  picture: () => void; // asks for the address of a picture, and sends it
}

interface ComposerProps {
  chat: string;
  ctx: ChatContext;
  silence: string; // the reason why the user may not write here now; "" if they may
  handle: RefObject<ComposerHandle | null>;
  on: {
    sent: () => void;
    up: () => void; // the user leaves the field upwards
    file: (file: File) => void;
    voice: (r: Recording) => void;
  };
}

export function Composer({ chat, ctx, silence, handle, on }: ComposerProps) {
  const draft = useMemo(() => new Draft(chat, ctx.connection.chats), []);
  const field = useRef<HTMLTextAreaElement>(null);
  const files = useRef<HTMLInputElement>(null);
  const mentions = useRef<MentionsHandle>(null);
  const writing = useRef<HTMLDivElement>(null);
  const recorder = useSignal<Recorder | undefined>(undefined);
  const recording = useRef<AbortController | undefined>(undefined); // aborts the recording that runs or is about to begin
  const fault = useSignal(""); // of files and recordings
  const group = groupOf(chat);

  useLayoutEffect(
    () =>
      effect(() => {
        const text = draft.text.value;
        if (field.current && field.current.value !== text) field.current.value = text;
      }),
    [],
  );

  const begin = (message: Message, edits: boolean) => {
    draft.begin(message, edits);
    const { current } = field;
    current?.focus();
    current?.setSelectionRange(current.value.length, current.value.length);
  };
  const picture = () =>
    pictureDialog(async (media, text) => {
      const about = draft.about.peek();
      const reply = about && !about.edits ? { reply_to: about.message.seq } : {};
      await ctx.connection.chats.send(chat, { kind: "image", media, ...(text && { text }) }, reply);
      if ("reply_to" in reply) draft.cancel();
      on.sent();
    });
  useLayoutEffect(() => {
    handle.current = { focus: () => field.current?.focus({ preventScroll: true }), begin, picture };
    ctx.connection.drafts.set(chat, () => draft.draft);
    return () => {
      recording.current?.abort();
      ctx.connection.drafts.delete(chat);
      draft.close();
    };
  }, []);

  // A field that may not be used any longer loses the focus.
  const had = writing.current?.contains(document.activeElement) ?? false;
  useLayoutEffect(() => {
    if (silence && had) on.up();
  }, [silence]);

  const submit = async () => {
    fault.value = "";
    const text = draft.text.peek().trim();
    if (await draft.submit(mentions.current?.of(text))) on.sent();
  };
  const key = (e: KeyboardEvent) => {
    if (e.isComposing || e.keyCode === 229) return; // an input method handles the key
    if (mentions.current?.key(e)) return;
    if (e.key === "Enter" && !e.shiftKey) {
      e.preventDefault();
      void submit();
    } else if (e.key === "Escape" && draft.about.peek()) {
      e.preventDefault();
      e.stopPropagation();
      draft.cancel();
    } else if (e.key === "ArrowUp" && field.current!.value === "") {
      e.preventDefault();
      on.up();
    }
  };
  const type = (text: string) => {
    fault.value = "";
    draft.input(text);
  };
  const send = (chosen: File[]) => {
    fault.value = "";
    try {
      for (const file of chosen) on.file(file);
      on.sent();
    } catch (err) {
      fault.value = explain(err);
    }
  };
  const paste = (e: ClipboardEvent) => {
    const pasted = [...(e.clipboardData?.files ?? [])];
    if (pasted.length === 0) return;
    e.preventDefault();
    send(pasted);
  };
  const startRecording = async () => {
    if (recording.current) return; // the browser is asking for the microphone
    const stop = (recording.current = new AbortController());
    const failed = (err: unknown) => void (fault.value = err instanceof DOMException ? c.voice.none : explain(err));
    fault.value = "";
    try {
      recorder.value = await record(
        {
          done: (r) => {
            on.voice(r);
            on.sent();
          },
          over: () => {
            recorder.value = undefined;
            recording.current = undefined;
          },
          failed,
        },
        stop.signal,
      );
    } catch (err) {
      recording.current = undefined;
      failed(err);
    }
  };

  const records = recorder.value !== undefined;
  const recorded = useRef(false);
  useLayoutEffect(() => {
    if (recorded.current && !records) field.current?.focus();
    recorded.current = records;
  }, [records]);

  const sendFault = draft.fault.value;
  return (
    <form
      class="composer"
      onSubmit={(e) => {
        e.preventDefault();
        void submit();
      }}
    >
      <About draft={draft} chat={chat} ctx={ctx} done={() => field.current?.focus()} />
      <p class="fault" role="alert">
        {sendFault ? explain(sendFault) : fault.value}
      </p>
      {group && <Mentions field={field} group={group} ctx={ctx} handle={mentions} typed={type} />}
      <p class="silence" role="status" hidden={!silence}>
        {silence}
      </p>
      <div class="writing" hidden={Boolean(silence) || records} ref={writing}>
        <input
          type="file"
          hidden
          multiple
          ref={files}
          onChange={() => {
            const input = files.current!;
            send([...(input.files ?? [])]);
            input.value = "";
          }}
        />
        <button
          type="button"
          class="round"
          aria-label={c.files.send}
          title={c.files.send}
          onClick={() => files.current?.click()}
        >
          <Sign name="clip" />
        </button>
        <textarea
          name="message"
          rows={1}
          maxlength={LONGEST}
          aria-label={c.write}
          placeholder={c.write}
          enterkeyhint="send"
          disabled={Boolean(silence)}
          ref={field}
          onKeyDown={key}
          onInput={(e) => type(e.currentTarget.value)}
          onPaste={paste}
        />
        {canRecord() && (
          <button
            type="button"
            class="round"
            aria-label={c.voice.record}
            title={c.voice.record}
            onClick={() => void startRecording()}
          >
            <Sign name="voice" />
          </button>
        )}
        <button type="submit" class="round send" aria-label={c.send}>
          <Sign name="send" />
        </button>
      </div>
      {recorder.value && <RecorderBar recorder={recorder.value} failed={(err) => (fault.value = explain(err))} />}
    </form>
  );
}

interface AboutProps {
  draft: Draft;
  chat: string;
  ctx: ChatContext;
  done: () => void;
}

// The message that the text replies to or edits.
function About({ draft, chat, ctx, done }: AboutProps) {
  const about = draft.about.value;
  if (!about) return <div class="answering" hidden />;
  const { message, edits } = about;
  const name = message.from === ctx.me.id ? t.words.you : nameIn(ctx, message.from, groupOf(chat));
  const cancel = () => {
    draft.cancel();
    done();
  };
  return (
    <div class="answering">
      <div>
        <p class="quoted-from">{edits ? c.editing : c.replyTo(name)}</p>
        <p class="quoted-text">{preview(message, ctx, chat)}</p>
      </div>
      <button type="button" class="round" aria-label={t.words.cancel} onClick={cancel}>
        <Icon name="close" />
      </button>
    </div>
  );
}

function RecorderBar({ recorder, failed }: { recorder: Recorder; failed: (err: unknown) => void }) {
  const bar = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => bar.current!.querySelector<HTMLElement>(".primary")!.focus(), []);
  return (
    <div class="recorder" ref={bar} onKeyDown={(e) => e.key === "Escape" && recorder.cancel()}>
      <span class="record-dot" aria-hidden="true" />
      <span class="record-time" role="timer">
        {c.lasts(recorder.elapsed.value)}
      </span>
      <span class="muted" role="status">
        {c.voice.records}
      </span>
      <Act kind="link" run={recorder.cancel} failed={failed}>
        {t.words.cancel}
      </Act>
      <Act kind="primary" run={recorder.send} failed={failed}>
        {c.send}
      </Act>
    </div>
  );
}
