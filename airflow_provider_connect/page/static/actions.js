// Actions, executed by Airflow with the viewer's rights after a confirmation.

import { order, reasonOf } from "./api.js";
import { linkTo, make, put } from "./elements.js";

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

function mapIndex(name) {
  const index = Number(name.map_index ?? -1);
  return index >= 0 ? { map_index: index } : {};
}

export function button(open) {
  return make("button", { type: "button", class: "act", onclick: open });
}

export function allow(button, canEdit, text) {
  button.disabled = !canEdit;
  button.title = canEdit ? "" : "You have no right to run this DAG";
  if (button.textContent !== text) button.textContent = text;
}

export function label(text, field) {
  return make("label", {}, text, field);
}

// `failed` is called after a refusal, `after` after the action. Returns the dialog's button.
export function dialog(title, { text, fields = [], does, act, failed = () => null, after }) {
  const answer = make("p", { role: "status" });
  let isWaiting = false;
  const confirm = make("button", { type: "submit", class: "act" }, does);
  const close = make("button", { type: "button", onclick: () => node.close() }, "Cancel");
  const form = make("form", { method: "dialog", onsubmit }, make("h2", { id: "asks" }, title), make("p", {}, text), fields, answer, make("div", { class: "bar" }, confirm, close));
  const node = make("dialog", { "aria-labelledby": "asks", onclose: () => node.remove() }, form);

  async function onsubmit(event) {
    event.preventDefault();
    if (isWaiting) return;
    isWaiting = confirm.disabled = true;
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
      isWaiting = confirm.disabled = false;
      failed();
    }
  }

  document.body.append(node);
  node.showModal();
  return { confirm };
}
