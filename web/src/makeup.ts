// Making up missed days: how many are left, which, and which were.

import { Refused, type Makeup, type MakeupReply, type MakeupRequest, type Makeups } from "./api";
import { ago, count, short, spoken } from "./days";
import { dialog } from "./dialog";
import { h, put } from "./dom";
import { form, type Field } from "./form";
import { json } from "./session";

const PATH = "/v1/checkin/makeup";

interface Around {
  signal: AbortSignal;
  today: () => string;
  now: () => number;
  reload: () => Promise<void>; // the days and the rest from the server: something has changed there
  applied: (reply: MakeupReply) => void;
  back: (day: string) => boolean; // gives the focus to a day; false when it is not shown
  failed: (err: unknown) => void;
}

/** The part about make-ups, and the dialog that asks before one. Nothing shows where the server has it off. */
export function makeups(page: Around) {
  const open = new Set<string>(); // the days that can be made up now
  let left = 0;
  let drawn = "";
  let more: string | undefined; // the cursor behind the shown history

  const line = h("p", { role: "status", tabindex: -1 });
  const newest = h("div", { class: "chips" });
  const history = h("ul");
  const further = h("button", { type: "button", class: "link", onclick: () => void older().catch(page.failed) }, "Show more");
  const past = h("details", {}, h("summary", {}, "Days made up"), history, further);
  const el = h("div", { class: "makeups", hidden: true }, h("div", { class: "row" }, line, newest), past);

  /** Asks the server anew. */
  async function load(): Promise<void> {
    let m: Makeups;
    try {
      m = await json<Makeups>(PATH, { signal: page.signal });
    } catch (err) {
      if (!(err instanceof Refused && err.problem.status === 404)) throw err;
      m = { left: 0, limit: 0, days: [], history: [] };
    }
    el.hidden = m.limit === 0;
    const now = JSON.stringify(m);
    if (now === drawn) return; // what has the focus keeps it
    drawn = now;
    left = m.left;
    open.clear();
    if (left > 0) for (const d of m.days) open.add(d);
    line.textContent = tell(m);
    const chip = (d: string) => h("button", { type: "button", class: "chip", "aria-haspopup": "dialog", "aria-label": `Make up ${spoken(d)}`, onclick: () => ask(d) }, short(d, page.today()));
    put(newest, ...[...open].slice(-3).reverse().map(chip), open.size > 3 && h("span", { class: "muted" }, `and ${open.size - 3} more, ringed above`));
    newest.hidden = open.size === 0;
    put(history, ...m.history.map(made));
    past.hidden = m.history.length === 0;
    turnTo(m.cursor);
  }

  const made = (m: Makeup) => h("li", {}, spoken(m.day), h("span", { class: "muted" }, `made up ${ago(m.at, page.now())}`));

  function turnTo(cursor: string | undefined): void {
    more = cursor;
    further.hidden = !cursor;
  }

  async function older(): Promise<void> {
    if (!more) return;
    const m = await json<Makeups>(`${PATH}?cursor=${encodeURIComponent(more)}`, { signal: page.signal });
    history.append(...m.history.map(made));
    turnTo(m.cursor);
  }

  function ask(day: string): void {
    const name = short(day, page.today());
    const fault = h("p", { class: "fault" });
    // The server may find a fault with the day itself.
    const field: Field = { el: fault, input: h("input", { type: "hidden", name: "day", value: day }), fault: (text) => (fault.textContent = text && `${name} ${text}.`) };
    dialog(
      `Make up ${name}?`,
      (close) => [
        h("p", {}, `It will count as checked in. ${left} left this month.`),
        form(
          { class: "stack" },
          [field],
          async () => {
            try {
              const reply = await json<MakeupReply>(PATH, { method: "POST", body: { day } satisfies MakeupRequest });
              page.applied(reply);
            } catch (err) {
              if (err instanceof Refused) void page.reload(); // it knows better
              throw err;
            }
            await page.reload();
            close();
            line.textContent = `${name} is made up. ${line.textContent}`;
          },
          h("div", { class: "row" }, h("button", { type: "submit", class: "primary" }, "Make it up"), h("button", { type: "button", class: "secondary", onclick: close }, "Cancel")),
        ),
      ],
      () => page.back(day) || line.focus(),
    );
  }

  return { el, open: open as ReadonlySet<string>, load, ask };
}

function tell(m: Makeups): string {
  if (m.left === 0) return "No make-ups left this month.";
  return `${count(m.left, "make-up")} left this month.${m.days.length === 0 ? " No day is missed." : ""}`;
}
