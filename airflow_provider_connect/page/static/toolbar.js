// Buttons for earlier and later days, and the span. Created once, so that the focus stays.

import { make } from "./elements.js";
import { earlier, later, readParams, SPANS, todayIn, windowOf } from "./window.js";

export function toolbar(move) {
  let steps = { earlier: null, later: null };
  const back = step("←", "Earlier days", () => steps.earlier);
  const forth = step("→", "Later days", () => steps.later);
  const period = make("span", { class: "window" });
  const options = Object.entries(SPANS).map(([key, [text]]) => make("option", { value: key }, text));
  const select = make("select", { "aria-label": "Number of days", onchange: () => move({ span: select.value === "year" ? null : select.value }) }, options);

  // A button without a target stays focusable.
  function step(text, label, day) {
    const onclick = () => day() !== null && move({ until: day() || null });
    return make("button", { type: "button", "aria-label": label, title: label, onclick }, text);
  }

  function show({ stream, from, to, first_day }, query) {
    const { length } = windowOf(query);
    steps = { earlier: earlier(to, length, first_day), later: later(to, length, todayIn(stream.timezone)) };
    back.ariaDisabled = String(steps.earlier === null);
    forth.ariaDisabled = String(steps.later === null);
    period.textContent = `${from} to ${to}`;
    select.value = readParams(query).span ?? "year";
  }

  return { elements: [back, period, forth, select], show };
}
