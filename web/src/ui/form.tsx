// Forms that show a refusal next to the field that it is about.

import { signal, useSignal, type ReadonlySignal } from "@preact/signals";
import { createContext, type ComponentChildren, type InputHTMLAttributes } from "preact";
import { useContext, useId, useRef } from "preact/hooks";
import { Refused } from "../api";
import { say } from "../form";
import { Ended } from "../session";
import { t } from "../texts";

// The faults of the fields of a form, by name.
type Faults = Readonly<Record<string, string>>;
const FaultsOf = createContext<ReadonlySignal<Faults>>(signal({}));

interface FormProps {
  class?: string;
  hidden?: boolean;
  fields?: ComponentChildren; // refusals that are about none of them are shown below them
  submit: (values: FormData) => Promise<void>;
  children: ComponentChildren;
}

/** A form. submit runs once at a time. */
export function Form({ class: cls, hidden = false, fields, submit, children }: FormProps) {
  const { fault, failed } = useFault();
  const faults = useSignal<Faults>({});
  const busy = useSignal(false);
  const form = useRef<HTMLFormElement>(null);
  const run = async () => {
    if (busy.peek()) return;
    busy.value = true;
    fault.value = "";
    faults.value = {};
    try {
      await submit(new FormData(form.current!));
    } catch (err) {
      failed(err);
      if (err instanceof Refused && form.current) place(err);
    } finally {
      busy.value = false;
    }
  };
  const place = (err: Refused) => {
    const placed: Record<string, string> = {};
    for (const { location, message } of err.problem.errors ?? []) {
      const name = location.split(".").pop() ?? "";
      if (form.current!.querySelector(`[name="${CSS.escape(name)}"][aria-describedby]`)) placed[name] = message;
      else fault.value += ` ${location}: ${message}`;
    }
    faults.value = placed;
    queueMicrotask(() => form.current?.querySelector<HTMLElement>("[aria-invalid]")?.focus());
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
      <FaultsOf.Provider value={faults}>{fields}</FaultsOf.Provider>
      <Fault text={fault} />
      {children}
    </form>
  );
}

/** The text about the last failure of a part. */
export function useFault() {
  const fault = useSignal("");
  const failed = (err: unknown) => {
    if (!(err instanceof Ended)) fault.value = say(err);
  };
  return { fault, failed };
}

export const Fault = ({ text }: { text: ReadonlySignal<string> }) => (
  <p class="fault form-fault" role="alert">
    {text.value}
  </p>
);

/** The text of a field; "" if the form has no such field. */
export const textOf = (values: FormData, name: string) => ((values.get(name) as string | null) ?? "").trim();

interface Labelled {
  label: string;
  name: string;
  hint?: string | undefined;
  hidden?: boolean;
}

interface FieldProps extends Labelled {
  input: (props: {
    id: string;
    name: string;
    "aria-describedby": string;
    "aria-invalid": "true" | undefined;
  }) => ComponentChildren;
}

/** A labelled control. */
export function Field({ label, name, hint, hidden = false, input }: FieldProps) {
  const id = useId();
  const fault = useContext(FaultsOf).value[name] ?? "";
  const subject = label.replace(/[ ]?[(（].*/, "");
  const described = [`${id}-fault`, hint && `${id}-hint`].filter(Boolean).join(" ");
  return (
    <div class="field" hidden={hidden}>
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

/** A labelled input. The other properties are those of the input. */
export const Input = ({
  label,
  name,
  hint,
  hidden = false,
  ...rest
}: Labelled & InputHTMLAttributes<HTMLInputElement>) => (
  <Field {...{ label, name, hint, hidden }} input={(props) => <input autocomplete="off" {...rest} {...props} />} />
);

interface AreaProps extends Labelled {
  text: string;
  maxlength: number;
}

export const Area = ({ text, maxlength, ...labelled }: AreaProps) => (
  <Field {...labelled} input={(props) => <textarea {...props} rows={4} maxlength={maxlength} defaultValue={text} />} />
);

interface SelectProps<T extends string | number> extends Labelled {
  values: readonly T[];
  text: (value: T) => string;
  chosen?: T | undefined;
  disabled?: boolean;
  changed?: (value: T) => void;
  kept?: boolean; // each new drawing shows the chosen value, even after the user has selected another one
}

export function Select<T extends string | number>(select: SelectProps<T>) {
  const { values, text, chosen, disabled = false, changed, kept = false, ...labelled } = select;
  return (
    <Field
      {...labelled}
      input={(props) => (
        <select
          {...props}
          {...(kept && chosen !== undefined && { value: chosen })}
          disabled={disabled}
          onChange={(e) => changed?.(e.currentTarget.value as T)}
        >
          {values.map((value) => (
            <option key={value} value={value} selected={value === chosen}>
              {text(value)}
            </option>
          ))}
        </select>
      )}
    />
  );
}

/** A checkbox. */
export const Switch = ({ label, name, on = false, hidden = false }: Labelled & { on?: boolean }) => (
  <label class="switch" hidden={hidden}>
    <input type="checkbox" name={name} defaultChecked={on} />
    <span>{label}</span>
  </label>
);

interface RowProps {
  close: () => void;
  text?: string;
}

/** The buttons of a dialog with a form. */
export const SaveRow = ({ close, text = t.words.save }: RowProps) => (
  <div class="row">
    <button type="submit" class="primary">
      {text}
    </button>
    <Close close={close} text={t.words.cancel} />
  </div>
);

/** The button of a dialog that asks for nothing. */
export const CloseRow = ({ close, text = t.words.close }: RowProps) => (
  <div class="row">
    <Close close={close} text={text} />
  </div>
);

const Close = ({ close, text }: Required<RowProps>) => (
  <button type="button" class="link" onClick={close}>
    {text}
  </button>
);
