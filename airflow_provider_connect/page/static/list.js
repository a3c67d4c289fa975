// List of all streams, sortable and searchable.

import { badge, make, put, timeAgo } from "./elements.js";
import { number } from "./texts.js";

// Order of states, the most urgent first.
const URGENCY = ["failed", "gap", "late", "waiting", "running", "new", "paused", "ok"];

const COLUMNS = [
  { name: "Stream", of: (each) => each.id, cell: nameCell },
  { name: "Source", of: (each) => each.source ?? "", cell: (each) => two(each.source, each.stream) },
  { name: "Sink", of: (each) => each.sink ?? "", cell: (each) => two(each.sink, each.target) },
  { name: "Last day", of: (each) => each.last_day ?? "", cell: (each) => two(each.last_day ?? "–", each.timezone) },
  { name: "Days behind", of: (each) => each.lag_days ?? -1, cell: (each) => number(each.lag_days), kind: "number" },
  { name: "Rows of last day", of: (each) => each.rows_last_day ?? -1, cell: rowsCell, kind: "number" },
  { name: "Reported", of: (each) => each.reported_at ?? "", cell: (each) => [each.reported_at ? timeAgo(each.reported_at) : "–"] },
  { name: "State", of: (each) => URGENCY.indexOf(each.state), cell: stateCell },
];

export function listOf(query, { go }) {
  let streams = [];
  let sorted = { by: COLUMNS.length - 1, down: false };
  const body = make("tbody");
  const heads = COLUMNS.map((column, index) => head(column, () => sortBy(index)));
  const search = make("input", { type: "search", placeholder: "Filter", "aria-label": "Filter streams", oninput: fill });
  const count = make("span", { class: "quiet", role: "status" });
  const table = make("table", { class: "streams" }, make("thead", {}, make("tr", {}, heads)), body);
  const nothing = make("div", { class: "empty", hidden: true });
  const title = query.dag_id ? `Streams of ${query.dag_id}` : "Streams";
  const top = make("header", { class: "bar" }, make("h1", {}, title), search, count);
  const element = make("section", {}, top, make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title }, table), nothing);

  function sortBy(index) {
    sorted = { by: index, down: sorted.by === index && !sorted.down };
    fill();
  }

  function fill() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const matches = streams.filter((each) => words.every((word) => textOf(each).includes(word)));
    matches.sort((a, b) => compare(COLUMNS[sorted.by].of(a), COLUMNS[sorted.by].of(b)) * (sorted.down ? -1 : 1) || compare(a.id, b.id));
    const focused = document.activeElement?.closest?.("tr")?.dataset.id;
    put(body, matches.map((each) => line(each, go)));
    if (focused) body.querySelector(`tr[data-id="${CSS.escape(focused)}"] a`)?.focus();
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
  const open = (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    go(query);
  };
  const mapped = each.map_index >= 0 ? ` [${each.map_index}]` : "";
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

function stateCell(each) {
  return [badge(each.state), make("small", {}, each.state_text)];
}

function textOf(each) {
  return [each.id, each.source, each.stream, each.sink, each.target, each.state].join(" ").toLowerCase();
}

function compare(a, b) {
  return a < b ? -1 : a > b ? 1 : 0;
}
