// Actions, executed by Airflow with the viewer's rights after a confirmation.

import { order, reasonOf } from "./api.js";
import { linkTo, make, put } from "./elements.js";

const REPROCESS = {
  none: "Only days without a run",
  failed: "Days without a run, and days whose run failed",
  completed: "All days, including loaded ones",
};

// Buttons are created once and updated, so that a closed dialog returns the focus to its button.
export function clearButton(name, dayShown, { refresh }) {
  const open = () => {
    const day = dayShown();
    dialog(`Load ${day} again?`, {
      text: "Airflow clears the task in that day's run. The published rows stay until the new answer replaces them.",
      does: "Load it again",
      act: () => order("actions/clear", { dag_id: name.dag_id, task_id: name.task_id, day, ...mapIndex(name) }),
      after: refresh,
    });
  };
  const node = button(open);
  return { element: node, allow: (canEdit, day) => allow(node, canEdit, `Load ${day} again…`) };
}

export function backfillButton(currentData, { refresh }) {
  const node = button(() => askForBackfill(currentData(), refresh));
  return { element: node, allow: (canEdit) => allow(node, canEdit, "Start a backfill…") };
}

function askForBackfill(data, refresh) {
  const stream = data.stream;
  const gaps = data.days.filter((each) => each.state === "gap").map((each) => each.day);
  const first = make("input", { type: "date", name: "from", required: true, value: gaps[0] ?? data.from });
  const last = make("input", { type: "date", name: "to", required: true, value: gaps.at(-1) ?? stream.last_day ?? data.to });
  const which = make("select", { name: "reprocess" }, Object.entries(REPROCESS).map(([value, text]) => make("option", { value }, text)));
  dialog(`Start a backfill of DAG ${stream.dag_id}?`, {
    text: "Airflow makes a run for each day, both ends included. All of the DAG's tasks run.",
    fields: [label("From", first), label("To", last), label("Which days", which)],
    does: "Start it",
    act: () => order("actions/backfill", { dag_id: stream.dag_id, from: first.value, to: last.value, reprocess: which.value }),
    after: refresh,
  });
}

function mapIndex(name) {
  const index = Number(name.map_index ?? -1);
  return index >= 0 ? { map_index: index } : {};
}

function button(open) {
  return make("button", { type: "button", class: "act", onclick: open });
}

function allow(button, canEdit, text) {
  button.disabled = !canEdit;
  button.title = canEdit ? "" : "You have no right to run this DAG";
  if (button.textContent !== text) button.textContent = text;
}

function label(text, field) {
  return make("label", {}, text, field);
}

function dialog(title, { text, fields = [], does, act, after }) {
  const answer = make("p", { role: "status" });
  const confirm = make("button", { type: "submit", class: "act" }, does);
  const close = make("button", { type: "button", onclick: () => node.close() }, "Cancel");
  const form = make("form", { method: "dialog", onsubmit }, make("h2", { id: "asks" }, title), make("p", {}, text), fields, answer, make("div", { class: "bar" }, confirm, close));
  const node = make("dialog", { "aria-labelledby": "asks", onclose: () => node.remove() }, form);

  async function onsubmit(event) {
    event.preventDefault();
    confirm.disabled = true;
    answer.className = "";
    answer.textContent = "Waiting for Airflow…";
    try {
      const result = await act();
      put(answer, `${result.done}. `, linkTo(result.url, "See it in Airflow"));
      confirm.remove();
      close.textContent = "Close";
      close.focus();
      after();
    } catch (error) {
      answer.className = "problem";
      answer.textContent = reasonOf(error);
      confirm.disabled = false;
    }
  }

  document.body.append(node);
  node.showModal();
}
