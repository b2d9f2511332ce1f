// Moved keys as flows between channels: where from on the left, where to on the right, as thick as what flows.

import { asTable, h, s, table } from "./dom.js";
import { drawn, steppable } from "./drawn.js";
import { bytes, count, load, plural } from "./format.js";

/** More channels than this a side cannot be told apart; the smallest are drawn as one. */
const MOST = 32;
const OTHERS = "others";
const MEASURES = { cost: ["load", load], bytes: ["state", bytes], keys: ["keys", count] };
const [GAP, SIDE, NODE, TOP] = [4, 150, 10, 20];
/** Every node is at least as high as its name. */
const LEAST = 9;

const sum = (values) => values.reduce((total, value) => total + value, 0);

/** The channels of one side, in their order, each with what flows; the smallest as one. */
function nodesOf(flows, side, measure) {
  const totals = new Map();
  for (const flow of flows) totals.set(flow[side], (totals.get(flow[side]) ?? 0) + flow[measure]);
  const ranked = [...totals].toSorted((a, b) => b[1] - a[1] || a[0] - b[0]);
  const kept = ranked.length > MOST ? ranked.slice(0, MOST - 1) : ranked;
  const rest = ranked.slice(kept.length);
  const nodes = kept.toSorted((a, b) => a[0] - b[0]).map(([name, value]) => ({ side, name, members: new Set([name]), value }));
  if (rest.length) nodes.push({ side, name: OTHERS, members: new Set(rest.map(([name]) => name)), value: sum(rest.map(([, value]) => value)) });
  return nodes;
}

/** Flows between the nodes of both sides. */
function ribbonsOf(flows, left, right, measure) {
  const find = (nodes) => new Map(nodes.flatMap((node) => [...node.members].map((name) => [name, node])));
  const [from, to] = [find(left), find(right)];
  const ribbons = new Map();
  for (const flow of flows) {
    const [a, b] = [from.get(flow.from), to.get(flow.to)];
    const id = `${left.indexOf(a)} ${right.indexOf(b)}`;
    const ribbon = ribbons.get(id) ?? { a, b, value: 0 };
    ribbon.value += flow[measure];
    ribbons.set(id, ribbon);
  }
  return [...ribbons.values()].toSorted((x, y) => left.indexOf(x.a) - left.indexOf(y.a) || right.indexOf(x.b) - right.indexOf(y.b));
}

/** Give every node its place, and every ribbon its ends. */
function placed(left, right, ribbons, height) {
  const scale = (height - (LEAST + GAP) * Math.max(left.length, right.length)) / sum(left.map((node) => node.value));
  for (const nodes of [left, right]) {
    let y = (height - sum(nodes.map((node) => node.value)) * scale - (LEAST + GAP) * nodes.length) / 2;
    for (const node of nodes) {
      Object.assign(node, { y, height: LEAST + node.value * scale, used: LEAST / 2 });
      y += node.height + GAP;
    }
  }
  for (const ribbon of ribbons) {
    ribbon.thick = ribbon.value * scale;
    ribbon.from = ribbon.a.y + ribbon.a.used;
    ribbon.a.used += ribbon.thick;
  }
  for (const ribbon of ribbons.toSorted((x, y) => right.indexOf(x.b) - right.indexOf(y.b) || left.indexOf(x.a) - left.indexOf(y.a))) {
    ribbon.to = ribbon.b.y + ribbon.b.used;
    ribbon.b.used += ribbon.thick;
  }
}

const name = (node) => (node.name === OTHERS ? `${node.members.size} others` : `channel ${node.name}`);

function ribbonShape({ from, to, thick }, x0, x1) {
  const half = (x0 + x1) / 2;
  return s("path", { class: "ribbon", d: `M${x0} ${from}C${half} ${from} ${half} ${to} ${x1} ${to}V${to + thick}C${half} ${to + thick} ${half} ${from + thick} ${x0} ${from + thick}Z` });
}

function nodeShape(node, x, format, pick) {
  const left = node.side === "from";
  const label = s("text", { class: "tick", x: left ? x - 6 : x + NODE + 6, y: node.y + node.height / 2 + 4, "text-anchor": left ? "end" : "start" }, `${name(node)} · ${format(node.value)}`);
  return s("g", { class: "node", onmouseenter: pick, onmouseleave: () => pick(null) }, s("rect", { class: "end", x, y: node.y, width: NODE, height: node.height }), label);
}

function reading(node, ribbons, [, format]) {
  if (!node) return h("p", { class: "quiet" }, "Point at a channel, or use the arrow keys, to see its flows alone.");
  const sends = node.side === "from";
  const own = ribbons.filter((ribbon) => ribbon[sends ? "a" : "b"] === node).toSorted((a, b) => b.value - a.value);
  const ends = own.slice(0, 8).map((ribbon) => `${name(ribbon[sends ? "b" : "a"])} ${format(ribbon.value)}`).join(", ");
  return h("p", {}, h("strong", {}, name(node)), ` ${sends ? "gives away" : "gets"} ${format(node.value)}: ${sends ? "to" : "from"} ${ends}${own.length > 8 ? `, and ${own.length - 8} more` : ""}.`);
}

function draw(holder, width, flows, measure, tell) {
  const [left, right] = [nodesOf(flows, "from", measure), nodesOf(flows, "to", measure)];
  const ribbons = ribbonsOf(flows, left, right, measure);
  const most = Math.max(left.length, right.length);
  const height = (LEAST + GAP) * most + Math.max(60, Math.min(280, 26 * most));
  placed(left, right, ribbons, height);
  const [x0, x1] = [SIDE, Math.max(SIDE + 120, Math.min(width, 1100) - SIDE)];
  const [nodes, format] = [[...left, ...right], MEASURES[measure][1]];
  const shapes = ribbons.map((ribbon) => ribbonShape(ribbon, x0 + NODE, x1 - NODE));
  const pick = (i) => {
    const node = i === null ? null : nodes[i];
    shapes.forEach((shape, n) => {
      const mine = node && (ribbons[n].a === node || ribbons[n].b === node);
      shape.classList.toggle("picked", Boolean(mine));
      shape.classList.toggle("dim", Boolean(node) && !mine);
    });
    ends.forEach((end, n) => end.classList.toggle("picked", n === i));
    tell(reading(node, ribbons, MEASURES[measure]));
  };
  const ends = nodes.map((node, i) => nodeShape(node, node.side === "from" ? x0 : x1 - NODE, format, (event) => pick(event ? i : null)));
  const titles = [[x0 - 6, "end", "from"], [x1 + 6, "start", "to"]].map(([x, anchor, text]) => s("text", { class: "tick", x, y: 12, "text-anchor": anchor }, `${text} · ${MEASURES[measure][0]}`));
  holder.replaceChildren(s("svg", { width: x1 + SIDE, height: TOP + height + 4, "aria-hidden": true }, titles, s("g", { transform: `translate(0 ${TOP})` }, shapes, ends)));
  return { nodes, pick };
}

const flowsTable = (flows) => table("What moved from channel to channel", [
  { head: "From", number: true, cell: (flow) => String(flow.from) },
  { head: "To", number: true, cell: (flow) => String(flow.to) },
  { head: "Keys", number: true, cell: (flow) => count(flow.keys) },
  { head: "State", number: true, cell: (flow) => bytes(flow.bytes) },
  { head: "Load", number: true, cell: (flow) => load(flow.cost) },
], flows, { class: "flows" });

/** Flows from channel to channel: choice of the measure, picture, words about one channel, table. */
export function flowsPicture(flows) {
  if (!flows.length) return [h("p", { class: "quiet" }, "No key changes its channel.")];
  const measures = Object.keys(MEASURES).filter((measure) => flows.some((flow) => flow[measure] > 0));
  let measure = measures[0] ?? "keys";
  const told = h("div", { class: "reading", "aria-live": "polite" }, reading(null, [], MEASURES[measure]));
  let [drawing, at] = [{ nodes: [], pick() {} }, null];
  const redraw = (holder, width) => {
    at = [holder, width];
    // A flow of nothing has no thickness, but it is in the table.
    drawing = draw(holder, width, flows.filter((flow) => flow[measure] > 0), measure, (words) => told.replaceChildren(words));
  };
  const holder = drawn(redraw, { class: "picture wide", role: "group", "aria-label": `${plural(sum(flows.map((f) => f.keys)), "key")} between channels. Arrow keys go from channel to channel; the table below has the same.` });
  steppable(holder, () => drawing.nodes.length, (i) => drawing.pick(i));
  const choose = h("select", { "aria-label": "What the flows measure", onchange: (event) => { measure = event.target.value; if (at) redraw(...at); } },
    measures.map((one) => h("option", { value: one }, MEASURES[one][0])));
  return [h("div", { class: "keys" }, h("label", {}, "Thickness: ", choose)), holder, told, asTable(() => flowsTable(flows))];
}
