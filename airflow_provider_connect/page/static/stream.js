// One stream: what it is, its days, and what can be done.

import { backfillButton } from "./actions.js";
import { calendar } from "./calendar.js";
import { chart } from "./chart.js";
import { dayPanel } from "./day.js";
import { badge, linkTo, make, put } from "./elements.js";
import { dateOf, dayOf, daysAfter, moment, number, plural, span, until } from "./texts.js";

const SPANS = { year: ["One year", 366], three: ["Three years", 1098], ten: ["Ten years", 3660] };

export function streamView(name, { go, refresh }) {
  const head = make("header", { class: "stream" });
  const facts = make("dl", { class: "facts" });
  const panel = dayPanel(name, { refresh });
  const days = calendar((day) => choose(day));
  const rows = chart((day) => choose(day));
  const tools = make("div", { class: "bar" });
  const element = make("section", {}, head, facts, tools, days.element, rows.element, panel.element);
  let query = name;
  let told = null;

  const base = () => ({ dag_id: name.dag_id, task_id: name.task_id, ...(name.map_index ? { map_index: name.map_index } : {}) });
  const move = (changes, how) => {
    const next = { ...base(), ...kept(query), ...changes };
    for (const [key, value] of Object.entries(next)) if (value === null) delete next[key];
    return go(next, how);
  };

  function choose(day) {
    move({ day }, { replace: true });
    days.mark(day);
    panel.show(day, told);
  }

  function update(facts_, query_) {
    told = facts_;
    query = query_;
    put(head, ...headOf(told, go));
    put(facts, ...factsOf(told));
    put(tools, ...toolsOf(told, query, move), backfillButton(told, { refresh }));
    days.show(told, query.day ?? null);
    rows.show(told);
    panel.show(query.day ?? null, told);
  }

  return { element, update, address };
}

function kept(query) {
  return Object.fromEntries(["span", "until", "day"].filter((key) => query[key]).map((key) => [key, query[key]]));
}

function address(query) {
  const path = `streams/${encodeURIComponent(query.dag_id)}/${encodeURIComponent(query.task_id)}`;
  const { from, to } = windowOf(query);
  const asked = new URLSearchParams({ from, to });
  if (query.map_index && query.map_index !== "-1") asked.set("map_index", query.map_index);
  return `${path}?${asked}`;
}

function windowOf(query) {
  const to = /^\d{4}-\d\d-\d\d$/.test(query.until ?? "") ? query.until : dayOf(new Date());
  const length = (SPANS[query.span] ?? SPANS.year)[1];
  return { from: daysAfter(to, 1 - length), to, length };
}

function headOf({ stream }, go) {
  const back = (event) => {
    event.preventDefault();
    go({});
  };
  const mapped = stream.map_index >= 0 ? ` [${stream.map_index}]` : "";
  const path = make("nav", { "aria-label": "Where you are" }, make("a", { href: "?", onclick: back }, "Streams"), " / ", stream.dag_id);
  return [path, make("h1", {}, `${stream.task_id}${mapped} `, badge(stream.state)), make("p", {}, stream.state_text)];
}

function factsOf({ stream, quota, backfill, origin }) {
  const entries = [
    ["From", stream.source ?? "?", stream.stream],
    ["Into", stream.sink ?? "?", stream.target],
    ["Last day", stream.last_day ?? "none yet", `in ${stream.timezone ?? "an unknown zone"}`],
    ["Days behind", number(stream.lag_days), stream.position ? `whole up to ${stream.position}` : origin && `counted from ${origin}`],
  ];
  if (quota) entries.push(quotaEntry(quota));
  if (backfill) entries.push(backfillEntry(backfill));
  return entries.map(([name, value, more]) => make("div", {}, make("dt", {}, name), make("dd", {}, value, more ? make("small", {}, more) : null)));
}

function quotaEntry(quota) {
  const left = quota.limit - quota.used;
  const meter = make("meter", { min: 0, max: quota.limit, value: left, "aria-label": "Requests left of the quota" });
  const more = [`of ${quota.name}: ${number(quota.limit)} in ${span(quota.period_seconds)}`];
  if (quota.resets_at) more.push(`more ${until(quota.resets_at)}`);
  if (quota.waiting) more.push(`${plural(quota.waiting, "task")} waiting`);
  return ["Quota left", [`${number(left)} `, meter], more.join("; ")];
}

function backfillEntry(backfill) {
  const bar = make("progress", { max: Math.max(backfill.total, 1), value: backfill.done, "aria-label": "Runs done" });
  const end = backfill.estimated_end ? `ends ${until(backfill.estimated_end)}, about ${moment(backfill.estimated_end)}` : "too few runs have ended to say when it ends";
  const what = linkTo(backfill.url, `${backfill.from} to ${backfill.to}`);
  return ["Backfill", [`${number(backfill.done)} of ${number(backfill.total)} `, bar], [what, `; ${end}`]];
}

function toolsOf({ to }, query, move) {
  const { length } = windowOf(query);
  const today = dayOf(new Date());
  const later = daysAfter(to, length);
  const chosen = query.span in SPANS ? query.span : "year";
  const step = (text, label, day, off) =>
    make("button", { type: "button", "aria-label": label, title: label, disabled: off, onclick: () => move({ until: day }) }, text);
  const select = make(
    "select",
    { "aria-label": "How many days to show", onchange: (event) => move({ span: event.target.value === "year" ? null : event.target.value }) },
    Object.entries(SPANS).map(([key, [text]]) => make("option", { value: key, selected: key === chosen }, text)),
  );
  return [
    step("←", "Earlier days", daysAfter(to, -length), dateOf(daysAfter(to, -length)).getUTCFullYear() < 1971),
    make("span", { class: "window" }, `${windowOf(query).from} to ${to}`),
    step("→", "Later days", later > today ? null : later, to >= today),
    select,
  ];
}
