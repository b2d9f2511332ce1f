// One pipeline over time: how even its loads were, what that cost, and every decision with its reason.

import { approval } from "./act.js";
import * as api from "./api.js";
import { timeCharts } from "./charts.js";
import { asTable, h, section, table } from "./dom.js";
import { DECISIONS, bytes, count, decided, giveOrTake, moment, percent, plural, ratio, seconds, span, time } from "./format.js";
import { health } from "./overview.js";
import { airflowLink, toDocs, toInterval } from "./places.js";

export const tile = (title, value, about) => h("div", { class: "tile" }, h("dt", {}, title), h("dd", {}, h("strong", {}, value), about ? h("span", { class: "quiet" }, about) : ""));

function tiles(card, limit) {
  return h("dl", { class: "tiles" },
    tile("Max/mean load", ratio(card.reached), `hash alone ${ratio(card.hash)}, planned ${ratio(card.predicted)}${giveOrTake(card.error)}, limit ${ratio(limit)}`),
    tile("Slowest channel", seconds(card.slowest), `mean ${seconds(card.mean)}`),
    tile("Saved", seconds(card.saved_seconds), "estimate: slowest channel by the hash alone"),
    tile("Whole batch", seconds(card.seconds), "process_batch"),
    tile("Moved", bytes(card.moved_bytes), plural(card.moved_keys, "key")),
    tile("Checks", card.failed_checks ? `${count(card.failed_checks)} failed` : "none failed", card.warned_checks ? `${count(card.warned_checks)} warned` : ""),
    tile("Late", plural(card.late, "event"), card.quarantined ? `${plural(card.quarantined, "row")} put aside` : ""));
}

const panels = (limit) => [
  {
    title: "Max/mean load", about: "the fullest channel over the mean; 1 is perfect", height: 210, format: ratio, axis: (v) => v.toFixed(2), floor: 1, band: [1, limit],
    series: [
      { name: "hash", label: "hash alone", colour: "hash" },
      { name: "reached", label: "reached", colour: "reached", width: 2 },
      { name: "planned", label: "planned", colour: "planned", points: true },
    ],
  },
  {
    title: "Task seconds", about: "of process_batch's channels", height: 130, format: seconds, axis: (v) => `${+v.toPrecision(3)} s`,
    series: [{ name: "slowest", label: "slowest channel", colour: "reached", width: 2 }, { name: "mean", label: "mean", colour: "hash" }],
  },
  { title: "State moved", whole: true, height: 100, format: bytes, axis: bytes, series: [{ name: "moved_bytes", label: "bytes moved", colour: "planned", bars: true }] },
  { title: "Routes", whole: true, about: "keys with an entry of their own", height: 100, format: count, axis: count, series: [{ name: "routes", label: "routes", colour: "reached", steps: true }] },
];

/** What is said of the interval under the pointer. */
function reading(all, i) {
  if (i === null) return h("p", { class: "quiet" }, "Point at an interval, or use the arrow keys; Enter or a click opens it. Drag to zoom, double click to see all again.");
  const did = all.skipped_from[i] ? `skipped from ${all.skipped_from[i]}` : all.applied[i] ? `moved ${plural(all.moved_keys[i], "key")}, ${bytes(all.moved_bytes[i])}` : "moved nothing";
  return h("div", {},
    h("p", {}, h("strong", {}, moment(all.start[i])), ` · ${plural(all.rows[i], "row")} · max/mean ${ratio(all.reached[i])}, hash alone ${ratio(all.hash[i])}`,
      all.planned[i] === null ? "" : `, planned ${ratio(all.planned[i])}${giveOrTake(all.error[i])}`, ` · slowest ${seconds(all.slowest[i])}, mean ${seconds(all.mean[i])} · ${did} · ${plural(all.routes[i], "route")}`),
    h("p", { class: "quiet" }, all.decision[i] ? decided(all.planner[i], all.decision[i], all.reason[i]) : "No plan was made for it."));
}

function everyInterval(dagId, all) {
  const rows = all.id.map((_, i) => all.id.length - 1 - i);
  return table("Every interval, newest first", [
    { head: "Interval", cell: (i) => h("a", { href: toInterval(dagId, all.id[i]) }, time(all.start[i])) },
    { head: "Rows", number: true, cell: (i) => count(all.rows[i]) },
    { head: "Hash alone", number: true, cell: (i) => ratio(all.hash[i]) },
    { head: "Planned", number: true, cell: (i) => ratio(all.planned[i]) + giveOrTake(all.error[i]) },
    { head: "Reached", number: true, cell: (i) => ratio(all.reached[i]) },
    { head: "Slowest", number: true, cell: (i) => seconds(all.slowest[i]) },
    { head: "Mean", number: true, cell: (i) => seconds(all.mean[i]) },
    { head: "Moved", number: true, cell: (i) => bytes(all.moved_bytes[i]) },
    { head: "Routes", number: true, cell: (i) => count(all.routes[i]) },
    { head: "Decision", cell: (i) => DECISIONS[all.decision[i]] ?? "–" },
    { head: "Why", cell: (i) => all.reason[i] ?? "–" },
  ], rows);
}

function head(card) {
  return [
    h("h1", {}, card.name, " ", health(card)),
    h("p", { class: "why" }, card.why),
    h("p", { class: "quiet" }, `${card.operator} on ${plural(card.channels, "channel")}, planner ${card.planner}, mode ${card.mode}, θ_max ${percent(card.theta_max)}. `,
      airflowLink("Runs", "dags", card.dag_id), card.interval && [" · ", h("a", { href: toDocs(card.dag_id) }, "Data Docs")]),
  ];
}

/** How many intervals there are, and which of them are in view. */
function inView({ id, start }, total, from = 0, to = id.length - 1) {
  if (to - from + 1 < id.length) {
    return [`${moment(start[from])} to ${moment(start[to])}: ${count(to - from + 1)} of ${plural(id.length, "interval")} are shown. `, "A double click shows everything again."];
  }
  return [id.length < total ? `The newest ${plural(id.length, "interval")} of ${count(total)}.` : total > 1 ? `All ${plural(total, "interval")}.` : "The only interval so far."];
}

export async function showPipeline(dagId, signal) {
  const { card, limit, total, intervals } = await api.pipeline(dagId, signal);
  if (!intervals.id.length) {
    return [head(card), card.pending && approval(card),
      h("p", {}, "In Airflow, unpause ", airflowLink(dagId, "dags", dagId), ": the scheduler runs every interval that is closed. What it did is shown here.")];
  }
  const told = h("div", { class: "reading", "aria-live": "polite" }, reading(intervals, null));
  const extent = h("p", { class: "quiet", "aria-live": "polite" }, inView(intervals, total));
  const charts = timeCharts(intervals, panels(limit), {
    open: (i) => { location.hash = toInterval(dagId, intervals.id[i]); },
    tell: (i) => told.replaceChildren(reading(intervals, i)),
    range: (from, to) => extent.replaceChildren(...inView(intervals, total, from, to)),
  });
  return [
    head(card),
    card.pending && approval(card),
    h("p", {}, "Newest interval: ", h("a", { href: toInterval(dagId, card.interval ?? intervals.id.at(-1)) }, card.start ? span(card.start, card.end) : time(intervals.start.at(-1)))),
    tiles(card, limit),
    section("Over time", extent, charts, told, asTable(() => everyInterval(dagId, intervals), "Every interval as a table")),
  ];
}
