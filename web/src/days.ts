// Days and zones. A day is a string, "2006-01-02": it is compared and counted as
// such, and never by adding 86,400 seconds to an instant in some zone.

const utc = (day: string) => new Date(`${day}T00:00:00Z`);

/** The day n days after day. */
export function plus(day: string, n: number): string {
  const d = utc(day);
  d.setUTCDate(d.getUTCDate() + n);
  return d.toISOString().slice(0, 10);
}

/** 0 for Monday to 6 for Sunday. */
export const weekday = (day: string) => (utc(day).getUTCDay() + 6) % 7;

export const yearOf = (day: string) => Number(day.slice(0, 4));

/** Every day of a year, in order. */
export function daysOf(year: number): string[] {
  const all: string[] = [];
  const y = String(year).padStart(4, "0");
  for (let d = `${y}-01-01`; yearOf(d) === year; d = plus(d, 1)) all.push(d);
  return all;
}

const formats = new Map<string, Intl.DateTimeFormat>();

/** The day it is in a zone at an instant, in milliseconds. */
export function dayIn(zone: string, at: number): string {
  let f = formats.get(zone);
  if (!f) {
    const shape = { year: "numeric", month: "2-digit", day: "2-digit" } as const;
    try {
      f = new Intl.DateTimeFormat("en-CA", { ...shape, timeZone: zone });
    } catch {
      f = new Intl.DateTimeFormat("en-CA", { ...shape, timeZone: "UTC" }); // a zone the browser is too old for
    }
    formats.set(zone, f);
  }
  return f.format(at);
}

/** The instant, to the millisecond, at which the day after `day` begins in a zone. */
export function endOf(day: string, zone: string, at: number): number {
  // Halving needs no table of offsets and is right where a night has 23 or 25
  // hours, or no midnight at all. No day is longer than 48 hours.
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

/** This device's zone; UTC where the browser does not tell. */
export function deviceZone(): string {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  return zone && zone !== "Etc/Unknown" ? zone : "UTC";
}

/** The zones to choose from, with `also` among them. */
export function zones(...also: string[]): string[] {
  const known = typeof Intl.supportedValuesOf === "function" ? Intl.supportedValuesOf("timeZone") : [];
  return [...new Set([...known, "UTC", ...also])].sort();
}

const long = new Intl.DateTimeFormat("en-GB", { dateStyle: "full", timeZone: "UTC" });

/** "Monday, 5 January 2026" */
export const spoken = (day: string) => long.format(utc(day));

const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });

/** "5 minutes ago", for an instant in the past. */
export function ago(then: string, now: number): string {
  const s = Math.max(0, (now - Date.parse(then)) / 1000);
  if (s < 60) return "just now";
  if (s < 3600) return relative.format(-Math.floor(s / 60), "minute");
  if (s < 86_400) return relative.format(-Math.floor(s / 3600), "hour");
  return relative.format(-Math.floor(s / 86_400), "day");
}

const whole = new Intl.NumberFormat("en-GB");

/** 12,345 */
export const number = (n: number) => whole.format(n);

/** "1 day", "2 days" */
export const count = (n: number, one: string, many = one + "s") => `${number(n)} ${n === 1 ? one : many}`;
