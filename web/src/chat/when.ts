// Times in chats, in the zone of this device.

import { now } from "../api";
import { t } from "../texts";
import { g } from "../texts/groups";

const clock = new Intl.DateTimeFormat(t.locale, { timeStyle: "short" });
const weekday = new Intl.DateTimeFormat(t.locale, { weekday: "short" });
const date = new Intl.DateTimeFormat(t.locale, { day: "numeric", month: "short" });
const dated = new Intl.DateTimeFormat(t.locale, { dateStyle: "medium" });
const soon = new Intl.DateTimeFormat(t.locale, { dateStyle: "medium", timeStyle: "short" });
const full = new Intl.DateTimeFormat(t.locale, { weekday: "long", day: "numeric", month: "long" });
const fullDated = new Intl.DateTimeFormat(t.locale, { dateStyle: "full" });

type Moment = string | number;
const ms = (at: Moment) => (typeof at === "number" ? at : Date.parse(at));
const midnight = (at: number) => new Date(at).setHours(0, 0, 0, 0);
// Whole days between two instants in this zone; a day may have 23 or 25 hours.
const days = (at: number, today: number) => Math.round((midnight(today) - midnight(at)) / 86_400_000);
const sameYear = (a: number, b: number) => new Date(a).getFullYear() === new Date(b).getFullYear();

/** "14:05" */
export const timeOf = (at: Moment) => clock.format(ms(at));

/** "Today", "Yesterday", "Monday, 5 January" */
export function dayLine(at: Moment): string {
  const then = ms(at);
  const off = days(then, now());
  if (off === 0) return t.home.today;
  if (off === 1) return t.home.yesterday;
  return (sameYear(then, now()) ? full : fullDated).format(then);
}

/** The end of a state: "until 14:05", "until 5 Jan 2026, 14:05", "until further notice". */
export function untilWords(at: number): string {
  if (at - now() > 366 * 86_400_000) return g.untilFurther;
  return g.until((days(at, now()) === 0 ? clock : soon).format(at));
}

/** "5 Jan 2026, 14:05" */
export const momentOf = (at: Moment) => soon.format(ms(at));

/** A short time for a list: "14:05", "Mon", "5 Jan", "5 Jan 2025". */
export function briefly(at: Moment): string {
  const then = ms(at);
  const off = days(then, now());
  if (off <= 0) return clock.format(then);
  if (off < 7) return weekday.format(then);
  return (sameYear(then, now()) ? date : dated).format(then);
}
