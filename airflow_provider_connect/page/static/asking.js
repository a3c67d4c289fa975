// What the page asks its server. Whoever asks is known by the browser's cookie, and by nothing else.

const DEADLINE_SECONDS = 60;

// An order or a question that was not done. Status 0: there was no answer.
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export function ask(address) {
  return answerTo(address, {});
}

// Do something. The header tells our own page from one of another site, which cannot send it.
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
  const told = parsed(text);
  if (!answer.ok) throw new Refused(answer.status, told?.error ?? `Airflow answered with status ${answer.status}.`);
  if (told === null) throw new Refused(answer.status, "What answered is not Airflow: a proxy before it may want you to sign in.");
  return told;
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

// Why something came to nothing: as it was told, or as a fault of this page's own, which nobody else is to answer for.
export function reasonOf(error) {
  if (error instanceof Refused) return error.message;
  console.error(error);
  return `This page has a fault of its own, and Airflow none: ${error.message}`;
}
