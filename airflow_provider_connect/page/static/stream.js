// One stream: facts, days and actions.

import { backfillButtons } from "./backfill.js";
import { calendar } from "./calendar.js";
import { chart } from "./chart.js";
import { dayPanel } from "./day.js";
import { badge, copyButton, linkTo, make, renew, timeAgo, timeUntil } from "./elements.js";
import { moment, number, plural, span, stateText } from "./texts.js";
import { toolbar } from "./toolbar.js";
import { withKnownDays, readParams, windowOf } from "./window.js";

export function streamView(name, { go, refresh }) {
  const head = make("header", { class: "stream" });
  const facts = make("dl", { class: "facts" });
  const panel = dayPanel(name, { refresh });
  const days = calendar((day) => choose(day));
  const rows = chart((day) => choose(day));
  const bar = toolbar((changes) => move(changes));
  const backfill = backfillButtons(() => data, { refresh });
  const tools = make("div", { class: "bar" }, bar.elements, backfill.element);
  const element = make("section", {}, head, facts, tools, days.element, rows.element, panel.element);
  let query = name;
  let data = null;

  const base = () => ({
    dag_id: name.dag_id,
    task_id: name.task_id,
    ...(name.map_index ? { map_index: name.map_index } : {}),
    ...(name.stream ? { stream: name.stream } : {}),
  });
  const move = (changes, how) => {
    const next = { ...base(), ...readParams(query), ...changes };
    for (const [key, value] of Object.entries(next)) if (value === null) delete next[key];
    return go(next, how);
  };

  function choose(day) {
    move({ day }, { replace: true });
    days.mark(day);
    panel.show(day, data);
  }

  function update(facts_, query_) {
    data = facts_;
    query = query_;
    const day = readParams(query).day ?? null;
    renew(head, ...headOf(data, go));
    renew(facts, ...factsOf(data));
    bar.show(data, query);
    backfill.allow(data.stream.can_edit);
    days.show(data, day);
    rows.show(data);
    panel.show(day, data);
  }

  return { element, update, address, shownOf: withKnownDays };
}

function address(query) {
  const path = `streams/${encodeURIComponent(query.dag_id)}/${encodeURIComponent(query.task_id)}`;
  const { from, to } = windowOf(query);
  const searchParams = new URLSearchParams({ from, to });
  if (query.map_index && query.map_index !== "-1") searchParams.set("map_index", query.map_index);
  if (query.stream) searchParams.set("stream", query.stream);
  return `${path}?${searchParams}`;
}

function headOf({ stream }, go) {
  const back = (event) => {
    event.preventDefault();
    go({});
  };
  const mapped = stream.map_index >= 0 ? ` [${stream.map_index}]` : stream.key ? ` ${stream.key}` : "";
  const path = make("nav", { "aria-label": "Path" }, make("a", { href: "?", onclick: back }, "Streams"), " / ", stream.dag_id);
  const rest = stream.resumes_at ? [" (", timeUntil(stream.resumes_at), ")"] : [];
  const state = make("p", { class: "state" }, make("span", {}, stateText(stream)), rest);
  if (stream.state === "failed") state.append(" ", copyButton(stream.state_text));
  return [path, make("h1", {}, `${stream.task_id}${mapped} `, badge(stream.state)), state, failedRuns(stream), links(stream)];
}

// Runs whose day is unknown have no place in the calendar.
function failedRuns({ failed_runs: runs = [] }) {
  if (runs.length === 0) return null;
  const items = runs.map((run) => linkTo(run.task_url, run.first_day ? daysOf(run) : run.run_id));
  return make("p", { class: "links" }, "Log of failed runs: ", items.flatMap((item, index) => (index ? [", ", item] : [item])));
}

const daysOf = (run) => (run.first_day === run.last_day ? run.first_day : `${run.first_day} to ${run.last_day}`);

function links(stream) {
  const pairs = [["DAG", stream.dag_url], ["Task", stream.task_url], ["Newest log", stream.log_url]];
  const known = pairs.filter(([, url]) => url);
  return known.length ? make("nav", { class: "links", "aria-label": "In Airflow" }, known.map(([text, url]) => linkTo(url, text))) : null;
}

function factsOf({ stream, quota, backfill, origin }) {
  const entries = [
    ["Source", stream.source ?? "unknown", stream.stream_label],
    ["Sink", stream.sink ?? "unknown", stream.target],
    ["Last day", stream.last_day ?? "none yet", `in ${stream.timezone ?? "an unknown zone"}`],
    ["Days behind", number(stream.days_behind), gapText(stream, origin)],
  ];
  if (stream.read_at) entries.push(["Newest rows", timeAgo(stream.read_at), "when they were read"]);
  if (quota) entries.push(quotaEntry(quota));
  if (backfill) entries.push(backfillEntry(backfill));
  return entries.map(([name, value, more]) => make("div", {}, make("dt", {}, name), make("dd", {}, value, more ? make("small", {}, more) : null)));
}

function gapText({ position, last_day }, origin) {
  if (!position) return origin && `counted from ${origin}`;
  return position === last_day ? "no gap before the last day" : `no gap up to ${position}`;
}

function quotaEntry(quota) {
  const left = quota.limit - quota.used;
  const meter = make("meter", { min: 0, max: quota.limit, value: left, "aria-label": "Requests left of the quota" });
  const more = [`of connection ${quota.conn_id}: ${number(quota.limit)} in ${span(quota.period_seconds)}`];
  if (quota.resets_at) more.push(", more ", timeUntil(quota.resets_at));
  if (quota.waiting) more.push(`, ${plural(quota.waiting, "task")} waiting`);
  return ["Quota left", [`${number(left)} `, meter], more];
}

function backfillEntry(backfill) {
  const bar = make("progress", { max: Math.max(backfill.total, 1), value: backfill.done, "aria-label": "Runs done" });
  const at = backfill.estimated_end;
  const end = at ? [", ends ", timeUntil(at), `, about ${moment(at)}`] : ", too few ended runs for an estimate";
  const what = linkTo(backfill.url, `${backfill.from} to ${backfill.to}`);
  return ["Backfill", [`${number(backfill.done)} of ${number(backfill.total)} `, bar], [what, end].flat()];
}
