// Rows by day as a line over the band of expected rows.

import { draw, make, put } from "./elements.js";
import { brief, dateOf, number, plural } from "./texts.js";

const HEIGHT = 190;
const EDGE = { top: 12, right: 12, bottom: 24, left: 52 };
const LINES = 4;

export function chart(choose) {
  const picture = make("div", { class: "picture" });
  const summary = make("figcaption", { class: "quiet" });
  const element = make("figure", { class: "chart" }, make("h2", {}, "Rows by day"), picture, summary);
  let data = null;
  let width = 0;
  new ResizeObserver(() => picture.clientWidth !== width && paint()).observe(picture);

  function show(facts) {
    data = facts;
    paint();
  }

  function paint() {
    width = picture.clientWidth;
    const points = (data?.days ?? []).filter((each) => each.rows !== null);
    element.hidden = points.length === 0;
    if (element.hidden || width === 0) return;
    summary.textContent = summaryOf(points, data.band);
    put(picture, plot(data, points, width, choose));
  }

  return { element, show };
}

export function summaryOf(points, band) {
  const bands = new Map(band.map((each) => [each.day, each]));
  const outside = points.filter((each) => bands.has(each.day) && !within(each.rows, bands.get(each.day)));
  const rows = points.map((each) => each.rows);
  const parts = [`From ${number(Math.min(...rows))} to ${number(Math.max(...rows))} rows on ${number(points.length)} days.`];
  if (band.length) parts.push(`The band is expected from the same weekday of the weeks before. ${outside.length ? plural(outside.length, "day") : "No day"} ${outside.length > 1 ? "lie" : "lies"} outside.`);
  return parts.join(" ");
}

const within = (rows, each) => each.low <= rows && rows <= each.high;

function plot(data, points, width, choose) {
  const most = Math.max(1, ...points.map((each) => each.rows), ...data.band.map((each) => each.high));
  const top = rounded(most);
  const first = dateOf(data.from).getTime();
  const length = Math.max(dateOf(data.to).getTime() - first, 1);
  const x = (day) => EDGE.left + ((dateOf(day).getTime() - first) / length) * (width - EDGE.left - EDGE.right);
  const y = (rows) => HEIGHT - EDGE.bottom - (rows / top) * (HEIGHT - EDGE.top - EDGE.bottom);
  const svg = draw("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "img", "aria-label": "Rows by day" });
  for (let line = 0; line <= LINES; line++) {
    const rows = (top / LINES) * line;
    svg.append(draw("line", { class: "rule", x1: EDGE.left, x2: width - EDGE.right, y1: y(rows), y2: y(rows) }));
    svg.append(draw("text", { class: "axis", x: EDGE.left - 8, y: y(rows) + 4, "text-anchor": "end" }, brief(rows)));
  }
  for (const day of [data.from, data.to]) {
    svg.append(draw("text", { class: "axis", x: x(day), y: HEIGHT - 6, "text-anchor": day === data.to ? "end" : "start" }, day));
  }
  for (const run of runsOf(data.band)) svg.append(draw("path", { class: "band", d: area(run, x, y) }));
  for (const run of runsOf(points)) svg.append(draw("path", { class: "line", d: line(run, x, y) }));
  const bands = new Map(data.band.map((each) => [each.day, each]));
  for (const each of points) {
    const isOut = bands.has(each.day) && !within(each.rows, bands.get(each.day));
    if (isOut || points.length < 40) svg.append(draw("circle", { class: isOut ? "outside" : "point", cx: x(each.day), cy: y(each.rows), r: isOut ? 3.5 : 2.5 }));
  }
  svg.addEventListener("click", (event) => choose(nearest(points, x, event.offsetX).day));
  svg.append(hover(points, x, y));
  return svg;
}

// The day under the pointer, with its rows.
function hover(points, x, y) {
  const dot = draw("circle", { class: "point", r: 3.5 });
  const text = draw("text", { class: "axis", y: EDGE.top });
  const node = draw("g", { visibility: "hidden" }, dot, text);
  queueMicrotask(() => {
    const svg = node.ownerSVGElement;
    svg.addEventListener("pointerleave", () => node.setAttribute("visibility", "hidden"));
    svg.addEventListener("pointermove", (event) => {
      const each = nearest(points, x, event.offsetX);
      const isRight = x(each.day) > svg.viewBox.baseVal.width / 2;
      dot.setAttribute("cx", x(each.day));
      dot.setAttribute("cy", y(each.rows));
      text.setAttribute("x", x(each.day) + (isRight ? -8 : 8));
      text.setAttribute("text-anchor", isRight ? "end" : "start");
      text.textContent = `${each.day}: ${number(each.rows)} rows`;
      node.setAttribute("visibility", "visible");
    });
  });
  return node;
}

function nearest(points, x, at) {
  return points.reduce((best, each) => (Math.abs(x(each.day) - at) < Math.abs(x(best.day) - at) ? each : best));
}

// Consecutive days. A missing day breaks the line.
function runsOf(entries) {
  const runs = [];
  let before = null;
  for (const each of entries) {
    const at = dateOf(each.day).getTime();
    if (before === null || at - before > 86_400_000) runs.push([]);
    runs.at(-1).push(each);
    before = at;
  }
  return runs;
}

function line(run, x, y) {
  const at = run.map((each) => `${x(each.day).toFixed(1)} ${y(each.rows).toFixed(1)}`);
  return `M${at.join("L")}${run.length === 1 ? "h0.01" : ""}`;
}

function area(run, x, y) {
  const high = run.map((each) => `${x(each.day).toFixed(1)} ${y(each.high).toFixed(1)}`);
  const low = run.map((each) => `${x(each.day).toFixed(1)} ${y(each.low).toFixed(1)}`).reverse();
  return `M${[...high, ...low].join("L")}Z`;
}

// The end of the scale: the next of 1, 2, 4, 5 and 10 times a power of ten.
export function rounded(most) {
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 4, 5, 10].find((step) => step * power >= most) * power;
}
