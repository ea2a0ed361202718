// Days and zones. A day is a string, "2006-01-02". It is compared and counted as a day, never by adding 86,400 seconds
// to an instant in some zone.

import { t } from "./texts";

const utc = (day: string) => new Date(`${day}T00:00:00Z`);

/** The day that is n days after day. */
export function plus(day: string, n: number): string {
  const d = utc(day);
  d.setUTCDate(d.getUTCDate() + n);
  return d.toISOString().slice(0, 10);
}

/** 0 for Monday to 6 for Sunday. */
export const weekday = (day: string) => (utc(day).getUTCDay() + 6) % 7;

export const yearOf = (day: string) => Number(day.slice(0, 4));

/** The first and the last day of a season, "2006-W01" (weeks of ISO 8601) or "2006-01". */
export function daysIn(season: string): [first: string, last: string] {
  const week = season.split("-W")[1];
  if (week) {
    const fourth = `${season.slice(0, 4)}-01-04`; // is in week 1 of every year
    const first = plus(fourth, 7 * (Number(week) - 1) - weekday(fourth));
    return [first, plus(first, 6)];
  }
  const first = `${season}-01`;
  return [first, plus(`${plus(first, 31).slice(0, 7)}-01`, -1)];
}

/** The season before (by -1) or after (by 1). */
export function nextTo(season: string, by: -1 | 1): string {
  const [first, last] = daysIn(season);
  const day = by < 0 ? plus(first, -1) : plus(last, 1);
  if (!season.includes("W")) return day.slice(0, 7);
  const monday = plus(day, -weekday(day));
  const year = plus(monday, 3).slice(0, 4); // a week belongs to the year that has its Thursday
  const n = 1 + (Date.parse(monday) - Date.parse(daysIn(`${year}-W01`)[0])) / 604_800_000; // dates without zone: both in UTC
  return `${year}-W${String(n).padStart(2, "0")}`;
}

/** Every day of a year, in order. */
export function daysOf(year: number): string[] {
  const all: string[] = [];
  const y = String(year).padStart(4, "0");
  for (let d = `${y}-01-01`; yearOf(d) === year; d = plus(d, 1)) all.push(d);
  return all;
}

const formats = new Map<string, Intl.DateTimeFormat>();

/** The day in a zone at an instant, in ms. */
export function dayIn(zone: string, at: number): string {
  let f = formats.get(zone);
  if (!f) {
    const shape = { year: "numeric", month: "2-digit", day: "2-digit" } as const;
    try {
      f = new Intl.DateTimeFormat("en-CA", { ...shape, timeZone: zone });
    } catch {
      f = new Intl.DateTimeFormat("en-CA", { ...shape, timeZone: "UTC" }); // a zone that is unknown to an old browser
    }
    formats.set(zone, f);
  }
  return f.format(at);
}

/** The instant, to the millisecond, of the end of `day` in a zone. */
export function endOf(day: string, zone: string, at: number): number {
  // Bisection needs no table of offsets. It is right for days of 23 or 25 hours, and without midnight. No day is longer
  // than 48 hours.
  let before = at;
  let after = at + 48 * 3_600_000;
  if (dayIn(zone, before) > day) return before;
  while (after - before > 1) {
    const mid = Math.floor((before + after) / 2);
    if (dayIn(zone, mid) > day) after = mid;
    else before = mid;
  }
  return after;
}

const long = new Intl.DateTimeFormat(t.locale, { dateStyle: "full", timeZone: "UTC" });

/** "Monday, 5 January 2026" */
export const spoken = (day: string) => long.format(utc(day));

const dated = new Intl.DateTimeFormat(t.locale, { day: "numeric", month: "long", year: "numeric", timeZone: "UTC" });
const yearless = new Intl.DateTimeFormat(t.locale, { day: "numeric", month: "long", timeZone: "UTC" });
const monthly = new Intl.DateTimeFormat(t.locale, { month: "long", year: "numeric", timeZone: "UTC" });

/** "5 January", with the year if it is not the present one. */
export const short = (day: string, today: string) =>
  (yearOf(day) === yearOf(today) ? yearless : dated).format(utc(day));

/** "Week 47, 16–22 November 2026" or "November 2026" */
export function seasonName(season: string): string {
  const [first, last] = daysIn(season);
  return season.includes("W")
    ? t.words.week(Number(season.slice(6)), dated.formatRange(utc(first), utc(last)))
    : monthly.format(utc(first));
}

const calendar = new Intl.DateTimeFormat(t.locale, { dateStyle: "medium" });

/** "5 Jan 2026", in the zone of this device. */
export const dateOf = (at: string) => calendar.format(Date.parse(at));

const relative = new Intl.RelativeTimeFormat(t.locale, { numeric: "auto" });

/** "5 minutes ago", for an instant in the past. */
export function ago(then: string, now: number): string {
  const s = Math.max(0, (now - Date.parse(then)) / 1000);
  if (s < 60) return t.words.justNow;
  if (s < 3600) return relative.format(-Math.floor(s / 60), "minute");
  if (s < 86_400) return relative.format(-Math.floor(s / 3600), "hour");
  return relative.format(-Math.floor(s / 86_400), "day");
}
