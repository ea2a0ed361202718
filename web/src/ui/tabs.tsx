// Tabs: a row of buttons that show one of several panels.

import type { ComponentChild } from "preact";
import { useId, useRef } from "preact/hooks";

/** The attributes of the element with a panel's content. */
export interface TabPanel {
  id: string;
  role: "tabpanel";
  "aria-labelledby": string;
  hidden: boolean;
}

interface TabsProps<T extends string> {
  label: string;
  names: readonly T[];
  texts: Record<T, string>;
  shown: T;
  choose: (name: T) => void;
  panel: (name: T, attributes: TabPanel) => ComponentChild;
}

export function Tabs<T extends string>({ label, names, texts, shown, choose, panel }: TabsProps<T>) {
  const id = useId();
  const list = useRef<HTMLDivElement>(null);
  const walk = (e: KeyboardEvent) => {
    const buttons = [...list.current!.children] as HTMLElement[];
    const at = buttons.indexOf(document.activeElement as HTMLElement);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: names.length - 1 }[e.key];
    if (at < 0 || to === undefined) return;
    e.preventDefault();
    const next = (to + names.length) % names.length;
    choose(names[next]!);
    buttons[next]!.focus();
  };
  return (
    <>
      <div class="tabs" role="tablist" aria-label={label} ref={list} onKeyDown={walk}>
        {names.map((name) => (
          <button
            key={name}
            type="button"
            role="tab"
            id={`${id}-${name}`}
            aria-controls={`${id}-${name}-panel`}
            aria-selected={name === shown}
            tabindex={name === shown ? 0 : -1}
            data-tab={name}
            onClick={() => choose(name)}
          >
            {texts[name]}
          </button>
        ))}
      </div>
      {names.map((name) =>
        panel(name, {
          id: `${id}-${name}-panel`,
          role: "tabpanel",
          "aria-labelledby": `${id}-${name}`,
          hidden: name !== shown,
        }),
      )}
    </>
  );
}
