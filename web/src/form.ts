// Forms that show a refusal next to the field that it is about.

import { Refused } from "./api";
import { h, type Child } from "./dom";
import { Ended } from "./session";
import { t } from "./texts";

export interface Field {
  el: HTMLElement;
  label: HTMLLabelElement;
  input: HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement;
  fault: (text: string) => void; // it continues the label: "is too long"; "" removes it
}

let fields = 0;

/** A labelled input. props are those of the input; hint is shown below it. */
export function field(
  label: string,
  props: Record<string, string | number | boolean> & { name: string },
  hint?: string,
  control?: HTMLSelectElement | HTMLTextAreaElement,
): Field {
  const id = `f${++fields}`;
  const subject = label.replace(/[ ]?[(（].*/, "");
  const input = control ?? h("input", props);
  input.id = id;
  input.name = props.name;
  const text = h("label", { for: id }, label);
  const fault = h("span", { class: "fault", id: `${id}-fault` });
  const note = hint ? h("span", { class: "hint", id: `${id}-hint` }, hint) : null;
  const described = [fault.id, note?.id].filter(Boolean).join(" ");
  input.setAttribute("aria-describedby", described);
  return {
    el: h("div", { class: "field" }, text, input, fault, note),
    label: text,
    input,
    fault: (text) => {
      fault.textContent = text && t.form.fault(subject, text);
      if (text) input.setAttribute("aria-invalid", "true");
      else input.removeAttribute("aria-invalid");
    },
  };
}

/**
 * Sends the text of a field, and clears the field meanwhile, so that the user can type on. If the sending fails, the
 * text is put back.
 */
export async function taken<T>(input: HTMLInputElement, send: () => Promise<T>): Promise<T> {
  const text = input.value;
  input.value = "";
  try {
    return await send();
  } catch (err) {
    input.value = [text, input.value].filter(Boolean).join(" ");
    throw err;
  }
}

/**
 * A form around fields. submit runs once at a time. A refusal is shown next to the field of its location, and any other
 * above the button.
 */
export function form(
  props: Record<string, string>,
  fs: Omit<Field, "label">[],
  submit: () => Promise<void>,
  ...children: Child[]
): HTMLFormElement {
  const fault = h("p", { class: "fault form-fault", role: "alert" });
  let busy = false;
  const el = h("form", {
    ...props,
    onsubmit: async (e: SubmitEvent) => {
      e.preventDefault();
      if (busy) return;
      busy = true;
      el.setAttribute("aria-busy", "true");
      fault.textContent = "";
      for (const f of fs) f.fault("");
      try {
        await submit();
      } catch (err) {
        if (err instanceof Ended) return;
        fault.textContent = place(err, fs);
        (el.querySelector("[aria-invalid]") as HTMLElement | null)?.focus();
      } finally {
        busy = false;
        el.removeAttribute("aria-busy");
      }
    },
  });
  for (const f of fs) if (!f.el.parentNode) el.append(f.el); // the caller may have placed it
  el.append(fault);
  for (const c of children) if (c) el.append(c);
  return el;
}

// place shows each fault at its field, and returns the text for the whole form.
function place(err: unknown, fs: Omit<Field, "label">[]): string {
  if (!(err instanceof Refused)) return say(err);
  const rest: string[] = [];
  for (const { location, message } of err.problem.errors ?? []) {
    const name = location.split(".").pop();
    const f = fs.find((f) => f.input.name === name);
    if (f) f.fault(message);
    else rest.push(`${location}: ${message}`);
  }
  return [say(err), ...rest].join(" ");
}

/** The text for the user about a failure. */
export function say(err: unknown): string {
  if (err instanceof Refused) {
    const wait = err.retryAfter;
    if (!wait) return err.message;
    return err.message + t.form.again(wait);
  }
  return err instanceof Error ? err.message : String(err);
}
