// The shown days, from the end and the span in the address. Invalid values are ignored.

import { dateOf, dayOf, daysAfter } from "./texts.js";

export const SPANS = { month: ["30 days", 30], quarter: ["90 days", 90], year: ["One year", 366], three: ["Three years", 1098], ten: ["Ten years", 3660] };
const FIRST_YEAR = 1971;
const EASTMOST_MILLISECONDS = 14 * 3_600_000; // of UTC

export function windowOf(query) {
  const { span, until } = readParams(query);
  const to = until ?? latestDay();
  const length = SPANS[span ?? "year"][1];
  return { from: daysAfter(to, 1 - length), to, length };
}

// The valid span and days of an address.
export function readParams({ span, until, day }) {
  const params = { span: Object.hasOwn(SPANS, span ?? "") ? span : null, until: isDay(until) ? until : null, day: isDay(day) ? day : null };
  return Object.fromEntries(Object.entries(params).filter(([, value]) => value !== null));
}

function isDay(text) {
  if (!/^\d{4}-\d\d-\d\d$/.test(text ?? "") || Number.isNaN(dateOf(text).getTime())) return false;
  return dayOf(dateOf(text)) === text && dateOf(text).getUTCFullYear() >= FIRST_YEAR;
}

// Before the stream's zone is known, use the latest day of any zone.
export function latestDay(now = Date.now()) {
  return dayOf(new Date(now + EASTMOST_MILLISECONDS));
}

// The current day of a zone, or the latest of all if the browser does not know the zone.
export function todayIn(zone, now = Date.now()) {
  if (!zone) return latestDay(now);
  try {
    const parts = new Intl.DateTimeFormat("en", { timeZone: zone, year: "numeric", month: "2-digit", day: "2-digit" }).formatToParts(now);
    const part = (type) => parts.find((each) => each.type === type).value;
    return `${part("year")}-${part("month")}-${part("day")}`;
  } catch {
    return latestDay(now);
  }
}

// The answer without days before the first wanted one and days that have not begun.
export function withKnownDays(data, query, now = Date.now()) {
  return withoutEarlyDays(withoutFutureDays(data, query, now), query);
}

// A stream without a wanted day has only today's. A window before the first wanted day, which only an address has, stays.
function withoutEarlyDays(data, query) {
  const isEmpty = data.days.every((each) => each.state === "none");
  let first = data.first_day ?? (isEmpty ? data.to : data.from);
  if (first > data.to) {
    if (readParams(query).until) return data;
    first = data.to;
  }
  if (first <= data.from) return data;
  const isWanted = (each) => each.day >= first;
  return { ...data, from: first, days: data.days.filter(isWanted), band: data.band.filter(isWanted) };
}

// The answer without days that have not begun in the stream's zone, unless the address contains them.
function withoutFutureDays(data, query, now) {
  const today = todayIn(data.stream.timezone, now);
  if (readParams(query).until || data.to <= today) return data;
  const hasBegun = (each) => each.day <= today;
  return { ...data, to: today, days: data.days.filter(hasBegun), band: data.band.filter(hasBegun) };
}

// The last day of the previous window. Null without a previous window.
export function earlier(to, length, first) {
  const day = daysAfter(to, -length);
  return dateOf(day).getUTCFullYear() < FIRST_YEAR || (first && day < first) ? null : day;
}

// The last day of the next window. Empty for today, null without a next window.
export function later(to, length, today) {
  if (to >= today) return null;
  const day = daysAfter(to, length);
  return day >= today ? "" : day;
}
