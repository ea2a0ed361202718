// Forms that show a refusal next to the field that it is about.

import { signal, useSignal, type Signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useId, useMemo, useRef } from "preact/hooks";
import { Refused } from "../api";
import { say } from "../form";
import { Ended } from "../session";
import { t } from "../texts";

/** The faults of the fields of a form, by name. */
export type Faults = Signal<Readonly<Record<string, string>>>;

export const useFaults = (): Faults => useMemo(() => signal({}), []);

interface FormProps {
  class?: string;
  hidden?: boolean;
  faults?: Faults; // of the fields; other refusals are shown above the buttons
  fields?: ComponentChildren;
  submit: () => Promise<void>;
  children: ComponentChildren;
}

/** A form. submit runs once at a time. */
export function Form({ class: cls, hidden = false, faults, fields, submit, children }: FormProps) {
  const fault = useSignal("");
  const busy = useSignal(false);
  const form = useRef<HTMLFormElement>(null);
  const run = async () => {
    if (busy.peek()) return;
    busy.value = true;
    fault.value = "";
    if (faults) faults.value = {};
    try {
      await submit();
    } catch (err) {
      if (err instanceof Ended) return;
      fault.value = place(err, form.current!, faults);
      queueMicrotask(() => form.current?.querySelector<HTMLElement>("[aria-invalid]")?.focus());
    } finally {
      busy.value = false;
    }
  };
  return (
    <form
      class={cls}
      hidden={hidden}
      aria-busy={busy.value ? "true" : undefined}
      ref={form}
      onSubmit={(e) => {
        e.preventDefault();
        void run();
      }}
    >
      {fields}
      <p class="fault form-fault" role="alert">
        {fault.value}
      </p>
      {children}
    </form>
  );
}

// place sets the faults of the fields, and returns the text for the whole form.
function place(err: unknown, form: HTMLFormElement, faults: Faults | undefined): string {
  if (!(err instanceof Refused)) return say(err);
  const rest: string[] = [];
  const placed: Record<string, string> = {};
  for (const { location, message } of err.problem.errors ?? []) {
    const name = location.split(".").pop() ?? "";
    if (faults && form.elements.namedItem(name)) placed[name] = message;
    else rest.push(`${location}: ${message}`);
  }
  if (faults) faults.value = placed;
  return [say(err), ...rest].join(" ");
}

interface FieldProps {
  label: string;
  name: string;
  hint?: string;
  faults: Faults;
  input: (props: {
    id: string;
    name: string;
    "aria-describedby": string;
    "aria-invalid": "true" | undefined;
  }) => ComponentChildren;
}

/** A labelled input. */
export function Field({ label, name, hint, faults, input }: FieldProps) {
  const id = useId();
  const fault = faults.value[name] ?? "";
  const subject = label.replace(/[ ]?[(（].*/, "");
  const described = [`${id}-fault`, hint && `${id}-hint`].filter(Boolean).join(" ");
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {input({ id, name, "aria-describedby": described, "aria-invalid": fault ? "true" : undefined })}
      <span class="fault" id={`${id}-fault`}>
        {fault && t.form.fault(subject, fault)}
      </span>
      {hint && (
        <span class="hint" id={`${id}-hint`}>
          {hint}
        </span>
      )}
    </div>
  );
}
