// What the page asks its server. Whoever asks is known by the browser's cookie, and by nothing else.

const DEADLINE_SECONDS = 60;

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
  const answer = await fetch(`api/${address}`, { credentials: "same-origin", signal, ...options });
  const told = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refused(answer.status, told.error ?? `Airflow answered with status ${answer.status}.`);
  return told;
}
