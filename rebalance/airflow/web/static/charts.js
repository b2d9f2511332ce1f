// Panels of time series that share their time, their pointer and their zoom; drawn by uPlot.

import { h } from "./dom.js";
import { drawn, steppable } from "./drawn.js";
import { moment, zone } from "./format.js";
import { colour } from "./theme.js";

const { uPlot } = globalThis;
let drawings = 0;

function series({ label, colour: name, width = 1.25, points, bars, steps }) {
  const stroke = colour(name);
  // A line of few intervals has its points marked; of a single one there is no line.
  const shape = { points: { space: 60, size: 5, stroke, fill: stroke } };
  if (points) Object.assign(shape, { paths: () => null, points: { ...shape.points, show: true, space: 0 } });
  if (bars) Object.assign(shape, { paths: uPlot.paths.bars({ size: [0.7, 14], align: 0 }), fill: stroke, points: { show: false } });
  if (steps) shape.paths = uPlot.paths.stepped({ align: 1 });
  return { label, stroke, width, ...shape };
}

/** Seconds from mark to mark on the time axis: no finer than the intervals are. */
const STEPS = [60, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, ...[1, 2, 4, 7, 14, 30, 60, 90, 180, 365].map((days) => days * 86400)];

/** Of what is counted there is no half. */
const WHOLE = Array.from({ length: 15 }, (_, ten) => [1, 2, 5].map((times) => times * 10 ** ten)).flat();

const lengthOf = (start) => start.slice(1).reduce((least, at, i) => Math.min(least, at - start[i]), Infinity);

/** The marks of the time axis: hours, and the day where it is another one; days, and the year. */
function clock(_, splits, __, ___, step) {
  const [from, to] = step < 86400 ? [11, 0] : [5, 0];
  let before = "";
  return splits.map((at) => {
    const text = moment(at);
    const small = step < 86400 ? text.slice(from) : text.slice(from, 10);
    const large = step < 86400 ? text.slice(to, 10) : text.slice(to, 4);
    const marked = large === before ? small : `${small}\n${large}`;
    before = large;
    return marked;
  });
}

/** The part that is within θ_max, behind the lines. */
const band = ([from, to]) => (u) => {
  const [bottom, top] = [u.valToPos(from, "y", true), u.valToPos(to, "y", true)];
  u.ctx.save();
  u.ctx.fillStyle = colour("band");
  u.ctx.fillRect(u.bbox.left, Math.max(top, u.bbox.top), u.bbox.width, Math.min(bottom, u.bbox.top + u.bbox.height) - Math.max(top, u.bbox.top));
  u.ctx.restore();
};

function options(panel, { width, last, key, tell, length, range }) {
  const line = { stroke: colour("grid"), width: 1 };
  const axis = { stroke: colour("quiet"), grid: line, ticks: line, font: "11px system-ui, sans-serif" };
  const least = panel.band ? panel.band[1] : 0;
  return {
    width, height: panel.height + (last ? 28 : 0), legend: { show: false }, padding: [8, 20, last ? 0 : 4, 0],
    tzDate: (at) => uPlot.tzDate(new Date(at * 1000), zone()),
    cursor: { sync: { key }, drag: { x: true, y: false }, points: { size: 6 }, y: false },
    // Half an interval more at either end: a bar is as wide as any other.
    scales: { x: { time: true, range: (u, from, to) => [from - length / 2, (u.data[0].length > 1 ? to : from) + length / 2] }, y: { range: (_, low, high) => [panel.floor ?? 0, (Math.max(high ?? 0, least) || 1) * 1.04] } },
    axes: [
      { ...axis, show: last, size: 40, values: clock, incrs: STEPS.filter((step) => step >= Math.min(length, STEPS.at(-1))) },
      { ...axis, size: 68, values: (_, values) => values.map(panel.axis), ...(panel.whole ? { incrs: WHOLE } : {}) },
    ],
    series: [{}, ...panel.series.map(series)],
    hooks: { setCursor: [(u) => tell(u.cursor.idx ?? null)], draw: [(u) => range(...u.series[0].idxs)], ...(panel.band ? { drawClear: [band(panel.band)] } : {}) },
  };
}

function legend({ title, about, series: all, band: within }) {
  return h("figcaption", {}, h("strong", {}, title), about ? h("span", { class: "quiet" }, ` ${about}`) : "",
    h("span", { class: "keys" }, all.length > 1 || within ? all.map((one) => h("span", { class: `key ${one.points ? "dot" : "line"} ${one.colour}` }, one.label)) : "",
      within ? h("span", { class: "key area band" }, "within θ_max") : ""));
}

/** A click opens; the first click of a double click, and the end of a drag, do not. */
function clicks(u, open) {
  let [from, waiting] = [0, 0];
  u.over.addEventListener("mousedown", (event) => { from = event.clientX; });
  u.over.addEventListener("click", (event) => {
    clearTimeout(waiting);
    const i = u.cursor.idx;
    if (Math.abs(event.clientX - from) < 4 && event.detail === 1 && i !== null) waiting = setTimeout(open, 220, i);
  });
}

/** The panels under each other. `tell` gets the interval that is pointed at, or null; `open` the one that is chosen; `range` the first and the last that are shown. */
export function timeCharts(data, panels, { open, tell, range = () => {} }) {
  const key = `time-${(drawings += 1)}`;
  let plots = [];
  const length = data.start.length > 1 ? lengthOf(data.start) : 3600;
  const figures = panels.map((panel) => h("figure", {}, legend(panel), h("div", {})));
  const group = h("div", { class: "charts", role: "group", "aria-label": `${panels.map((p) => p.title).join(", ")} over time. Arrow keys go from interval to interval, Enter opens one; the table below has the same.` }, figures);
  const draw = (_, width) => {
    for (const plot of plots) plot.destroy();
    plots = panels.map((panel, n) => new uPlot(options(panel, { width, last: n === panels.length - 1, key, tell, length, range: n ? () => {} : range }),
      [data.start, ...panel.series.map(({ name }) => data[name])], figures[n].lastChild));
    for (const plot of plots) clicks(plot, open);
  };
  const visible = () => plots[0]?.series[0].idxs ?? [0, data.start.length - 1];
  steppable(group, () => visible()[1] - visible()[0] + 1, (at) => {
    const i = at === null ? null : at + visible()[0];
    for (const plot of plots) plot.setCursor(i === null ? { left: -10, top: -10 } : { left: plot.valToPos(data.start[i], "x"), top: 10 }, false);
    tell(i);
  }, (at) => open(at + visible()[0]));
  const holder = drawn(draw, { class: "picture" });
  holder.append(group);
  return holder;
}
