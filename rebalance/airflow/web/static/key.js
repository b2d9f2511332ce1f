// One key: where it goes and why, what it weighed, when it moved.

import * as api from "./api.js";
import { timeCharts } from "./charts.js";
import { asTable, h, section, table } from "./dom.js";
import { bytes, count, load, moment, percent, share, time } from "./format.js";
import { tile } from "./pipeline.js";
import { toInterval } from "./places.js";

const panels = ({ channel }) => [
  { title: "Share of all load", height: 130, format: share, axis: (v) => `${+(100 * v).toPrecision(3)} %`, series: [{ name: "share", label: "share", colour: "reached", width: 2 }] },
  { title: "Channel", whole: true, about: "where it was processed", height: 110, format: count, axis: count, floor: Math.max(0, (channel.filter(Number.isInteger).toSorted((a, b) => a - b)[0] ?? 0) - 1), series: [{ name: "channel", label: "channel", colour: "planned", width: 2, steps: true }] },
  { title: "State held", whole: true, height: 100, format: bytes, axis: bytes, series: [{ name: "held_bytes", label: "bytes", colour: "hash", bars: true }] },
];

function overTime(dagId, history) {
  if (![...history.tuples, ...history.held_bytes].some((one) => one > 0)) return h("p", { class: "quiet" }, "It had no tuple and no state in the newest intervals.");
  const data = { ...history, start: history.start.map((at) => (typeof at === "number" ? at : Date.parse(at) / 1000)) };
  const told = h("div", { class: "reading", "aria-live": "polite" });
  const tell = (i) => told.replaceChildren(i === null ? h("p", { class: "quiet" }, "Point at an interval, or use the arrow keys; Enter or a click opens it.")
    : h("p", {}, h("strong", {}, moment(data.start[i])), ` · ${count(data.tuples[i])} tuples, load ${load(data.cost[i])}, ${share(data.share[i])} of all, on channel ${data.channel[i] ?? "–"}, ${bytes(data.held_bytes[i])} of state`));
  tell(null);
  const charts = timeCharts(data, panels(data), { tell, open: (i) => { location.hash = toInterval(dagId, data.id[i]); } });
  const rows = data.id.map((_, i) => data.id.length - 1 - i);
  return [charts, told, asTable(() => table("The key in each interval, newest first", [
    { head: "Interval", cell: (i) => h("a", { href: toInterval(dagId, data.id[i]) }, time(data.start[i])) },
    { head: "Tuples", number: true, cell: (i) => count(data.tuples[i]) },
    { head: "Load", number: true, cell: (i) => load(data.cost[i]) },
    { head: "Share of load", number: true, cell: (i) => share(data.share[i]) },
    { head: "Channel", number: true, cell: (i) => data.channel[i] ?? "–" },
    { head: "State", number: true, cell: (i) => bytes(data.held_bytes[i]) },
  ], rows))];
}

export async function showKey(dagId, text, signal) {
  const doc = await api.key(dagId, text, signal);
  const place = doc.shares.length ? doc.shares.map((part) => `${part.channel} (${percent(part.share)})`).join(", ") : String(doc.channel);
  return [
    h("h1", {}, "Key ", h("code", {}, doc.key)),
    h("p", { class: "why" }, [doc.why].flat().join(" ")),
    h("dl", { class: "tiles" },
      tile(doc.shares.length ? "Channels" : "Channel", place, doc.has_route ? "by a route of its own" : "by the ring"),
      tile("By the ring alone", String(doc.ring_channel), `slot ${count(doc.slot)}`),
      tile("Share of all load", share(doc.history.share.at(-1)), doc.history.id.length ? "in its newest interval" : "")),
    section("Over time", overTime(dagId, doc.history)),
    section("Moves", doc.moves.length ? table("When it changed its channel, and why", [
      { head: "Interval", cell: (move) => h("a", { href: toInterval(dagId, move.interval) }, move.interval) },
      { head: "From", number: true, cell: (move) => String(move.from) },
      { head: "To", number: true, cell: (move) => String(move.to) },
      { head: "Load", number: true, cell: (move) => load(move.cost) },
      { head: "State", number: true, cell: (move) => bytes(move.state_bytes) },
      { head: "Planner", cell: (move) => move.planner },
      { head: "Why", cell: (move) => move.reason },
    ], doc.moves) : h("p", { class: "quiet" }, "No plan that is stored has moved it.")),
  ];
}
