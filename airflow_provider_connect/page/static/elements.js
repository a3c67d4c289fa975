// Elements of the page. Texts are foreign, so they are set as text, never as markup.

import { ago, until } from "./texts.js";

const SVG = "http://www.w3.org/2000/svg";

export function make(name, attributes = {}, ...inner) {
  return filled(document.createElement(name), attributes, inner);
}

export function draw(name, attributes = {}, ...inner) {
  return filled(document.createElementNS(SVG, name), attributes, inner);
}

// True within Airflow's frame. Airflow writes the addresses of loads in it into the browser's address bar.
export const isFramed = () => window.parent !== window;

export function put(element, ...inner) {
  element.replaceChildren(...inner.flat().filter((each) => each !== null && each !== undefined));
}

// Replace the content and keep the focus, for example on the third link.
export function renew(element, ...inner) {
  const stops = () => [...element.querySelectorAll("a, button, [tabindex]")];
  const at = stops().indexOf(document.activeElement);
  put(element, ...inner);
  if (at >= 0) stops()[at]?.focus({ preventScroll: true });
}

// Time ago or ahead, updated by each call of `updateAges`.
const TELLS = { ago, until };
export const timeAgo = (instant) => make("time", { datetime: instant, "data-tells": "ago" }, ago(instant));
export const timeUntil = (instant) => make("time", { datetime: instant, "data-tells": "until" }, until(instant));

export function updateAges() {
  for (const each of document.querySelectorAll("time[data-tells]")) {
    const text = TELLS[each.dataset.tells](each.dateTime);
    if (each.textContent !== text) each.textContent = text;
  }
}

function filled(element, attributes, inner) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...inner.flat().filter((each) => each !== null && each !== undefined));
  return element;
}

// A link out of the page, to the web or Airflow only: addresses of sinks are not trusted.
export function linkTo(address, text) {
  if (!/^(https?:\/\/|\/(?!\/))/.test(address ?? "")) return make("span", {}, text);
  const target = /^https?:/.test(address) ? "_blank" : "_top";
  return make("a", { href: address, target, rel: "noreferrer noopener", onclick: leave }, text);
}

// Airflow's frame around this page forbids new windows and navigation, so the outer document navigates.
export function leave(event) {
  if (!isFramed()) return;
  const { href, target, rel } = event.currentTarget;
  const link = Object.assign(window.parent.document.createElement("a"), { href, target, rel });
  event.preventDefault();
  link.click();
}

export function badge(state) {
  return make("span", { class: "badge", "data-state": state }, state.replaceAll("_", " "));
}

export function copyButton(text, label = "Copy error") {
  const button = make("button", { type: "button", class: "copy", onclick: copy }, label);

  async function copy() {
    const isCopied = await copied(typeof text === "function" ? text() : text);
    button.textContent = isCopied ? "Copied" : "Not copied";
    setTimeout(() => (button.textContent = label), 2000);
  }
  return button;
}

// Browsers offer `navigator.clipboard` only with TLS or on localhost.
async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = make("textarea", { "aria-label": "Text to copy" });
    field.value = text;
    const focused = document.activeElement;
    (document.querySelector("dialog[open]") ?? document.body).append(field); // an open dialog keeps the focus inside
    field.select();
    const isCopied = document.execCommand("copy");
    field.remove();
    focused?.focus();
    return isCopied;
  }
}
