// Shows and refreshes the view in the address: ?dag_id=…&task_id=…, else all streams.

import { ask, reasonOf, Refused } from "./api.js";
import { isFramed, leave, make, put, updateAges, timeAgo } from "./elements.js";
import { listOf } from "./list.js";
import { streamView } from "./stream.js";
import { followTheme } from "./theme.js";

const REFRESH_SECONDS = 30;
const SCROLL_KEY = "connect.scroll"; // the position from which a load in Airflow's frame began

const view = document.getElementById("view");
const notice = document.getElementById("said");
const age = document.getElementById("age");
let currentView = null; // the current view: { key, update(data), address() }
let last = ""; // its last content, so that nothing moves without a change
let requestNumber = 0;

function readQuery() {
  const query = new URLSearchParams(location.search);
  return Object.fromEntries(query);
}

function viewFor(query) {
  const key = [query.dag_id, query.task_id, query.map_index, query.stream].join("\n");
  if (currentView !== null && currentView.key === key) return currentView;
  const newView = query.dag_id && query.task_id ? streamView(query, { go, refresh: load }) : listOf(query, { go });
  last = "";
  return { ...newView, key };
}

// Go to another view, or to another part of this one, like a link. In Airflow's frame it is a load.
export function go(query, { replace = false } = {}) {
  const address = `?${new URLSearchParams(query)}`;
  if (isFramed()) {
    sessionStorage.setItem(SCROLL_KEY, String(scrollY));
    location[replace ? "replace" : "assign"](address);
    return null;
  }
  history[replace ? "replaceState" : "pushState"](null, "", Object.keys(query).length ? address : location.pathname);
  return load();
}

async function load() {
  const query = readQuery();
  const next = viewFor(query);
  const turn = ++requestNumber;
  if (next !== currentView) showNotice("Loading…");
  try {
    const answer = await ask(next.address(query));
    if (turn !== requestNumber) return;
    const data = next.shownOf(answer, query);
    const { as_of, ...facts } = data;
    const text = JSON.stringify([query, facts]);
    if (next !== currentView) {
      currentView = next;
      put(view, next.element);
    }
    if (text !== last) next.update(data, query);
    restorePosition(query);
    last = text;
    showNotice("");
    showAge(data);
  } catch (error) {
    if (turn !== requestNumber) return;
    showProblem(error, next);
  }
}

// After a load that a chosen day caused, the view is where it was, with the focus on the day.
function restorePosition(query) {
  const position = isFramed() ? sessionStorage.getItem(SCROLL_KEY) : null;
  if (position === null) return;
  sessionStorage.removeItem(SCROLL_KEY);
  if (!query.day) return;
  view.querySelector('[aria-selected="true"]')?.focus({ preventScroll: true });
  scrollTo(0, Number(position));
}

function showNotice(text) {
  notice.textContent = text;
  notice.hidden = text === "";
  notice.className = "";
}

function showProblem(error, next) {
  const status = error instanceof Refused ? error.status : null;
  // An unfinished view may be wrong, so it is removed.
  if (status === 401 || status === null || next !== currentView) {
    currentView = null;
    last = "";
    put(view);
    put(age);
  }
  showNotice(problemText(status, reasonOf(error)));
  notice.className = "problem";
  if (status === 401) notice.append(" ", make("a", { href: signIn(), target: "_top", onclick: leave }, "Sign in"));
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

function showAge(data) {
  const newest = data.reported_at ?? data.stream?.reported_at ?? newestOf(data.streams ?? []);
  const report = newest ? ["The newest report of a task is from ", timeAgo(newest), ". "] : "No task has reported yet. ";
  put(age, "Read from Airflow ", timeAgo(data.as_of), ". ", report, "The command ", make("code", {}, "airflow connect ledger"), " shows the days in the sink itself.");
}

function newestOf(streams) {
  return streams.map((each) => each.reported_at).filter(Boolean).sort().at(-1) ?? null;
}

// Ages are updated even if Airflow does not answer.
function tick() {
  if (document.hidden) return;
  updateAges();
  if (!document.querySelector("dialog[open]")) load();
}

followTheme();
addEventListener("popstate", load);
addEventListener("visibilitychange", tick);
setInterval(tick, REFRESH_SECONDS * 1000);
load();
