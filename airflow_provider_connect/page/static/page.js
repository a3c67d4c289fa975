// The list of streams. Texts come from others and are set as text, never as markup.

const said = document.getElementById("said");
const table = document.querySelector("table");

function cell(text, small) {
  const made = document.createElement("td");
  made.textContent = text ?? "";
  if (small) {
    const more = document.createElement("small");
    more.textContent = small;
    made.append(more);
  }
  return made;
}

function number(value) {
  const made = cell(value === null ? "" : value.toLocaleString());
  made.className = "number";
  return made;
}

function row(stream) {
  const made = document.createElement("tr");
  const state = cell(stream.state, stream.state_text);
  state.dataset.state = stream.state;
  made.append(
    cell(stream.id),
    cell(stream.source, stream.stream),
    cell(stream.sink, stream.target),
    cell(stream.last_day, stream.timezone),
    number(stream.lag_days),
    number(stream.rows_last_day),
    state,
  );
  return made;
}

async function show() {
  const answer = await fetch("api/streams", { credentials: "same-origin" });
  const told = await answer.json();
  if (answer.status === 401) {
    said.textContent = "Sign in to Airflow, then load this page again.";
    return;
  }
  if (!answer.ok) {
    said.textContent = told.error;
    return;
  }
  const asked = new URLSearchParams(location.search);
  const streams = told.streams.filter(
    (each) => ["dag_id", "task_id"].every((name) => [null, each[name]].includes(asked.get(name))),
  );
  table.querySelector("tbody").replaceChildren(...streams.map(row));
  table.hidden = streams.length === 0;
  const asOf = new Date(told.as_of).toLocaleString();
  said.textContent = streams.length ? `As tasks have told Airflow, ${asOf}` : `No stream, ${asOf}`;
}

show().catch(() => {
  said.textContent = "Airflow did not answer. Load this page again.";
});
