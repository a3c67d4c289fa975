// What can be done: Airflow does it, with the rights of whoever looks. Nothing is done without being asked twice.

import { order } from "./asking.js";
import { linkTo, make, put } from "./elements.js";

const REPROCESS = {
  none: "Only days that have no run yet",
  failed: "Those, and days whose run has failed",
  completed: "All days, those that are loaded as well",
};

export function clearButton(name, day, stream, { refresh }) {
  const open = () =>
    dialog(`Load ${day} again?`, {
      text: "Airflow clears the task of that day's run. What is published stays until the new answer takes its place.",
      does: "Load it again",
      act: () => order("actions/clear", { dag_id: name.dag_id, task_id: name.task_id, day, ...mapIndex(name) }),
      after: refresh,
    });
  return button(`Load ${day} again…`, stream.can_edit, open);
}

export function backfillButton(told, { refresh }) {
  const stream = told.stream;
  const gaps = told.days.filter((each) => each.state === "gap").map((each) => each.day);
  const first = make("input", { type: "date", name: "from", required: true, value: gaps[0] ?? told.from });
  const last = make("input", { type: "date", name: "to", required: true, value: gaps.at(-1) ?? stream.last_day ?? told.to });
  const which = make("select", { name: "reprocess" }, Object.entries(REPROCESS).map(([value, text]) => make("option", { value }, text)));
  const open = () =>
    dialog(`Start a backfill of DAG ${stream.dag_id}?`, {
      text: "Airflow makes a run for each day, both ends included. All of the DAG's tasks run.",
      fields: [label("From", first), label("To", last), label("Which days", which)],
      does: "Start it",
      act: () => order("actions/backfill", { dag_id: stream.dag_id, from: first.value, to: last.value, reprocess: which.value }),
      after: refresh,
    });
  return button("Start a backfill…", stream.can_edit, open);
}

function mapIndex(name) {
  const index = Number(name.map_index ?? -1);
  return index >= 0 ? { map_index: index } : {};
}

function button(text, canEdit, open) {
  const made = make("button", { type: "button", class: "act", disabled: !canEdit, onclick: open }, text);
  if (!canEdit) made.title = "You may look at this DAG, and not run it";
  return made;
}

function label(text, field) {
  return make("label", {}, text, field);
}

function dialog(title, { text, fields = [], does, act, after }) {
  const answer = make("p", { role: "status" });
  const confirm = make("button", { type: "submit", class: "act" }, does);
  const close = make("button", { type: "button", onclick: () => made.close() }, "Cancel");
  const form = make("form", { method: "dialog", onsubmit }, make("h2", { id: "asks" }, title), make("p", {}, text), fields, answer, make("div", { class: "bar" }, confirm, close));
  const made = make("dialog", { "aria-labelledby": "asks", onclose: () => made.remove() }, form);

  async function onsubmit(event) {
    event.preventDefault();
    confirm.disabled = true;
    answer.className = "";
    answer.textContent = "Asks Airflow…";
    try {
      const said = await act();
      put(answer, `${said.done}. `, linkTo(said.url, "See it in Airflow"));
      confirm.remove();
      close.textContent = "Close";
      close.focus();
      after();
    } catch (error) {
      answer.className = "problem";
      answer.textContent = error.message;
      confirm.disabled = false;
    }
  }

  document.body.append(made);
  made.showModal();
}
