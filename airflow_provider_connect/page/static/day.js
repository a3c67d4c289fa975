// One day: the reports of its runs, and the button that loads it again.

import { clearButton } from "./actions.js";
import { ask, reasonOf } from "./api.js";
import { facts } from "./calendar.js";
import { copyButton, linkTo, make, put, renew } from "./elements.js";
import { moment, number, size, weekdayOf } from "./texts.js";

export function dayPanel(name, { refresh }) {
  let requestKey = "";
  let shownDay = null;
  const title = make("h2");
  const clear = clearButton(name, () => shownDay, { refresh });
  const status = make("p", { role: "status" }); // read out by screen readers, unlike the table
  const body = make("div");
  const element = make("section", { class: "day", hidden: true }, make("div", { class: "bar" }, title, clear.element), status, body);

  async function show(day, data) {
    element.hidden = day === null;
    if (day === null) return;
    const turn = (requestKey = `${day}\n${JSON.stringify(data?.days.find((each) => each.day === day))}`);
    if (element.dataset.turn === turn) return head(day, data);
    try {
      const dayAnswer = await ask(address(name, day));
      if (requestKey !== turn) return;
      element.dataset.turn = turn;
      fill(dayAnswer, data);
    } catch (error) {
      if (requestKey !== turn) return;
      delete element.dataset.turn;
      head(day, data);
      showStatus(reasonOf(error), "problem");
      renew(body);
    }
  }

  function head(day, data) {
    shownDay = day;
    title.textContent = dateText(day);
    clear.allow(data.stream.can_edit, day);
  }

  function showStatus(text, kind, before = "") {
    status.className = kind;
    if (status.textContent !== (before.textContent ?? "") + text) put(status, before, make("span", { class: "first-big" }, text));
  }

  function fill({ day, generations }, data) {
    head(day.day, data);
    // The title shows the day. A screen reader does not read it out.
    showStatus(`${facts(day)}.`, "", make("span", { class: "unseen" }, `${dateText(day.day)}: `));
    const none = make("p", { class: "quiet" }, "No run has reported this day.");
    renew(body, generations.length ? tableOf(generations) : none);
  }

  return { element, show };
}

function address(name, day) {
  const path = `streams/${encodeURIComponent(name.dag_id)}/${encodeURIComponent(name.task_id)}/days/${day}`;
  const searchParams = new URLSearchParams();
  if (name.map_index && name.map_index !== "-1") searchParams.set("map_index", name.map_index);
  if (name.stream) searchParams.set("stream", name.stream);
  return searchParams.size ? `${path}?${searchParams}` : path;
}

const dateText = (day) => `${weekdayOf(day)}, ${day}`;

const HEADS = ["Generation", "Status", "Rows", "Bytes", "Rejected", "Reported", "Run", "In the sink"];
const NUMBERS = ["Generation", "Rows", "Bytes", "Rejected"];

function tableOf(generations) {
  const heads = HEADS.map((name) => make("th", { scope: "col", class: NUMBERS.includes(name) ? "number" : null }, name));
  const rows = generations.flatMap((each) => [row(each), ...notes(each)]);
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Generations" }, make("table", {}, make("thead", {}, make("tr", {}, heads)), make("tbody", {}, rows)));
}

function row(each) {
  const cells = [
    each.generation === null ? "–" : number(each.generation),
    (each.status ?? "").replaceAll("_", " "),
    number(each.rows),
    size(each.bytes),
    number(each.rejected),
    moment(each.published_at ?? each.task_at),
    each.task_url || each.run_url ? linkTo(each.task_url ?? each.run_url, each.run_id ?? "run") : (each.run_id ?? "–"),
    each.link ? linkTo(each.link, "Published") : "–",
  ];
  return make("tr", {}, cells.map((cell, index) => make("td", { class: NUMBERS.includes(HEADS[index]) ? "number" : null, "data-name": HEADS[index] }, cell)));
}

function notes(each) {
  const warnings = (each.warnings ?? []).map((text) => [text, each.status === "failed" ? copyButton(text) : null]);
  const rejects = each.rejects?.length ? [[`Rejects in the stage: ${each.rejects.join(", ")}`, null]] : [];
  return [...warnings, ...rejects].map(([text, copy]) => make("tr", { class: "note" }, make("td", { colspan: HEADS.length }, text, copy && " ", copy)));
}
