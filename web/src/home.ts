// The page of a logged-in user: today, the year, the boards.

import type {
  Board,
  Calendar,
  CheckinReply,
  CheckinRequest,
  CheckinStats,
  CheckinStatus,
  User,
} from "@stoa-dev/client";
import { now } from "./api";
import { boardsCard } from "./boards";
import { act } from "./buttons";
import { dayIn, endOf, plus, spoken, weekday, yearOf } from "./days";
import { h, icon, put, s, snowflake } from "./dom";
import { field, form, say } from "./form";
import { heatMap } from "./heat";
import { makeups } from "./makeup";
import { Ended, json, setUser } from "./session";
import { t } from "./texts";
import type { View } from "./view";
import { place } from "./zones";

export function home(me: User, fail: (text: string) => void): View {
  const joined = dayIn(me.zone, Date.parse(me.created));
  let status: CheckinStatus | null = null;
  let shownYear = 0;
  const signed = new Set<string>();
  const covered = new Set<string>();
  const closed = new AbortController();

  // ---- elements ----
  const greeting = h("h1", {}, t.home.welcome);
  const sentence = h("p", { class: "sentence", role: "status" }, " ");
  const streak = h("span", { class: "streak-count", "data-streak": "" }, "–");
  const unit = h("span", { class: "streak-unit" }, t.home.inARow(0));
  const week = h("ol", { class: "week", "aria-label": t.home.lastSeven });
  const words = field(t.home.activity.words, {
    name: "words",
    type: "number",
    min: 0,
    max: 100000,
    inputmode: "numeric",
    placeholder: "0",
  });
  const minutes = field(t.home.activity.minutes, {
    name: "minutes",
    type: "number",
    min: 0,
    max: 1440,
    inputmode: "numeric",
    placeholder: "0",
  });
  const done = s("circle", { class: "ring-done", cx: 60, cy: 60, r: 56, pathLength: 1 });
  const label = h("span", { class: "tap-label" }, t.home.loading);
  const tap = h(
    "button",
    { type: "submit", class: "tap", id: "checkin", disabled: true },
    s(
      "svg",
      { viewBox: "0 0 120 120", class: "ring", "aria-hidden": "true" },
      s("circle", { class: "ring-all", cx: 60, cy: 60, r: 56 }),
      done,
    ),
    h(
      "span",
      { class: "sparks", "aria-hidden": "true" },
      ...Array.from({ length: 10 }, (_, i) => h("i", { class: `spark s${i}` })),
    ),
    flame(),
    label,
  );
  const left = h("div", { class: "left muted" }, " ");
  const activity = h(
    "div",
    { class: "activity" },
    h("p", { class: "hint" }, t.home.addActivity),
    h("div", { class: "pair" }, words.el, minutes.el),
  );
  const figure = (text: string, key: string) => {
    const value = h("dd", { "data-figure": key }, "–");
    const title = h("dt", {}, text);
    return { title, value, el: h("div", { class: "card figure" }, title, value) };
  };
  const longest = figure(t.home.longest, "longest");
  const total = figure(t.home.total, "total");
  const learned = figure(t.home.activity.words, "words");
  const studied = figure(t.home.studied, "minutes");
  const freezes = freezer();
  const heat = heatMap(
    (year) => void turnTo(year).catch(failed),
    (day) => makeup.ask(day),
  );
  const makeup = makeups({
    signal: closed.signal,
    now,
    today: () => status?.day ?? "",
    applied: (reply) => apply(reply.status),
    reload,
    back: heat.focus,
    failed,
  });
  heat.el.append(makeup.el);
  const boards = boardsCard((path) => json<Board>(path, { signal: closed.signal }), failed);

  const text = h(
    "div",
    { class: "hero-text" },
    greeting,
    sentence,
    h("div", { class: "streak" }, flame(), h("p", {}, streak, " ", unit), freezes.el),
    week,
    activity,
  );
  const hero = form(
    { class: "card hero" },
    [words, minutes],
    checkin,
    text,
    h("div", { class: "hero-tap" }, tap, left),
  );
  text.append(hero.querySelector(".form-fault")!);
  const el = h(
    "div",
    { class: "home" },
    hero,
    h("dl", { class: "figures" }, longest.el, total.el, learned.el, studied.el),
    heat.el,
    boards.el,
  );

  // ---- actions ----
  function failed(err: unknown): void {
    if (!(err instanceof Ended) && !closed.signal.aborted) fail(say(err));
  }

  async function checkin(): Promise<void> {
    const body: CheckinRequest = {};
    if (words.input.value) body.words = Number(words.input.value);
    if (minutes.input.value) body.minutes = Number(minutes.input.value);
    const reply = await json<CheckinReply>("/v1/checkin", { method: "POST", body });
    told++;
    apply(reply);
    if (reply.new) {
      words.input.value = minutes.input.value = "";
      el.classList.add("celebrate");
      setTimeout(() => el.classList.remove("celebrate"), 1200);
    } else {
      sentence.textContent = t.home.already;
    }
    void rest();
  }

  function apply(st: CheckinStatus): void {
    // A response from before midnight does not apply to today.
    if (status && st.day < status.day) return;
    const fresh = !status || status.day !== st.day || status.today !== st.today || status.streak !== st.streak;
    status = st;
    if (st.today) signed.add(st.day);
    if (st.yesterday) signed.add(plus(st.day, -1));
    streak.textContent = t.words.number(st.streak);
    unit.textContent = t.home.inARow(st.streak);
    longest.value.textContent = t.words.number(st.longest);
    total.value.textContent = t.words.number(st.total);
    freezes.show(st.freezes ?? 0, st.freezes_used ?? 0);
    el.classList.toggle("done", st.today);
    tap.disabled = false;
    label.textContent = st.today ? t.home.doneToday : t.home.checkIn;
    if (fresh) sentence.textContent = tell(st);
    drawDays();
    clock();
  }

  function stateOf(day: string, today: string): keyof typeof t.home.states {
    if (signed.has(day)) return "done";
    if (covered.has(day)) return "covered";
    if (day === today) return "open";
    return day < joined ? "before" : "missed";
  }

  function drawDays(): void {
    if (!status) return;
    const { day } = status;
    heat.show(shownYear || yearOf(day), day, { signed, covered, open: makeup.open, joined });
    put(
      week,
      ...Array.from({ length: 7 }, (_, i) => {
        const d = plus(day, i - 6);
        const state = stateOf(d, day);
        const name = i === 6 ? t.home.today : i === 5 ? t.home.yesterday : (t.home.letters[weekday(d)] ?? "");
        return h(
          "li",
          { class: state, title: `${spoken(d)}: ${t.home.states[state]}` },
          h("i", { "aria-hidden": "true" }, state === "done" && icon("check")),
          h("span", { "aria-hidden": "true" }, name),
          h("span", { class: "sr" }, `${i > 4 ? name + ", " : ""}${spoken(d)}: ${t.home.states[state]}`),
        );
      }),
    );
  }

  async function fetchYear(year: number): Promise<void> {
    const c = await json<Calendar>(`/v1/checkin/calendar/${year}`, { signal: closed.signal });
    for (const set of [signed, covered]) for (const d of set) if (yearOf(d) === year) set.delete(d);
    for (const d of c.days) signed.add(d);
    for (const d of c.covered) covered.add(d);
    if (status?.today) signed.add(status.day); // the check-in may be newer than the calendar
  }

  async function turnTo(year: number): Promise<void> {
    await fetchYear(year);
    shownYear = status && yearOf(status.day) === year ? 0 : year; // 0 follows the calendar into the next year
    drawDays();
  }

  // rest loads the data that changes slowly: figures and boards.
  async function rest(): Promise<void> {
    try {
      const [stats] = await Promise.all([
        json<CheckinStats>("/v1/checkin/stats", { signal: closed.signal }),
        boards.refresh(me.id),
      ]);
      learned.value.textContent = t.words.number(stats.words);
      studied.value.textContent = t.words.number(stats.minutes);
      // An operator may rename the counted activities. These names exist in one language.
      const { words: first = "words", minutes: second = "minutes" } = stats.names ?? {};
      if (first !== "words") words.label.textContent = learned.title.textContent = first;
      if (second !== "minutes") minutes.label.textContent = studied.title.textContent = second;
      else studied.value.textContent = t.words.time(stats.minutes);
    } catch (err) {
      failed(err);
    }
  }

  // reload loads days that changed elsewhere: in another tab, or by a make-up.
  async function reload(): Promise<void> {
    if (!status) return;
    const year = yearOf(status.day);
    // In the first week, the strip of seven days has days of last year.
    const years = new Set([yearOf(plus(status.day, -6)), year, shownYear || year]);
    try {
      await Promise.all([...[...years].map(fetchYear), makeup.load()]);
      drawDays();
    } catch (err) {
      failed(err);
    }
    await rest();
  }

  let told = 0; // the number of statuses from events and own check-ins: the response to an earlier request is older
  let loading: Promise<void> | undefined;
  let again = false; // something may be missed since the start of the present load
  function load(): Promise<void> {
    loading ??= (async () => {
      try {
        for (let shown = "", more = true; more; more = again) {
          again = false;
          const before = told;
          const [u, st] = await Promise.all([
            json<User>("/v1/me", { signal: closed.signal }),
            json<CheckinStatus>("/v1/checkin", { signal: closed.signal }),
          ]);
          me = u;
          setUser(u);
          const text = JSON.stringify(st);
          if (text === shown) continue; // the days are unchanged too
          shown = text;
          if (told === before) apply(st);
          await reload();
        }
      } catch (err) {
        failed(err);
        if (!status && !closed.signal.aborted && !(err instanceof Ended)) {
          label.textContent = t.home.away;
          put(left, h("p", {}, say(err)), act(t.words.tryAgain, "secondary", load, failed));
        }
      } finally {
        loading = undefined;
        if (again) void load();
      }
    })();
    return loading;
  }

  let midnight = 0;
  function clock(): void {
    if (!status) return;
    const at = now();
    if (dayIn(me.zone, at) > status.day) {
      // The server decides which day it is. Ask until it agrees.
      left.textContent = t.home.newDay;
      midnight = 0;
      void load();
      return;
    }
    if (!midnight || midnight < at) midnight = endOf(status.day, me.zone, at);
    const min = Math.ceil((midnight - at) / 60_000);
    put(left, ...t.home.toMidnight(h("strong", {}, t.words.time(min)), place(me.zone)));
    done.setAttribute("stroke-dasharray", `${Math.min(1, Math.max(0, 1 - (midnight - at) / 86_400_000))} 1`);
    const hour = Number(
      new Intl.DateTimeFormat("en-GB", { hour: "2-digit", hourCycle: "h23", timeZone: zoneOr(me.zone) }).format(at),
    );
    greeting.textContent = t.home.greeting(hour, me.name);
  }

  void load();
  const ticks = setInterval(clock, 5000);
  // Other users' check-ins send no events, so the boards may be a minute late.
  const slow = setInterval(() => document.visibilityState === "visible" && navigator.onLine && void rest(), 60_000);

  return {
    el,
    catchUp: () => {
      again = true;
      void load();
    },
    event: (e) => {
      if (e.type === "account.updated") {
        me = e.data as User;
        clock();
      }
      if (e.type !== "checkin.marked") return;
      told++;
      apply(e.data as CheckinStatus);
      void reload();
    },
    close: () => {
      closed.abort();
      clearInterval(ticks);
      clearInterval(slow);
    },
  };
}

function tell(st: CheckinStatus): string {
  if (st.today) {
    if (st.streak === 1) return st.total === 1 ? t.home.firstDay : t.home.newStreak;
    return st.streak === st.longest ? t.home.longestYet(st.streak) : t.home.dayIsYours(st.streak);
  }
  if (st.streak > 0) return t.home.waiting(st.streak + 1);
  return st.total > 0 ? t.home.fresh : t.home.firstTap;
}

function zoneOr(zone: string): string {
  try {
    new Intl.DateTimeFormat("en", { timeZone: zone });
    return zone;
  } catch {
    return "UTC";
  }
}

// freezer shows the number of streak freezes next to the streak. It is visible after the first freeze, so that it
// confuses no users of a server without freezes.
function freezer() {
  const left = h("span", { "data-freezes": "" });
  const text = h("span", { class: "bubble", role: "tooltip", id: "freezes-text" });
  const button = h(
    "button",
    { type: "button", class: "freezes", "aria-describedby": "freezes-text" },
    snowflake(),
    left,
    h("span", { class: "sr" }, t.home.freezes),
  );
  const el = h(
    "span",
    {
      class: "freezer",
      hidden: true,
      onkeydown: (e: KeyboardEvent) => e.key === "Escape" && el.classList.add("quiet"),
      onpointerleave: () => el.classList.remove("quiet"),
      onfocusout: () => el.classList.remove("quiet"),
    },
    button,
    text,
  );
  const show = (n: number, used: number) => {
    el.hidden = n === 0 && used === 0;
    left.textContent = t.words.number(n);
    text.textContent = t.home.freezesText(n, used);
  };
  return { el, show };
}

function flame(): SVGSVGElement {
  return s(
    "svg",
    { viewBox: "0 0 24 24", class: "flame", "aria-hidden": "true" },
    s("path", {
      class: "flame-outer",
      d: "M12.6 1.5c.6 3.3-.6 5.2-2.3 7.2-.5-1-.7-1.9-.6-3C6.200 8.100 4 11.300 4 14.700 4 19.400 7.500 22.500 12 22.500s8-3.100 8-7.700c0-5.700-4.700-8.400-7.400-13.300z",
    }),
    s("path", {
      class: "flame-inner",
      d: "M12.200 11c.3 2-1 3.200-2 4.400-.8 1-1.400 1.900-1.400 3.100 0 2.100 1.500 3.500 3.300 3.500s3.300-1.300 3.300-3.400c0-3-2.200-4.400-3.200-7.600z",
    }),
  );
}
