// A menu that a button opens. The browser closes it on Escape and on a tap elsewhere.

import { h, type Child } from "../dom";

export interface Item {
  text: string;
  label?: string;
  sure?: string; // the text of the confirmation
  run: () => void;
}

/** Opens a menu next to its button: short items in a row, then the others in a column. */
export function openMenu(opener: HTMLElement, row: Item[], items: Item[]): void {
  const entry = (item: Item, cls: string): HTMLElement => {
    let asked = !item.sure;
    const el: HTMLButtonElement = h(
      "button",
      {
        type: "button",
        role: "menuitem",
        class: cls,
        tabindex: -1,
        "aria-label": item.label,
        onclick: () => {
          if (!asked) {
            asked = true;
            el.textContent = item.sure!;
            el.classList.add("sure");
            return;
          }
          menu.hidePopover();
          item.run();
        },
      },
      item.text,
    );
    return el;
  };
  const children: Child[] = [
    row.length > 0 && h("div", { class: "menu-row", role: "group" }, ...row.map((i) => entry(i, "menu-short"))),
    ...items.map((i) => entry(i, "menu-item")),
  ];
  const menu: HTMLDivElement = h(
    "div",
    {
      class: "menu",
      role: "menu",
      popover: "auto",
      onkeydown: (e: KeyboardEvent) => walk(menu, e),
      ontoggle: (e: ToggleEvent) => {
        if (e.newState !== "closed") return;
        opener.setAttribute("aria-expanded", "false");
        const inside = menu.contains(document.activeElement) || document.activeElement === document.body;
        menu.remove();
        if (inside && opener.isConnected)
          (opener.tabIndex < 0 ? (opener.closest<HTMLElement>("[tabindex]:not(button)") ?? opener) : opener).focus();
      },
    },
    ...children,
  );
  document.getElementById("main")!.append(menu);
  menu.showPopover();
  opener.setAttribute("aria-expanded", "true");
  const at = opener.getBoundingClientRect();
  const { width, height } = menu.getBoundingClientRect();
  const below = at.bottom + 4 + height < innerHeight;
  menu.style.top = `${Math.max(8, below ? at.bottom + 4 : Math.min(at.top - 4, innerHeight - 8) - height)}px`;
  menu.style.left = `${Math.min(Math.max(8, at.right - width), innerWidth - width - 8)}px`;
  menu.querySelector<HTMLElement>("[role=menuitem]")?.focus();
}

function walk(menu: HTMLElement, e: KeyboardEvent): void {
  const all = [...menu.querySelectorAll<HTMLElement>("[role=menuitem]")];
  const at = all.indexOf(document.activeElement as HTMLElement);
  const to = {
    ArrowDown: at + 1,
    ArrowRight: at + 1,
    ArrowUp: at - 1,
    ArrowLeft: at - 1,
    Home: 0,
    End: all.length - 1,
    Tab: at + (e.shiftKey ? -1 : 1),
  }[e.key];
  if (to === undefined) return;
  e.preventDefault();
  all[(to + all.length) % all.length]?.focus();
}
