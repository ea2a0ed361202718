// The page of somebody who is logged in: today, the year, the boards.

import { now, type Board, type Calendar, type CheckinReply, type CheckinRequest, type CheckinStats, type CheckinStatus, type User } from "./api";
import { boardsCard } from "./boards";
import { count, dayIn, endOf, number, plus, spoken, weekday, yearOf } from "./days";
import { h, icon, put, s, snowflake } from "./dom";
import { field, form, say } from "./form";
import { heatMap } from "./heat";
import { makeups } from "./makeup";
import { Ended, json, setUser } from "./session";
import type { View } from "./view";

export function home(me: User, fail: (text: string) => void): View {
  let status: CheckinStatus | null = null;
  let shownYear = 0;
  const signed = new Set<string>();
  const covered = new Set<string>();
  const closed = new AbortController();

  // ---- the pieces ----
  const greeting = h("h1", {}, "Welcome");
  const sentence = h("p", { class: "sentence", role: "status" }, " ");
  const streak = h("span", { class: "streak-count", "data-streak": "" }, "–");
  const unit = h("span", { class: "streak-unit" }, "days in a row");
  const week = h("ol", { class: "week", "aria-label": "The last seven days" });
  const words = field("Words learned", { name: "words", type: "number", min: 0, max: 100000, inputmode: "numeric", placeholder: "0" });
  const minutes = field("Minutes studied", { name: "minutes", type: "number", min: 0, max: 1440, inputmode: "numeric", placeholder: "0" });
  const done = s("circle", { class: "ring-done", cx: 60, cy: 60, r: 56, pathLength: 1 });
  const label = h("span", { class: "tap-label" }, "Check in");
  const tap = h(
    "button",
    { type: "submit", class: "tap", id: "checkin", disabled: true },
    s("svg", { viewBox: "0 0 120 120", class: "ring", "aria-hidden": "true" }, s("circle", { class: "ring-all", cx: 60, cy: 60, r: 56 }), done),
    h("span", { class: "sparks", "aria-hidden": "true" }, ...Array.from({ length: 10 }, (_, i) => h("i", { class: `spark s${i}` }))),
    flame(),
    label,
  );
  const left = h("p", { class: "left muted" }, " ");
  const activity = h("div", { class: "activity" }, h("p", { class: "hint" }, "Learned something? Add it if you like."), h("div", { class: "pair" }, words.el, minutes.el));
  const figure = (text: string, key: string) => {
    const value = h("dd", { "data-figure": key }, "–");
    return { value, el: h("div", { class: "card figure" }, h("dt", {}, text), value) };
  };
  const longest = figure("Longest streak", "longest");
  const total = figure("Days in total", "total");
  const learned = figure("Words learned", "words");
  const studied = figure("Time studied", "minutes");
  const freezes = freezer();
  const heat = heatMap((year) => void turnTo(year).catch(failed), (day) => makeup.ask(day));
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

  const text = h("div", { class: "hero-text" }, greeting, sentence, h("div", { class: "streak" }, flame(), h("p", {}, streak, " ", unit), freezes.el), week, activity);
  const hero = form({ class: "card hero" }, [words, minutes], checkin, text, h("div", { class: "hero-tap" }, tap, left));
  text.append(hero.querySelector(".form-fault")!);
  const el = h(
    "div",
    { class: "home" },
    hero,
    h("dl", { class: "figures" }, longest.el, total.el, learned.el, studied.el),
    heat.el,
    boards.el,
  );

  // ---- what it does ----
  function failed(err: unknown): void {
    if (!(err instanceof Ended) && !closed.signal.aborted) fail(say(err));
  }

  async function checkin(): Promise<void> {
    const body: CheckinRequest = {};
    if (words.input.value) body.words = Number(words.input.value);
    if (minutes.input.value) body.minutes = Number(minutes.input.value);
    const reply = await json<CheckinReply>("/v1/checkin", { method: "POST", body });
    apply(reply);
    if (reply.new) {
      words.input.value = minutes.input.value = "";
      el.classList.add("celebrate");
      setTimeout(() => el.classList.remove("celebrate"), 1200);
    } else {
      sentence.textContent = "You have checked in today already. Nothing has changed.";
    }
    void rest();
  }

  function apply(st: CheckinStatus): void {
    // An answer that was overtaken by midnight says nothing about today.
    if (status && st.day < status.day) return;
    const fresh = !status || status.day !== st.day || status.today !== st.today || status.streak !== st.streak;
    status = st;
    if (st.today) signed.add(st.day);
    if (st.yesterday) signed.add(plus(st.day, -1));
    streak.textContent = number(st.streak);
    unit.textContent = `${st.streak === 1 ? "day" : "days"} in a row`;
    longest.value.textContent = number(st.longest);
    total.value.textContent = number(st.total);
    freezes.show(st.freezes ?? 0, st.freezes_used ?? 0);
    el.classList.toggle("done", st.today);
    tap.disabled = false;
    label.textContent = st.today ? "Done today" : "Check in";
    if (fresh) sentence.textContent = tell(st);
    drawDays();
    clock();
  }

  function drawDays(): void {
    if (!status) return;
    const { day } = status;
    heat.show(shownYear || yearOf(day), day, { signed, covered, open: makeup.open });
    put(
      week,
      ...Array.from({ length: 7 }, (_, i) => {
        const d = plus(day, i - 6);
        const state = signed.has(d) ? "checked in" : covered.has(d) ? "covered" : d === day ? "not yet" : "missed";
        const name = i === 6 ? "Today" : i === 5 ? "Yesterday" : (["M", "T", "W", "T", "F", "S", "S"][weekday(d)] ?? "");
        return h(
          "li",
          { class: state.replace(" ", "-"), title: `${spoken(d)}: ${state}` },
          h("i", { "aria-hidden": "true" }, state === "checked in" && icon("check")),
          h("span", { "aria-hidden": "true" }, name),
          h("span", { class: "sr" }, `${i > 4 ? name + ", " : ""}${spoken(d)}: ${state}`),
        );
      }),
    );
  }

  async function fetchYear(year: number): Promise<void> {
    const c = await json<Calendar>(`/v1/checkin/calendar/${year}`, { signal: closed.signal });
    for (const set of [signed, covered]) for (const d of set) if (yearOf(d) === year) set.delete(d);
    for (const d of c.days) signed.add(d);
    for (const d of c.covered) covered.add(d);
    if (status?.today) signed.add(status.day); // may have happened while the calendar was on its way
  }

  async function turnTo(year: number): Promise<void> {
    await fetchYear(year);
    shownYear = status && yearOf(status.day) === year ? 0 : year; // 0 follows the calendar into the next year
    drawDays();
  }

  // rest is what changes slowly: figures and boards.
  async function rest(): Promise<void> {
    try {
      const [stats] = await Promise.all([json<CheckinStats>("/v1/checkin/stats", { signal: closed.signal }), boards.refresh(me.id)]);
      learned.value.textContent = number(stats.words);
      studied.value.textContent = stats.minutes < 60 ? `${stats.minutes} min` : `${number(Math.floor(stats.minutes / 60))} h ${stats.minutes % 60} min`;
    } catch (err) {
      failed(err);
    }
  }

  // reload is for days that changed elsewhere: in another tab, by a make-up.
  async function reload(): Promise<void> {
    if (!status) return;
    const year = yearOf(status.day);
    // The strip of seven days reaches into last year in the first week.
    const years = new Set([yearOf(plus(status.day, -6)), year, shownYear || year]);
    try {
      await Promise.all([...[...years].map(fetchYear), makeup.load()]);
      drawDays();
    } catch (err) {
      failed(err);
    }
    await rest();
  }

  let loading: Promise<void> | undefined;
  function load(): Promise<void> {
    loading ??= (async () => {
      try {
        const [u, st] = await Promise.all([json<User>("/v1/me", { signal: closed.signal }), json<CheckinStatus>("/v1/checkin", { signal: closed.signal })]);
        me = u;
        setUser(u);
        apply(st);
        await reload();
      } catch (err) {
        failed(err);
      } finally {
        loading = undefined;
      }
    })();
    return loading;
  }

  let midnight = 0;
  function clock(): void {
    if (!status) return;
    const at = now();
    if (dayIn(me.zone, at) > status.day) {
      // The server decides what day it is; ask until it agrees.
      left.textContent = "A new day.";
      midnight = 0;
      void load();
      return;
    }
    if (!midnight || midnight < at) midnight = endOf(status.day, me.zone, at);
    const min = Math.ceil((midnight - at) / 60_000);
    const time = min >= 60 ? `${Math.floor(min / 60)} h ${min % 60} min` : `${min} min`;
    put(left, h("strong", {}, time), ` to midnight in ${place(me.zone)}`);
    done.setAttribute("stroke-dasharray", `${Math.min(1, Math.max(0, 1 - (midnight - at) / 86_400_000))} 1`);
    const hour = Number(new Intl.DateTimeFormat("en-GB", { hour: "2-digit", hourCycle: "h23", timeZone: zoneOr(me.zone) }).format(at));
    greeting.textContent = `Good ${hour < 5 ? "night" : hour < 12 ? "morning" : hour < 18 ? "afternoon" : "evening"}, ${me.name}`;
  }

  void load();
  const ticks = setInterval(clock, 5000);
  // Others' check-ins are not told one by one; their effect on the boards may be
  // a minute late.
  const slow = setInterval(() => document.visibilityState === "visible" && navigator.onLine && void rest(), 60_000);

  return {
    el,
    catchUp: () => void load(),
    event: (e) => {
      if (e.type === "account.updated") {
        me = e.data as User;
        clock();
      }
      if (e.type !== "checkin.marked") return;
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
    if (st.streak === 1) return st.total === 1 ? "Your first day. See you tomorrow." : "A new streak begins. See you tomorrow.";
    return st.streak === st.longest ? `Day ${number(st.streak)}, your longest streak yet. See you tomorrow.` : `Day ${number(st.streak)} is yours. See you tomorrow.`;
  }
  if (st.streak > 0) return st.yesterday ? `You were here yesterday. Day ${number(st.streak + 1)} is waiting for you.` : `Day ${number(st.streak + 1)} is waiting for you.`;
  return st.total > 0 ? "A fresh start: today can be day one." : "One tap, and your first day counts.";
}

const place = (zone: string) => (zone.split("/").pop() ?? zone).replaceAll("_", " ");

function zoneOr(zone: string): string {
  try {
    new Intl.DateTimeFormat("en", { timeZone: zone });
    return zone;
  } catch {
    return "UTC";
  }
}

// freezer is the number of streak freezes beside the streak. It shows once there
// is, or was, one: where the server has none, nobody needs to wonder.
function freezer() {
  const left = h("span", { "data-freezes": "" });
  const text = h("span", { class: "bubble", role: "tooltip", id: "freezes-text" });
  const button = h("button", { type: "button", class: "freezes", "aria-describedby": "freezes-text" }, snowflake(), left, h("span", { class: "sr" }, " streak freezes"));
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
    left.textContent = number(n);
    text.textContent = `${n === 0 ? "No streak freezes" : count(n, "streak freeze")} left, ${number(used)} used. A missed day uses one by itself, and the streak goes on.`;
  };
  return { el, show };
}

function flame(): SVGSVGElement {
  return s(
    "svg",
    { viewBox: "0 0 24 24", class: "flame", "aria-hidden": "true" },
    s("path", { class: "flame-outer", d: "M12.6 1.5c.6 3.3-.6 5.2-2.3 7.2-.5-1-.7-1.9-.6-3C6.200 8.100 4 11.300 4 14.700 4 19.400 7.500 22.500 12 22.500s8-3.100 8-7.700c0-5.700-4.700-8.400-7.400-13.300z" }),
    s("path", { class: "flame-inner", d: "M12.200 11c.3 2-1 3.200-2 4.400-.8 1-1.400 1.900-1.400 3.100 0 2.100 1.500 3.500 3.300 3.500s3.300-1.300 3.300-3.400c0-3-2.200-4.400-3.200-7.600z" }),
  );
}
