// Shows and refreshes the view in the address: ?dag_id=…&task_id=…, else all streams.

import { ask, reasonOf, Refused } from "./api.js";
import { leave, make, put, retell, timeAgo } from "./elements.js";
import { listOf } from "./list.js";
import { streamView } from "./stream.js";
import { followTheme } from "./theme.js";

const REFRESH_SECONDS = 30;

const view = document.getElementById("view");
const said = document.getElementById("said");
const age = document.getElementById("age");
let shown = null; // the current view: { key, update(data), address() }
let last = ""; // its last content, so that nothing moves without a change
let asked = 0;

function wanted() {
  const query = new URLSearchParams(location.search);
  return Object.fromEntries(query);
}

function viewFor(query) {
  const key = [query.dag_id, query.task_id, query.map_index].join("\n");
  if (shown !== null && shown.key === key) return shown;
  const made = query.dag_id && query.task_id ? streamView(query, { go, refresh: load }) : listOf(query, { go });
  last = "";
  return { ...made, key };
}

// Go to another view, or to another part of this one, like a link.
export function go(query, { replace = false } = {}) {
  const address = `?${new URLSearchParams(query)}`;
  history[replace ? "replaceState" : "pushState"](null, "", Object.keys(query).length ? address : location.pathname);
  return load();
}

async function load() {
  const query = wanted();
  const next = viewFor(query);
  const turn = ++asked;
  if (next !== shown) say("Loading…");
  try {
    const answer = await ask(next.address(query));
    if (turn !== asked) return;
    const data = next.shownOf(answer, query);
    const { as_of, ...facts } = data;
    const text = JSON.stringify([query, facts]);
    if (next !== shown) {
      shown = next;
      put(view, next.element);
    }
    if (text !== last) next.update(data, query);
    last = text;
    say("");
    tellAge(data);
  } catch (error) {
    if (turn !== asked) return;
    tellProblem(error, next);
  }
}

function say(text) {
  said.textContent = text;
  said.hidden = text === "";
  said.className = "";
}

function tellProblem(error, next) {
  const status = error instanceof Refused ? error.status : null;
  // An unfinished view may be wrong, so it is removed.
  if (status === 401 || status === null || next !== shown) {
    shown = null;
    last = "";
    put(view);
    put(age);
  }
  say(problemText(status, reasonOf(error)));
  said.className = "problem";
  if (status === 401) said.append(" ", make("a", { href: signIn(), target: "_top", onclick: leave }, "Sign in"));
}

function problemText(status, message) {
  if (status === 401) return "You are not signed in to Airflow.";
  if (status === 403) return `You have no right to see this: ${message}`;
  if (status === 0) return `${message} The page retries by itself.`;
  return message;
}

// After the login Airflow returns to the current address, in or outside of its frame.
function signIn() {
  const top = window.top === window ? location.href : window.top.location.href;
  return `../api/v2/auth/login?next=${encodeURIComponent(top)}`;
}

function tellAge(data) {
  const newest = data.reported_at ?? data.stream?.reported_at ?? newestOf(data.streams ?? []);
  const report = newest ? ["The newest report of a task is from ", timeAgo(newest), ". "] : "No task has reported yet. ";
  put(age, "Read from Airflow ", timeAgo(data.as_of), ". ", report, "airflow connect ledger reads the sink itself.");
}

function newestOf(streams) {
  return streams.map((each) => each.reported_at).filter(Boolean).sort().at(-1) ?? null;
}

// Ages are updated even if Airflow does not answer.
function tick() {
  if (document.hidden) return;
  retell();
  if (!document.querySelector("dialog[open]")) load();
}

followTheme();
addEventListener("popstate", load);
addEventListener("visibilitychange", tick);
setInterval(tick, REFRESH_SECONDS * 1000);
load();
