// The days of a stream as a grid: a column for each week, a row for each day of the week. Several years are a block each.

import { make, put } from "./elements.js";
import { dateOf, daysAfter, monthOf, number, plural, size, weekdayOf } from "./texts.js";

const WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
// Each state has a sign, readable without colours.
const SIGNS = { done: "", running: "▸", waiting: "…", failed: "✕", gap: "○", none: "" };
const NAMES = { done: "loaded", running: "running", waiting: "waiting", failed: "failed", gap: "missing", none: "nothing yet" };
const SHADES = 5;
const ONE_BLOCK_DAYS = 372;
const DAY = 86_400_000; // in milliseconds
const MOVES = { ArrowLeft: -7, ArrowRight: 7, ArrowUp: -1, ArrowDown: 1, PageUp: -28, PageDown: 28 };

const tip = document.getElementById("tip");

export function calendar(choose) {
  const blocks = make("div", { class: "blocks" });
  const by = make("select", { "aria-label": "Meaning of the shade", onchange: () => paint() }, option("rows", "Rows"), option("bytes", "Bytes"));
  const legend = make("p", { class: "legend quiet" }, "Shade: ", by, ...Object.keys(SIGNS).filter((state) => state !== "none").map(key), key("reloaded"), key("rejected"));
  const element = make("figure", { class: "calendar", "aria-label": "Days" }, blocks, legend);
  const cells = new Map();
  let days = new Map();
  let chosen = null;
  let windowShown = "";

  blocks.addEventListener("click", (event) => chooseCell(event.target.closest("[data-day]")));
  blocks.addEventListener("keydown", onKey);
  blocks.addEventListener("pointerover", (event) => showTip(event.target.closest("[data-day]")));
  blocks.addEventListener("focusin", (event) => showTip(event.target.closest("[data-day]")));
  for (const name of ["pointerleave", "focusout"]) blocks.addEventListener(name, () => (tip.hidden = true));

  function show(data, day) {
    const focused = document.activeElement?.dataset?.day;
    const window = `${data.from} ${data.to}`;
    const isSame = window === windowShown;
    windowShown = window;
    const lefts = [...blocks.querySelectorAll(".scroll")].map((each) => each.scrollLeft);
    days = new Map(data.days.map((each) => [each.day, each]));
    cells.clear();
    put(blocks, ...blocksOf(data.days).map((each) => block(each, cells)));
    paint();
    mark(day ?? chosen);
    blocks.querySelectorAll(".scroll").forEach((each, index) => {
      each.scrollLeft = isSame ? lefts[index] : each.scrollWidth; // at first the newest days, later the last position
    });
    if (focused) cells.get(focused)?.focus({ preventScroll: true });
  }

  function paint() {
    const shade = shadesOf([...days.values()].map((each) => each[by.value]));
    for (const [day, cell] of cells) {
      const each = days.get(day);
      cell.dataset.shade = each.state === "done" ? shade(each[by.value]) : "";
    }
  }

  function mark(day) {
    cells.get(chosen)?.removeAttribute("aria-selected");
    chosen = cells.has(day) ? day : null;
    cells.get(chosen)?.setAttribute("aria-selected", "true");
    for (const grid of blocks.querySelectorAll('[role="grid"]')) {
      const entry = grid.contains(cells.get(chosen)) ? cells.get(chosen) : newestOf(grid);
      if (entry) makeEntry(entry);
    }
  }

  function newestOf(grid) {
    return [...grid.querySelectorAll("[data-day]")].reduce((newest, cell) => (newest && newest.dataset.day > cell.dataset.day ? newest : cell), null);
  }

  // Each grid has one day that the tab key reaches.
  function makeEntry(cell) {
    for (const other of cell.closest('[role="grid"]').querySelectorAll('[tabindex="0"]')) other.tabIndex = -1;
    cell.tabIndex = 0;
  }

  function chooseCell(cell) {
    if (cell) choose(cell.dataset.day);
  }

  function onKey(event) {
    const cell = event.target.closest("[data-day]");
    if (!cell || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter" || event.key === " ") chooseCell(cell);
    else if (event.key in MOVES) focusCell(cells.get(daysAfter(cell.dataset.day, MOVES[event.key])));
    else if (event.key === "Home") focusCell(cells.values().next().value);
    else if (event.key === "End") focusCell([...cells.values()].at(-1));
    else return;
    event.preventDefault();
  }

  function focusCell(cell) {
    if (!cell) return;
    makeEntry(cell);
    cell.focus();
    cell.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  function showTip(cell) {
    if (!cell) return;
    tip.textContent = cell.getAttribute("aria-label");
    tip.hidden = false;
    const box = cell.getBoundingClientRect();
    const left = Math.min(box.left + scrollX, scrollX + document.documentElement.clientWidth - tip.offsetWidth - 8);
    tip.style.left = `${Math.max(left, scrollX + 8)}px`;
    tip.style.top = `${box.bottom + scrollY + 6}px`;
  }

  return { element, show, mark };
}

// Describes a day in one sentence, for the tip and for screen readers.
export function sentence(each) {
  return `${weekdayOf(each.day)}, ${each.day}: ${facts(each)}`;
}

// State and figures of a day.
export function facts(each) {
  const parts = [NAMES[each.state] ?? each.state];
  if (each.rows !== null) parts.push(plural(each.rows, "row"), size(each.bytes));
  if (each.generation > 1) parts.push(`loaded ${plural(each.generation, "time")}`);
  if (each.rejected) parts.push(`${number(each.rejected)} rejected`);
  if (each.warnings?.length) parts.push(plural(each.warnings.length, "warning"));
  return parts.join(", ");
}

// Shades 1 to 5 with equal numbers of days, 0 for no rows.
export function shadesOf(values) {
  const sorted = values.filter((value) => value > 0).sort((a, b) => a - b);
  const ends = Array.from({ length: SHADES - 1 }, (_, index) => sorted[Math.floor(((index + 1) * sorted.length) / SHADES)]);
  return (value) => (value > 0 ? 1 + ends.filter((end) => value >= end).length : 0);
}

function blocksOf(days) {
  if (days.length <= ONE_BLOCK_DAYS) return days.length ? [["", days]] : [];
  const years = new Map();
  for (const each of days) {
    const year = each.day.slice(0, 4);
    if (!years.has(year)) years.set(year, []);
    years.get(year).push(each);
  }
  return [...years];
}

function block([year, days], cells) {
  const rows = WEEKDAYS.map((name, index) => make("div", { role: "row" }, weekdayHead(name, index)));
  const months = make("div", { class: "months", "aria-hidden": "true" });
  const first = year ? `${year}-01-01` : days[0].day;
  const monday = dateOf(first).getTime() - weekdayIndex(first) * DAY;
  let monthShown = "";
  for (const each of days) {
    const week = Math.floor((dateOf(each.day) - monday) / (7 * DAY)) + 2;
    const row = weekdayIndex(each.day);
    const node = cellOf(each);
    node.style.gridArea = `${row + 2} / ${week}`;
    rows[row].append(node);
    cells.set(each.day, node);
    const month = each.day.slice(0, 7);
    if (month !== monthShown && (monthShown === "" ? Number(each.day.slice(8)) < 22 : true)) {
      const label = make("span", {}, year || !month.endsWith("-01") ? monthOf(each.day) : month.slice(0, 4));
      label.style.gridArea = `1 / ${week}`;
      months.append(label);
    }
    monthShown = month;
  }
  rows.forEach((row, index) => (row.firstChild.style.gridArea = `${index + 2} / 1`));
  const grid = make("div", { role: "grid", class: "grid", "aria-label": year ? `Days of ${year}` : "Days" }, months, rows);
  return make("section", { class: year ? "year" : "" }, year ? make("h2", {}, year) : null, make("div", { class: "scroll" }, grid));
}

// Every second name is visible. A screen reader has all.
function weekdayHead(name, index) {
  const short = index % 2 ? "" : name.slice(0, 3);
  return make("span", { role: "rowheader", class: "weekday" }, make("span", { "aria-hidden": "true" }, short), make("span", { class: "unseen" }, name));
}

function cellOf(each) {
  const node = make("div", { role: "gridcell", tabindex: "-1", "data-day": each.day, "data-state": each.state, "aria-label": sentence(each) }, SIGNS[each.state] ?? "?");
  if (each.reloaded) node.dataset.reloaded = "";
  if (each.rejected) node.dataset.rejected = "";
  return node;
}

function weekdayIndex(day) {
  return (dateOf(day).getUTCDay() + 6) % 7;
}

function option(value, text) {
  return make("option", { value }, text);
}

function key(state) {
  const marks = { reloaded: ["done", { "data-reloaded": "", "data-shade": 3 }], rejected: ["done", { "data-rejected": "", "data-shade": 3 }] };
  const [shownState, more] = marks[state] ?? [state, state === "done" ? { "data-shade": 3 } : {}];
  const sign = make("i", { "data-state": shownState, ...more, "aria-hidden": "true" }, SIGNS[shownState]);
  return make("span", { class: "key" }, sign, NAMES[state] ?? (state === "reloaded" ? "loaded again" : "has rejects"));
}
