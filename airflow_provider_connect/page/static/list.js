// List of all streams, sortable and searchable.

import { badge, copyButton, linkTo, make, put, timeAgo, timeUntil } from "./elements.js";
import { number, plural, stateText } from "./texts.js";

// Order of states, the most urgent first.
const URGENCY = ["failed", "gap", "late", "waiting", "catching_up", "running", "ok", "new", "paused"];

const COLUMNS = [
  { name: "Stream", of: (each) => each.id, cell: nameCell },
  { name: "State", of: (each) => URGENCY.indexOf(each.state), cell: stateCell },
  { name: "Last day", of: (each) => each.last_day ?? "", cell: (each) => two(each.last_day ?? "–", each.timezone) },
  { name: "Days behind", of: (each) => each.days_behind ?? -1, cell: (each) => number(each.days_behind), kind: "number" },
  { name: "Rows of last day", of: (each) => each.rows_last_day ?? -1, cell: rowsCell, kind: "number" },
  { name: "Source", of: (each) => each.source ?? "", cell: (each) => two(each.source ?? "unknown", each.stream_label) },
  { name: "Sink", of: (each) => each.sink ?? "", cell: (each) => two(each.sink ?? "unknown", each.target) },
  { name: "Reported", of: (each) => each.reported_at ?? "", cell: (each) => [each.reported_at ? timeAgo(each.reported_at) : "–"] },
];
const STATE_COLUMN = 1;

export function listOf(query, { go }) {
  let streams = [];
  let sorted = { by: STATE_COLUMN, down: false };
  const body = make("tbody");
  const paused = make("tbody", { id: "paused" });
  const fold = make("button", { type: "button", class: "fold", "aria-expanded": "false", "aria-controls": "paused", onclick: toggle });
  const foldBody = make("tbody", { hidden: true }, make("tr", {}, make("th", { colspan: COLUMNS.length, scope: "rowgroup" }, fold)));
  const heads = COLUMNS.map((column, index) => head(column, () => sortBy(index)));
  const search = make("input", { type: "search", placeholder: "Filter", "aria-label": "Filter streams", oninput: fill });
  const count = make("span", { class: "quiet", role: "status" });
  const table = make("table", { class: "streams" }, make("thead", {}, make("tr", {}, heads)), body, foldBody, paused);
  const nothing = make("div", { class: "empty", hidden: true });
  const title = query.dag_id ? `Streams of ${query.dag_id}` : "Streams";
  const top = make("header", { class: "bar" }, make("h1", {}, title), search, count);
  const element = make("section", {}, top, make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title }, table), nothing);

  function sortBy(index) {
    sorted = { by: index, down: sorted.by === index && !sorted.down };
    fill();
  }

  function toggle() {
    fold.ariaExpanded = String(fold.ariaExpanded !== "true");
    fill();
  }

  function fill() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const matches = streams.filter((each) => words.every((word) => textOf(each).includes(word)));
    matches.sort((a, b) => compare(COLUMNS[sorted.by].of(a), COLUMNS[sorted.by].of(b)) * (sorted.down ? -1 : 1) || compare(a.id, b.id));
    const focused = document.activeElement?.closest?.("tr")?.dataset.id;
    const isPaused = (each) => each.state === "paused";
    const resting = matches.filter(isPaused);
    put(body, matches.filter((each) => !isPaused(each)).map((each) => line(each, go)));
    put(paused, resting.map((each) => line(each, go)));
    fold.textContent = `${plural(resting.length, "paused stream")}`;
    foldBody.hidden = resting.length === 0;
    paused.hidden = fold.ariaExpanded !== "true" && words.length === 0; // a search also finds paused streams
    if (focused) table.querySelector(`tr[data-id="${CSS.escape(focused)}"] a`)?.focus();
    heads.forEach((each, index) => {
      each.ariaSort = index === sorted.by ? (sorted.down ? "descending" : "ascending") : "none";
    });
    count.textContent = words.length ? `${matches.length} of ${streams.length}` : "";
    table.hidden = search.hidden = streams.length === 0;
    nothing.hidden = streams.length > 0;
  }

  function update(data) {
    streams = data.streams.filter((each) => !query.dag_id || each.dag_id === query.dag_id);
    put(nothing, emptyText(query));
    fill();
  }

  return { element, update, address: () => "streams", shownOf: (data) => data };
}

function emptyText(query) {
  const where = query.dag_id ? `DAG ${query.dag_id} has no visible stream.` : "No stream is visible to you.";
  const how = "A stream is a task with ConnectOperator, @task.connect or a pipeline file. It appears once Airflow has read its DAG.";
  return [make("p", {}, where), make("p", { class: "quiet" }, how)];
}

function head(column, sort) {
  return make("th", { scope: "col", class: column.kind }, make("button", { type: "button", onclick: sort }, column.name));
}

function line(each, go) {
  const node = make("tr", { "data-id": each.id });
  node.append(...COLUMNS.map((column) => make("td", { class: column.kind, "data-name": column.name }, column.cell(each, go))));
  return node;
}

function nameCell(each, go) {
  const query = { dag_id: each.dag_id, task_id: each.task_id };
  if (each.map_index >= 0) query.map_index = each.map_index;
  if (each.key) query.stream = each.key;
  const open = (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    go(query);
  };
  const mapped = each.map_index >= 0 ? ` [${each.map_index}]` : each.key ? ` ${each.key}` : "";
  const link = make("a", { href: `?${new URLSearchParams(query)}`, onclick: open }, `${each.task_id}${mapped}`);
  return [link, make("small", {}, each.dag_id)];
}

function two(first, second) {
  return second ? [first ?? "?", make("small", {}, second)] : [first ?? "?"];
}

function rowsCell(each) {
  const rejected = each.rejected_last_day ? make("small", {}, `${number(each.rejected_last_day)} rejected`) : null;
  return [number(each.rows_last_day), rejected].filter(Boolean);
}

// The columns beside it say as much as the text of a stream that is well.
function stateCell(each) {
  if (each.state === "ok") return [badge(each.state)];
  const rest = each.resumes_at ? [" (", timeUntil(each.resumes_at), ")"] : [];
  const links = (each.failed_runs ?? []).slice(0, 1).map((run) => linkTo(run.task_url, "Log"));
  const tools = each.state === "failed" ? make("span", { class: "tools" }, links, copyButton(each.state_text)) : null;
  return [badge(each.state), make("small", {}, stateText(each), rest), tools];
}

function textOf(each) {
  return [each.id, each.source, each.stream_label, each.sink, each.target, each.state].join(" ").toLowerCase();
}

function compare(a, b) {
  return a < b ? -1 : a > b ? 1 : 0;
}
