// The heat map of a year.

import { daysOf, plus, spoken, weekday } from "./days";
import { h, icon, put } from "./dom";
import { t } from "./texts";

export interface Days {
  signed: ReadonlySet<string>;
  covered: ReadonlySet<string>;
  open: ReadonlySet<string>; // missed, and available for a make-up
  joined: string; // the day of the user's registration
}

// A longer run has a deeper colour, because a single day is only a yes or a no. Levels begin on days 1, 3, 7 and 14.
const levels = [1, 3, 7, 14];

/** The map with its year switch. show draws a year. ask is called for another year, and pick for a chosen open day. */
export function heatMap(ask: (year: number) => void, pick: (day: string) => void) {
  let year = 0;
  const title = h("h2", { id: "heat-title" });
  const sum = h("p", { class: "muted", role: "status" });
  const turn = (by: number, label: string, name: "left" | "right") =>
    h(
      "button",
      { type: "button", class: "round", "aria-label": label, title: label, onclick: () => ask(year + by) },
      icon(name),
    );
  const back = turn(-1, t.heat.previous, "left");
  const forth = turn(1, t.heat.next, "right");
  const scroll = h("div", { class: "heat-scroll" });
  const key = legend();
  const tip = h("div", { class: "tip", role: "presentation", hidden: true });
  const el = h(
    "section",
    { class: "card heat", "aria-labelledby": "heat-title" },
    h("header", {}, h("div", {}, title, sum), h("div", { class: "turns" }, back, forth)),
    scroll,
    key.el,
    tip,
  );

  const point = (cell: HTMLElement | null) => {
    tip.hidden = !cell;
    if (!cell) return;
    tip.textContent = cell.getAttribute("aria-label");
    const c = cell.getBoundingClientRect();
    const box = el.getBoundingClientRect();
    const half = tip.offsetWidth / 2;
    const x = Math.min(Math.max(c.left + c.width / 2 - box.left, half + 4), box.width - half - 4);
    tip.style.left = `${x}px`;
    tip.style.top = `${c.top - box.top}px`;
  };
  const cellOf = (e: globalThis.Event) => (e.target as Element).closest<HTMLElement>("td[data-day]");
  scroll.addEventListener("pointerover", (e) => point(cellOf(e)));
  scroll.addEventListener("pointerleave", () => point(null));
  scroll.addEventListener("focusin", (e) => {
    // Only for the keyboard: a click already has the pointer above the cell.
    const cell = cellOf(e);
    if (cell?.matches(":focus-visible")) point(cell);
  });
  scroll.addEventListener("focusout", () => point(null));
  scroll.addEventListener("scroll", () => point(null), { passive: true });
  const choose = (e: globalThis.Event) => {
    const cell = cellOf(e);
    if (!cell?.classList.contains("open")) return;
    e.preventDefault();
    point(null);
    pick(cell.dataset["day"]!);
  };
  scroll.addEventListener("click", choose);
  scroll.addEventListener("keydown", (e) => {
    if (e.key === "Enter" || e.key === " ") return choose(e);
    const from = cellOf(e);
    const step: Record<string, number> = { ArrowLeft: -7, ArrowRight: 7, ArrowUp: -1, ArrowDown: 1 };
    const by = step[e.key];
    if (!from || by === undefined) return;
    e.preventDefault();
    focus(plus(from.dataset["day"]!, by));
  });

  /** Moves the focus to a day. It returns false if the year of the day is not shown. */
  const focus = (day: string): boolean => {
    const to = scroll.querySelector<HTMLElement>(`td[data-day="${day}"]`);
    if (!to) return false;
    scroll.querySelector<HTMLElement>("td[tabindex='0']")?.setAttribute("tabindex", "-1");
    to.tabIndex = 0;
    to.focus();
    return true;
  };

  const show = (shown: number, today: string, days: Days) => {
    const turned = shown !== year;
    const focused = (document.activeElement as HTMLElement | null)?.closest?.<HTMLElement>(".heat td")?.dataset["day"];
    year = shown;
    title.textContent = String(year);
    back.disabled = year <= 1970;
    forth.disabled = year >= Number(today.slice(0, 4));

    const all = daysOf(year);
    const lead = weekday(all[0]!);
    const weeks = Math.ceil((lead + all.length) / 7);
    const cells: HTMLTableCellElement[][] = t.heat.weekdays.map(() => []);
    let run = 0;
    let total = 0;
    const entry = focused && all.includes(focused) ? focused : all.includes(today) ? today : all[0]!;
    for (let i = 0; i < weeks * 7; i++) {
      const day = all[i - lead];
      const row = cells[i % 7]!;
      if (!day) {
        row.push(h("td", { class: "none" }));
        continue;
      }
      let level = "";
      let state = day < days.joined ? t.heat.before : t.heat.missed;
      if (day > today) state = t.heat.toCome;
      if (day === today) state = t.heat.notYet;
      if (days.signed.has(day)) {
        run++;
        total++;
        level = `l${levels.filter((from) => run >= from).length}`;
        state = run > 1 ? t.heat.checkedInRun(run) : t.heat.checkedIn;
      } else if (days.covered.has(day)) {
        level = "covered";
        state = t.heat.covered;
      } else {
        run = 0;
        if (day > today) level = "future";
        if (days.open.has(day)) {
          level = "open";
          state = t.heat.open;
        }
      }
      row.push(
        h("td", {
          class: `${level}${day === today ? " today" : ""}`,
          "data-day": day,
          role: "gridcell",
          tabindex: day === entry ? 0 : -1,
          "aria-haspopup": level === "open" ? "dialog" : null,
          "aria-label": `${spoken(day)}: ${state}`,
        }),
      );
    }
    sum.textContent = t.heat.sum(total);
    key.open.hidden = days.open.size === 0;

    const heads: HTMLTableCellElement[] = [];
    let at = 0; // the first column of the current month's label
    for (let m = 0; m < 12; m++) {
      const next =
        m === 11 ? weeks : column(`${all[0]!.slice(0, 4)}-${String(m + 2).padStart(2, "0")}-01`, all[0]!, lead);
      heads.push(h("th", { scope: "col", colspan: next - at }, t.heat.months[m]!));
      at = next;
    }
    put(
      scroll,
      h(
        "table",
        { role: "grid", "aria-labelledby": "heat-title" },
        h("thead", {}, h("tr", {}, h("td"), ...heads)),
        h(
          "tbody",
          {},
          ...t.heat.weekdays.map((name, i) =>
            h("tr", {}, h("th", { scope: "row", class: i % 2 ? "quiet" : "" }, name), ...cells[i]!),
          ),
        ),
      ),
    );
    if (focused) scroll.querySelector<HTMLElement>(`td[data-day="${entry}"]`)?.focus();
    if (turned) {
      // On a phone the year is wider than the screen: begin at today.
      const here = scroll.querySelector<HTMLElement>("td.today");
      scroll.scrollLeft = here ? here.offsetLeft - scroll.clientWidth * 0.75 : 0;
    }
  };
  return { el, show, focus };
}

// column returns the week of a day in its year, from 0.
function column(day: string, first: string, lead: number): number {
  return Math.floor(((Date.parse(day) - Date.parse(first)) / 86_400_000 + lead) / 7); // dates without zone: both in UTC
}

function legend(): { el: HTMLElement; open: HTMLElement } {
  const swatch = (kind: string, text: string) => h("span", {}, h("i", { class: `swatch ${kind}` }), text);
  const open = swatch("open", t.heat.legendOpen);
  const el = h(
    "p",
    { class: "legend muted", "aria-hidden": "true" },
    h("span", {}, t.heat.legendRun, ...["l1", "l2", "l3", "l4"].map((l) => h("i", { class: `swatch ${l}` }))),
    swatch("covered", t.heat.legendCovered),
    open,
  );
  return { el, open };
}
