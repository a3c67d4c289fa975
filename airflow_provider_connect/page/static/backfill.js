// The backfill dialog: shows runs, requests and time of the days before its button starts them.

import { allow, button, dialog, label } from "./actions.js";
import { ask, order, reasonOf } from "./api.js";
import { copyButton, make, put } from "./elements.js";
import { plural } from "./texts.js";

const TYPING_MS = 400;
const REPROCESS = {
  none: "Only days without a run",
  failed: "Days without a run, and days whose run failed",
  completed: "All days, including loaded ones",
};
const ALL_TASKS = "Airflow makes a run for each day, both ends included. All of the DAG's tasks run.";

// Two buttons: one loads the missing days, one asks for days. `allow` follows the newest data.
export function backfillButtons(currentData, { refresh }) {
  const missing = button(() => loadMissing(currentData(), refresh));
  const chosen = button(() => chooseDays(currentData(), refresh));
  const element = make("span", { class: "backfills" }, missing, chosen);
  function allowBoth(canEdit) {
    const count = daysOf(currentData().missing);
    missing.hidden = count === 0;
    allow(missing, canEdit, loadText(count) + "…");
    allow(chosen, canEdit, "Start a backfill…");
  }
  return { element, allow: allowBoth };
}

const daysOf = (ranges) => ranges.reduce((sum, range) => sum + range.days, 0);
const loadText = (count) => `Load the ${count === 1 ? "missing day" : plural(count, "missing day")}`;

function loadMissing({ stream, missing }, refresh) {
  const [from, to] = [missing[0].from, missing.at(-1).to];
  // Between several gaps lie done days, which are not repeated.
  const reprocess = missing.length === 1 ? "completed" : "failed";
  const ranges = missing.map((range) => (range.days === 1 ? range.from : `${range.from} to ${range.to}`));
  const rest = ranges.length > 3 ? ` and ${plural(ranges.length - 3, "later gap")}` : "";
  const text = `Missing: ${ranges.slice(0, 3).join(", ")}${rest}. ${ALL_TASKS}`;
  openDialog(`${loadText(daysOf(missing))}?`, { text, fields: [], does: "Load", days: () => ({ dag_id: stream.dag_id, from, to, reprocess }), refresh });
}

function chooseDays({ stream, missing }, refresh) {
  const first = make("input", { type: "date", name: "from", required: true, value: missing[0]?.from });
  const last = make("input", { type: "date", name: "to", required: true, value: missing[0]?.to });
  const which = make("select", { name: "reprocess" }, Object.entries(REPROCESS).map(([value, text]) => make("option", { value }, text)));
  const days = () => (first.value && last.value ? { dag_id: stream.dag_id, from: first.value, to: last.value, reprocess: which.value } : null);
  const fields = [label("From", first), label("To", last), label("Which days", which)];
  openDialog(`Start a backfill of DAG ${stream.dag_id}?`, { text: ALL_TASKS, fields, does: "Start it", days, refresh });
}

function openDialog(title, { text, fields, does, days, refresh }) {
  const cost = costOf(days, (isReady) => opened.confirm.toggleAttribute("disabled", !isReady));
  const act = () => order("actions/backfill", cost.order());
  const opened = dialog(title, { text, fields: [...fields, cost.element], does, act, failed: cost.showCommand, after: refresh });
  for (const field of fields) field.addEventListener("input", () => cost.update(TYPING_MS));
  cost.update(0);
}

// The cost of the chosen days. `setReady` learns if they may be started.
function costOf(days, setReady) {
  const figures = make("p", { role: "status" });
  const notes = make("ul", { class: "quiet" });
  const tick = make("input", { type: "checkbox", name: "before_start", onchange: () => setReady(isReady()) });
  const early = make("p");
  const earlyTick = make("label", { class: "tick" }, tick, "Run these as well");
  const command = commandOf();
  const element = make("div", { class: "cost" }, figures, notes, early, earlyTick, command.element);
  let turn = 0;
  let timer = 0;
  let preview = null;

  const isReady = () => preview !== null && !preview.problem && (!preview.before_start || tick.checked);

  function update(delay) {
    clearTimeout(timer);
    turn += 1;
    tick.checked = false;
    show(null, days() === null ? "Choose the first and the last day to see their cost." : "Asking Airflow for the cost…");
    if (days() !== null) timer = setTimeout(load, delay, turn);
  }

  async function load(mine) {
    try {
      const answer = await ask(`backfill?${new URLSearchParams(days())}`);
      if (mine === turn) show(answer, answer.text && `${answer.text}.`);
    } catch (error) {
      if (mine === turn) show(null, reasonOf(error), "problem");
    }
  }

  function show(answer, text, kind = "") {
    preview = answer;
    figures.className = answer?.problem ? "problem" : kind;
    figures.textContent = answer?.problem ? [text, `${answer.problem}.`].filter(Boolean).join(" ") : text;
    put(notes, (answer?.notes ?? []).map((note) => make("li", {}, `${note}.`)));
    early.textContent = answer?.before_start ? earlyText(answer) : "";
    early.hidden = earlyTick.hidden = !answer?.before_start;
    command.show(answer?.command, Boolean(answer?.problem));
    setReady(isReady());
  }

  const orderOf = () => ({ ...days(), ...(tick.checked ? { before_start: "run" } : {}) });
  return { element, update, order: orderOf, showCommand: command.open };
}

function earlyText({ before_start, runs, first_day }) {
  const verb = before_start === 1 ? "is" : "are";
  return `${before_start} of ${plural(runs, "run")} ${verb} before the DAG's start. Its first day is ${first_day}.`;
}

// The same backfill as a command, to copy.
function commandOf() {
  const code = make("code");
  const copy = copyButton(() => code.textContent, "Copy");
  const element = make("details", { hidden: true }, make("summary", {}, "As a command"), code, copy);
  function show(text, isOpen) {
    element.hidden = !text;
    code.textContent = text ?? "";
    if (isOpen) element.open = true;
  }
  return { element, show, open: () => (element.open = true) };
}
