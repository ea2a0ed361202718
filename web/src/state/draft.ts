// The text that the user writes in a chat, with the message that it replies to or edits.

import { signal } from "@preact/signals-core";
import { isTemporary, type Chats, type Message } from "@stoa-dev/client";

const DRAFT_AFTER = 1500; // ms without a key until a draft is stored

export class Draft {
  /** The text in the field. */
  readonly text = signal("");
  /** The message that the text replies to or edits. */
  readonly about = signal<{ message: Message; edits: boolean } | undefined>(undefined);
  /** The error of the last sending. */
  readonly fault = signal<unknown>(undefined);

  #before = ""; // the text from before an edit
  #stored: string; // the draft on the server
  #timer: ReturnType<typeof setTimeout> | undefined;
  #closed = false;

  constructor(
    private readonly chat: string,
    private readonly chats: Pick<Chats, "get" | "pending" | "update" | "typing" | "send" | "edit">,
  ) {
    this.#stored = chats.get(chat)?.draft ?? "";
    // A draft that is already being sent is not shown in the field.
    if (!chats.pending(chat).some((out) => out.body.text === this.#stored.trim())) this.text.value = this.#stored;
  }

  /** The text that is stored as the draft; an edit is none. */
  get draft(): string {
    return this.about.peek()?.edits ? this.#before : this.text.peek();
  }

  set draft(text: string) {
    if (this.about.peek()?.edits) this.#before = text;
    else this.text.value = text;
  }

  /** Applies input of the user. */
  input(text: string): void {
    this.text.value = text;
    this.fault.value = undefined;
    if (this.about.peek()?.edits) return;
    this.chats.typing(this.chat, text.trim() !== "");
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#store(), DRAFT_AFTER);
  }

  /** Starts a reply to a message, or an edit of it. */
  begin(message: Message, edits: boolean): void {
    this.cancel();
    this.about.value = { message, edits };
    if (!edits) return;
    this.#before = this.text.peek();
    this.text.value = message.text ?? "";
  }

  /** Ends a reply or an edit. */
  cancel(): void {
    const edits = this.about.peek()?.edits;
    this.about.value = undefined;
    this.fault.value = undefined;
    if (edits) this.text.value = this.#before;
  }

  /** Sends the text, or stores the edit. It returns whether a message was sent. */
  async submit(mentions: string[] = []): Promise<boolean> {
    const text = this.text.peek().trim();
    if (!text) return false;
    const about = this.about.peek();
    this.fault.value = undefined;
    if (about?.edits) {
      try {
        if (text !== about.message.text) await this.chats.edit(this.chat, about.message.seq, text);
        if (this.about.peek() === about) this.cancel();
      } catch (err) {
        this.fault.value = err;
      }
      return false;
    }
    this.text.value = "";
    this.cancel();
    this.#store();
    try {
      const said = { kind: "text", text, ...(mentions.length > 0 && { mentions }) } as const;
      await this.chats.send(this.chat, said, about ? { reply_to: about.message.seq } : {});
      return true;
    } catch (err) {
      // The text is not stored elsewhere. It is put before any text that the user has written since.
      if (about && !this.about.peek()) this.begin(about.message, false);
      this.draft = [text, this.draft].filter(Boolean).join("\n");
      this.fault.value = err;
      return false;
    }
  }

  /** Stores the text as a draft. */
  close(): void {
    this.chats.typing(this.chat, false);
    if (this.about.peek()?.edits) this.cancel();
    this.#closed = true;
    this.#store();
  }

  // A chat without messages cannot have a draft.
  #store(): void {
    clearTimeout(this.#timer);
    const { draft } = this;
    if (draft === this.#stored || !this.chats.get(this.chat)?.seq) return;
    const before = this.#stored;
    this.#stored = draft;
    this.chats.update(this.chat, { draft }).catch((err: unknown) => {
      if (this.#stored !== draft) return; // a later change is being sent
      this.#stored = before;
      if (!isTemporary(err) || this.#closed) return;
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.#store(), DRAFT_AFTER);
    });
  }
}
