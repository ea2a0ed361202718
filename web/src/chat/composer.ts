// The field for messages, with the quoted or edited message and the draft.

import { isTemporary, type Message } from "@stoa-dev/client";
import { h, icon, put } from "../dom";
import { t } from "../texts";
import { c } from "../texts/chats";
import { sign } from "./icons";
import { preview } from "./preview";
import { groupOf } from "./groups";
import { Mentions } from "./mentions";
import { pictureDialog } from "./picture";
import { canRecord, record, type Recording } from "./recorder";
import { explain, nameIn, type Talk } from "./talk";

const DRAFT_AFTER = 1500; // ms without a key until a draft is stored
const LONGEST = 4000; // letters of a message

export class Composer {
  readonly field: HTMLTextAreaElement;
  readonly el: HTMLFormElement;

  readonly #bar = h("div", { class: "answering", hidden: true });
  readonly #fault = h("p", { class: "fault", role: "alert" });
  readonly #writing: HTMLElement;
  readonly #silence = h("p", { class: "silence", role: "status", hidden: true });
  readonly #mentions: Mentions | undefined;
  #recording: AbortController | undefined; // aborts the recording that runs or is about to begin
  #about: { message: Message; edits: boolean } | undefined;
  #before = ""; // the text in the field before an edit
  #kept: string; // the draft on the server
  #timer: ReturnType<typeof setTimeout> | undefined;
  #closed = false;

  constructor(
    private readonly chat: string,
    private readonly talk: Talk,
    private readonly on: {
      sent: () => void;
      up: () => void;
      file: (file: File) => void;
      voice: (r: Recording) => void;
    },
  ) {
    const { chats, drafts } = talk.line;
    this.#kept = chats.get(chat)?.draft ?? "";
    drafts.set(chat, () => this.#draft);
    this.field = h("textarea", {
      name: "message",
      rows: 1,
      maxlength: LONGEST,
      "aria-label": c.write,
      placeholder: c.write,
      enterkeyhint: "send",
      onkeydown: (e: KeyboardEvent) => this.#key(e),
      oninput: () => this.#typed(),
      onpaste: (e: ClipboardEvent) => this.#pasted(e),
    });
    // otherwise the draft is already being sent
    if (!chats.pending(chat).some((out) => out.body.text === this.#kept.trim())) this.field.value = this.#kept;
    const group = groupOf(chat);
    if (group) this.#mentions = new Mentions(this.field, group, talk);
    const input = h("input", {
      type: "file",
      hidden: true,
      multiple: true,
      onchange: () => (this.#files([...(input.files ?? [])]), (input.value = "")),
    });
    this.#writing = h(
      "div",
      { class: "writing" },
      input,
      h(
        "button",
        {
          type: "button",
          class: "round",
          "aria-label": c.files.send,
          title: c.files.send,
          onclick: () => input.click(),
        },
        sign("clip"),
      ),
      this.field,
      canRecord()
        ? h(
            "button",
            {
              type: "button",
              class: "round",
              "aria-label": c.voice.record,
              title: c.voice.record,
              onclick: () => void this.#record(),
            },
            sign("voice"),
          )
        : null,
      h("button", { type: "submit", class: "round send", "aria-label": c.send }, sign("send")),
    );
    this.el = h(
      "form",
      { class: "composer", onsubmit: (e: SubmitEvent) => (e.preventDefault(), void this.#submit()) },
      this.#bar,
      this.#fault,
      this.#mentions?.el ?? null,
      this.#silence,
      this.#writing,
    );
  }

  /** Shows why the user may not write here now; "" if they may. */
  silence(why: string): void {
    if (this.#silence.textContent === why) return;
    const had = this.#writing.contains(document.activeElement);
    this.#silence.textContent = why;
    this.#silence.hidden = why === "";
    this.#writing.hidden = this.field.disabled = why !== "";
    if (why && had) this.on.up();
  }

  /** Starts a reply to a message, or an edit of it. */
  begin(message: Message, edits: boolean): void {
    this.#cancel();
    this.#about = { message, edits };
    const name = message.from === this.talk.me.id ? t.words.you : nameIn(this.talk, message.from, groupOf(this.chat));
    put(
      this.#bar,
      h(
        "div",
        {},
        h("p", { class: "quoted-from" }, edits ? c.editing : c.replyTo(name)),
        h("p", { class: "quoted-text" }, preview(message, this.talk, this.chat)),
      ),
      h(
        "button",
        {
          type: "button",
          class: "round",
          "aria-label": t.words.cancel,
          onclick: () => (this.#cancel(), this.field.focus()),
        },
        icon("close"),
      ),
    );
    this.#bar.hidden = false;
    if (edits) {
      this.#before = this.field.value;
      this.field.value = message.text ?? "";
    }
    this.field.focus();
    this.field.setSelectionRange(this.field.value.length, this.field.value.length);
  }

  /** Stores the text as a draft. */
  close(): void {
    this.#recording?.abort();
    this.talk.line.chats.typing(this.chat, false);
    if (this.#about?.edits) this.field.value = this.#before;
    this.talk.line.drafts.delete(this.chat);
    this.#closed = true;
    this.#keep();
  }

  #cancel(): void {
    if (this.#about?.edits) this.field.value = this.#before;
    this.#about = undefined;
    this.#bar.hidden = true;
    this.#fault.textContent = "";
  }

  #key(e: KeyboardEvent): void {
    if (e.isComposing || e.keyCode === 229) return; // an input method handles the key
    if (this.#mentions?.key(e)) return;
    if (e.key === "Enter" && !e.shiftKey) {
      e.preventDefault();
      void this.#submit();
    } else if (e.key === "Escape" && this.#about) {
      e.preventDefault();
      e.stopPropagation();
      this.#cancel();
    } else if (e.key === "ArrowUp" && this.field.value === "") {
      e.preventDefault();
      this.on.up();
    }
  }

  #typed(): void {
    this.#fault.textContent = "";
    if (this.#about?.edits) return;
    this.talk.line.chats.typing(this.chat, this.field.value.trim() !== "");
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#keep(), DRAFT_AFTER);
  }

  get #draft(): string {
    return this.#about?.edits ? this.#before : this.field.value;
  }

  set #draft(text: string) {
    if (this.#about?.edits) this.#before = text;
    else this.field.value = text;
  }

  // A chat without messages cannot have a draft.
  #keep(): void {
    clearTimeout(this.#timer);
    const draft = this.#draft;
    const { chats } = this.talk.line;
    if (draft === this.#kept || !chats.get(this.chat)?.seq) return;
    const before = this.#kept;
    this.#kept = draft;
    chats.update(this.chat, { draft }).catch((err: unknown) => {
      if (this.#kept !== draft) return; // a later change is being sent
      this.#kept = before;
      if (!isTemporary(err) || this.#closed) return;
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.#keep(), DRAFT_AFTER);
    });
  }

  async #submit(): Promise<void> {
    const text = this.field.value.trim();
    if (!text) return;
    const { chats } = this.talk.line;
    const about = this.#about;
    this.#fault.textContent = "";
    if (about?.edits) {
      try {
        if (text !== about.message.text) await chats.edit(this.chat, about.message.seq, text);
        if (this.#about === about) this.#cancel();
      } catch (err) {
        this.#fault.textContent = explain(err);
      }
      return;
    }
    const mentions = this.#mentions?.of(text) ?? [];
    this.field.value = "";
    this.#cancel();
    this.#keep();
    try {
      await chats.send(
        this.chat,
        { kind: "text", text, ...(mentions.length > 0 && { mentions }) },
        about ? { reply_to: about.message.seq } : {},
      );
      this.on.sent();
    } catch (err) {
      // The text is not stored elsewhere. It is put before any text that the user has written since.
      if (about && !this.#about) this.begin(about.message, false);
      this.#draft = [text, this.#draft].filter(Boolean).join("\n");
      this.#fault.textContent = explain(err);
    }
  }

  #pasted(e: ClipboardEvent): void {
    const files = [...(e.clipboardData?.files ?? [])];
    if (files.length === 0) return;
    e.preventDefault();
    this.#files(files);
  }

  #files(files: File[]): void {
    this.#fault.textContent = "";
    try {
      for (const file of files) this.on.file(file);
      this.on.sent();
    } catch (err) {
      this.#fault.textContent = explain(err);
    }
  }

  async #record(): Promise<void> {
    if (this.#recording) return; // the browser is asking for the microphone
    const recording = (this.#recording = new AbortController());
    const failed = (err: unknown) =>
      void (this.#fault.textContent = err instanceof DOMException ? c.voice.none : explain(err));
    this.#fault.textContent = "";
    try {
      const bar = await record(
        {
          done: (r) => {
            this.on.voice(r);
            this.on.sent();
          },
          over: () => {
            bar?.remove();
            this.#recording = undefined;
            this.#writing.hidden = this.field.disabled;
            if (!this.#writing.hidden) this.field.focus();
          },
          failed,
        },
        recording.signal,
      );
      if (!bar) return;
      this.#writing.hidden = true;
      this.el.append(bar);
      bar.querySelector<HTMLElement>(".primary")!.focus();
    } catch (err) {
      this.#recording = undefined;
      failed(err);
    }
  }

  /** Asks for the address of a picture, and sends it. */
  picture(): void {
    pictureDialog(async (media, text) => {
      const reply = this.#about && !this.#about.edits ? { reply_to: this.#about.message.seq } : {};
      await this.talk.line.chats.send(this.chat, { kind: "image", media, ...(text && { text }) }, reply);
      if ("reply_to" in reply) this.#cancel();
      this.on.sent();
    });
  }
}
