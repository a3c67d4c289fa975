// Requests to the page's server. The browser's cookie identifies the viewer.

const DEADLINE_SECONDS = 60;

// A refused request. Status 0: no answer.
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export function ask(address) {
  return answerTo(address, {});
}

// Send an action. Pages of other sites cannot send this header.
export function order(address, what) {
  const headers = { "Content-Type": "application/json", "X-Connect": "1" };
  return answerTo(address, { method: "POST", headers, body: JSON.stringify(what) });
}

async function answerTo(address, options) {
  const signal = AbortSignal.timeout(DEADLINE_SECONDS * 1000);
  let answer, text;
  try {
    answer = await fetch(`api/${address}`, { credentials: "same-origin", signal, ...options });
    text = await answer.text();
  } catch {
    throw new Refused(0, "Airflow did not answer.");
  }
  const data = parsed(text);
  if (!answer.ok) throw new Refused(answer.status, data?.error ?? `Airflow answered with status ${answer.status}.`);
  if (data === null) throw new Refused(answer.status, "The answer is not from Airflow. A proxy may require you to sign in.");
  return data;
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

// The reason of a failure: the server's message, or an error of this page itself.
export function reasonOf(error) {
  if (error instanceof Refused) return error.message;
  console.error(error);
  return `This page has an error, not Airflow: ${error.message}`;
}
