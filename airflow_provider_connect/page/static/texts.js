// Numbers, sizes and times as people read them.

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const weekday = new Intl.DateTimeFormat("en", { weekday: "long", timeZone: "UTC" });
const month = new Intl.DateTimeFormat("en", { month: "short", timeZone: "UTC" });

export const number = (value) => (value === null || value === undefined ? "–" : whole.format(value));
export const brief = (value) => short.format(value);
export const plural = (count, one) => `${number(count)} ${one}${count === 1 ? "" : "s"}`;
export const weekdayOf = (day) => weekday.format(dateOf(day));
export const monthOf = (day) => month.format(dateOf(day));

export function size(bytes) {
  if (bytes === null || bytes === undefined) return "–";
  const steps = ["B", "kB", "MB", "GB", "TB"];
  const step = Math.min(steps.length - 1, Math.floor(Math.log10(Math.max(bytes, 1)) / 3));
  const value = bytes / 1000 ** step;
  return `${step && value < 100 ? value.toFixed(1) : Math.round(value)} ${steps[step]}`;
}

export function ago(instant, now = Date.now()) {
  const seconds = (now - Date.parse(instant)) / 1000;
  if (seconds < 5) return "just now";
  return `${span(seconds)} ago`;
}

export function until(instant, now = Date.now()) {
  const seconds = (Date.parse(instant) - now) / 1000;
  return seconds < 5 ? "any moment" : `in ${span(seconds)}`;
}

export function span(seconds) {
  if (seconds < 90) return plural(Math.round(seconds), "second");
  if (seconds === HOUR) return "an hour";
  if (seconds < 90 * MINUTE) return plural(Math.round(seconds / MINUTE), "minute");
  if (seconds < 36 * HOUR) return plural(Math.round(seconds / HOUR), "hour");
  return plural(Math.round(seconds / DAY), "day");
}

// The text of a stream's state without the state's name, which stands before it.
export const stateText = ({ state_text: text }) => text.replace(/^(Failed|Catching up): /, "");

export function moment(instant) {
  return instant ? `${instant.slice(0, 10)} ${instant.slice(11, 16)} UTC` : "–";
}

// Days are texts such as 2026-11-20, and dates at UTC's midnight where one counts with them.
export const dateOf = (day) => new Date(`${day}T00:00:00Z`);
export const dayOf = (date) => date.toISOString().slice(0, 10);
export const daysAfter = (day, days) => dayOf(new Date(dateOf(day).getTime() + days * DAY * 1000));
