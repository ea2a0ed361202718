// Buttons that act at once, or after a confirmation.

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { t } from "../texts";

interface ActProps {
  kind?: "primary" | "secondary" | "link";
  class?: string; // in place of that of the kind
  run: () => unknown;
  failed: (err: unknown) => void;
  label?: string | undefined;
  title?: string | undefined;
  hidden?: boolean;
  children?: ComponentChildren;
}

/**
 * A button whose action runs once at a time. Meanwhile it is busy, and not disabled, because disabling would move the
 * focus.
 */
export function Act({ kind = "secondary", class: cls, run, failed, label, title, hidden, children }: ActProps) {
  const busy = useSignal(false);
  const press = async () => {
    if (busy.peek()) return;
    busy.value = true;
    try {
      await run();
    } catch (err) {
      failed(err);
    } finally {
      busy.value = false;
    }
  };
  return (
    <button
      type="button"
      class={cls ?? (kind === "primary" ? "primary small" : kind)}
      aria-label={label}
      title={title}
      hidden={hidden}
      aria-busy={busy.value ? "true" : undefined}
      onClick={() => void press()}
    >
      {children}
    </button>
  );
}

/** The replacement for a part that failed to load: the reason, and a button that retries. */
export const Unloaded = ({ why, load }: { why: string; load: () => Promise<unknown> }) => (
  <div class="stack">
    <p class="muted" role="alert">
      {why}
    </p>
    <div class="row">
      <Act run={load} failed={() => {}}>
        {t.words.tryAgain}
      </Act>
    </div>
  </div>
);

interface TwiceProps {
  text: string;
  sure: string;
  run: () => Promise<unknown>;
  failed: (err: unknown) => void;
  note?: string;
}

/**
 * A button that asks before it acts: a second tap confirms. That is quicker than a dialog. A double tap cannot confirm,
 * because the first button disappears. Escape cancels the question, and leaves a dialog around it open.
 */
export function Twice({ text, sure, run, failed, note }: TwiceProps) {
  const asking = useSignal(false);
  const el = useRef<HTMLDivElement>(null);
  const offer = useRef<HTMLButtonElement>(null);
  const no = useRef<HTMLButtonElement>(null);
  const focused = useRef(false); // the question, or the button after it, gets the focus
  const busy = useRef(false);
  const calm = (focus: boolean) => {
    focused.current = focus;
    asking.value = false;
  };
  useLayoutEffect(() => {
    if (focused.current) (asking.value ? no : offer).current?.focus();
    focused.current = false;
  }, [asking.value]);
  const confirm = async () => {
    if (busy.current) return;
    busy.current = true;
    try {
      await run();
    } catch (err) {
      failed(err);
    } finally {
      busy.current = false;
    }
    if (el.current) calm(el.current.contains(document.activeElement));
  };
  const escape = (e: KeyboardEvent) => {
    if (e.key !== "Escape" || !asking.peek()) return;
    e.preventDefault();
    calm(true);
  };
  if (!asking.value)
    return (
      <div class="row" ref={el} onKeyDown={escape}>
        <button
          key="offer"
          type="button"
          class="secondary"
          ref={offer}
          onClick={() => {
            focused.current = true;
            asking.value = true;
          }}
        >
          {text}
        </button>
      </div>
    );
  return (
    <div class="row" ref={el} onKeyDown={escape}>
      {note && <p class="hint">{note}</p>}
      <button key="yes" type="button" class="danger" onClick={() => void confirm()}>
        {sure}
      </button>
      <button key="no" type="button" class="link" ref={no} onClick={() => calm(true)}>
        {t.words.cancel}
      </button>
    </div>
  );
}
