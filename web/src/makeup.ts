// Make-ups of missed days: the number left, the possible days, and the history.

import type { Makeup, MakeupReply, MakeupRequest, Makeups } from "@stoa-dev/client";
import { Refused } from "./api";
import { ago, short, spoken } from "./days";
import { dialog } from "./dialog";
import { h, put } from "./dom";
import { form, type Field } from "./form";
import { json } from "./session";
import { t } from "./texts";

const PATH = "/v1/checkin/makeup";

interface Around {
  signal: AbortSignal;
  today: () => string;
  now: () => number;
  reload: () => Promise<void>; // loads the days and the rest from the server, because they have changed there
  applied: (reply: MakeupReply) => void;
  back: (day: string) => boolean; // moves the focus to a day; false if it is not shown
  failed: (err: unknown) => void;
}

/** The part for make-ups, and the dialog that asks before one. It is hidden if the server has disabled make-ups. */
export function makeups(page: Around) {
  const open = new Set<string>(); // the days that are open for a make-up now
  let left = 0;
  let drawn = "";
  let more: string | undefined; // the cursor after the shown history

  const line = h("p", { role: "status", tabindex: -1 });
  const newest = h("div", { class: "chips" });
  const history = h("ul");
  const further = h(
    "button",
    { type: "button", class: "link", onclick: () => void older().catch(page.failed) },
    t.words.showMore,
  );
  const past = h("details", {}, h("summary", {}, t.makeups.daysMadeUp), history, further);
  const el = h("div", { class: "makeups", hidden: true }, h("div", { class: "row" }, line, newest), past);

  /** Loads the state from the server. */
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
    if (now === drawn) return; // the focus must not move
    drawn = now;
    left = m.left;
    open.clear();
    if (left > 0) for (const d of m.days) open.add(d);
    line.textContent = tell(m);
    const chip = (d: string) =>
      h(
        "button",
        {
          type: "button",
          class: "chip",
          "aria-haspopup": "dialog",
          "aria-label": t.makeups.makeUp(spoken(d)),
          onclick: () => ask(d),
        },
        short(d, page.today()),
      );
    put(
      newest,
      ...[...open].slice(-3).reverse().map(chip),
      open.size > 3 && h("span", { class: "muted" }, t.makeups.more(open.size - 3)),
    );
    newest.hidden = open.size === 0;
    put(history, ...m.history.map(made));
    past.hidden = m.history.length === 0;
    turnTo(m.next);
  }

  const made = (m: Makeup) =>
    h("li", {}, spoken(m.day), h("span", { class: "muted" }, t.makeups.madeUp(ago(m.at, page.now()))));

  function turnTo(cursor: string | undefined): void {
    more = cursor;
    further.hidden = !cursor;
  }

  async function older(): Promise<void> {
    if (!more) return;
    const m = await json<Makeups>(`${PATH}?cursor=${encodeURIComponent(more)}`, { signal: page.signal });
    history.append(...m.history.map(made));
    turnTo(m.next);
  }

  function ask(day: string): void {
    const name = short(day, page.today());
    const fault = h("p", { class: "fault" });
    // The server may refuse the day itself.
    const field: Omit<Field, "label"> = {
      el: fault,
      input: h("input", { type: "hidden", name: "day", value: day }),
      fault: (text) => (fault.textContent = text && t.makeups.fault(name, text)),
    };
    dialog(
      t.makeups.sure(name),
      (close) => [
        h("p", {}, t.makeups.willCount(left)),
        form(
          { class: "stack" },
          [field],
          async () => {
            try {
              const reply = await json<MakeupReply>(PATH, { method: "POST", body: { day } satisfies MakeupRequest });
              page.applied(reply);
            } catch (err) {
              if (err instanceof Refused) void page.reload(); // the server's state has changed
              throw err;
            }
            await page.reload();
            close();
            line.textContent = `${t.makeups.isMadeUp(name)} ${line.textContent}`;
          },
          h(
            "div",
            { class: "row" },
            h("button", { type: "submit", class: "primary" }, t.makeups.submit),
            h("button", { type: "button", class: "secondary", onclick: close }, t.words.cancel),
          ),
        ),
      ],
      () => page.back(day) || line.focus(),
    );
  }

  return { el, open: open as ReadonlySet<string>, load, ask };
}

function tell(m: Makeups): string {
  if (m.left === 0) return t.makeups.noneLeft;
  return t.makeups.left(m.left) + (m.days.length === 0 ? t.makeups.noDay : "");
}
