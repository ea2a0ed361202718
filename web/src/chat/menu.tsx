// A menu that a button opens. The browser closes it on Escape and on a tap elsewhere.

import { useSignal } from "@preact/signals";
import { render } from "preact";
import { h } from "../dom";

export interface Item {
  text: string;
  label?: string;
  sure?: string; // the text of the confirmation
  run: () => void;
}

/** Opens a menu next to its button: short items in a row, then the others in a column. */
export function openMenu(opener: HTMLElement, row: Item[], items: Item[]): void {
  const menu: HTMLDivElement = h("div", {
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
  });
  const entry = (item: Item, cls: string) => (
    <Entry key={item.text} item={item} cls={cls} close={() => menu.hidePopover()} />
  );
  render(
    <>
      {row.length > 0 && (
        <div class="menu-row" role="group">
          {row.map((item) => entry(item, "menu-short"))}
        </div>
      )}
      {items.map((item) => entry(item, "menu-item"))}
    </>,
    menu,
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

function Entry({ item, cls, close }: { item: Item; cls: string; close: () => void }) {
  const asks = useSignal(false);
  const press = () => {
    if (item.sure && !asks.peek()) return void (asks.value = true);
    close();
    item.run();
  };
  return (
    <button
      type="button"
      role="menuitem"
      class={asks.value ? `${cls} sure` : cls}
      tabindex={-1}
      aria-label={item.label}
      onClick={press}
    >
      {asks.value ? item.sure : item.text}
    </button>
  );
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
