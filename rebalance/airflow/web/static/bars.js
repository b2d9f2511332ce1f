// Loads per channel: a bar each for before, planned and reached, the heaviest keys as parts of it, the fair load and θ_max as lines.

import { asTable, h, s, table } from "./dom.js";
import { drawn, steppable, ticks } from "./drawn.js";
import { bytes, count, load, missing, percent, plural, seconds } from "./format.js";

const KINDS = { hash: "hash alone", before: "before", planned: "planned", reached: "reached", tried: "tried" };
const HEIGHT = 260;
const [LEFT, RIGHT, TOP, BOTTOM] = [64, 84, 18, 34];

const ceiling = (channel, theta) => channel.fair * (1 + theta);

function axis(y, most, right) {
  return ticks(most).filter((at) => at <= most).map((at) => [
    s("line", { class: "grid", x1: LEFT, x2: right, y1: y(at), y2: y(at) }),
    s("text", { class: "tick", x: LEFT - 8, y: y(at) + 4, "text-anchor": "end" }, load(at)),
  ]);
}

/** A bar; the heavy keys lie at its foot, the heaviest first. */
function bar(kind, x, width, value, y, heavy) {
  let under = 0;
  const parts = heavy.map(({ cost }) => {
    const [from, to] = [under, Math.min(value, under + cost)];
    under = to;
    return s("rect", { class: width < 8 ? "heavy" : "heavy wide", x, width, y: y(to), height: Math.max(0, y(from) - y(to)) });
  });
  return [s("rect", { class: `bar ${kind}`, x, width, y: y(value), height: y(0) - y(value) }), parts];
}

function lines(channels, theta, step, y) {
  const across = (value, name) => s("path", { class: name, d: channels.map((c, i) => `M${LEFT + i * step} ${y(value(c))}h${step}`).join("") });
  const end = LEFT + channels.length * step + 6;
  const last = channels.at(-1);
  // Where both lines lie close, their names must not.
  const [fair, top] = [y(last.fair), Math.min(y(ceiling(last, theta)), y(last.fair) - 14)];
  return [across((c) => c.fair, "fair"), across((c) => ceiling(c, theta), "theta"),
    s("text", { class: "tick", x: end, y: fair + 4 }, "fair load"), s("text", { class: "tick theta-name", x: end, y: top + 4 }, `θ_max ${percent(theta, 0)}`)];
}

/** The picture for one choice of kinds; `pick` is told of the channel that is pointed at. */
function draw(holder, width, { channels, kinds, theta, heavyOn, pick }) {
  const most = 1.05 * Math.max(1e-9, ...channels.flatMap((c) => [ceiling(c, theta), ...kinds.map((kind) => c[kind] ?? 0)]));
  const step = Math.max(8, (width - LEFT - RIGHT) / channels.length);
  const right = LEFT + step * channels.length;
  const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / most);
  const thick = Math.min(40, Math.max(1, (step * 0.82) / kinds.length));
  const every = Math.ceil(22 / step);
  const groups = channels.map((c, i) => {
    const x0 = LEFT + i * step + (step - thick * kinds.length) / 2;
    return s("g", { class: "channel", onmouseenter: () => pick(i), onmouseleave: () => pick(null) },
      s("rect", { class: "under", x: LEFT + i * step, width: step, y: TOP, height: HEIGHT - TOP }),
      kinds.map((kind, k) => missing(c[kind]) ? "" : bar(kind, x0 + k * thick, Math.max(1, thick - 1), c[kind], y, kind === heavyOn ? c.heavy ?? [] : [])),
      i % every ? "" : s("text", { class: "tick", x: LEFT + (i + 0.5) * step, y: HEIGHT - BOTTOM + 16, "text-anchor": "middle" }, c.channel));
  });
  holder.replaceChildren(s("svg", { width: right + RIGHT, height: HEIGHT, "aria-hidden": true },
    axis(y, most, right), groups, lines(channels, theta, step, y),
    s("text", { class: "tick", x: (LEFT + right) / 2, y: HEIGHT - 3, "text-anchor": "middle" }, "channel"),
    s("text", { class: "tick", x: LEFT - 8, y: 10, "text-anchor": "end" }, "load")));
  return groups;
}

/** What is said of the channel that is pointed at. */
function reading(c, kinds, theta, keyLink, heavy = false) {
  if (!c) return h("p", { class: "quiet" }, "Point at a channel, or use the arrow keys.", heavy ? " At the foot of a bar are its heaviest keys." : "");
  const off = (value) => (c.fair ? ` (${value >= c.fair ? "+" : "−"}${percent(Math.abs(value - c.fair) / c.fair)})` : "");
  const more = [
    !missing(c.tuples) && plural(c.tuples, "tuple"), !missing(c.keys) && plural(c.keys, "key"),
    !missing(c.task_seconds) && `${seconds(c.task_seconds)} of work`, !missing(c.held_bytes) && `${bytes(c.held_bytes)} of state`,
  ].filter(Boolean);
  return h("div", {},
    h("p", {}, h("strong", {}, `Channel ${c.channel}`), ` · fair load ${load(c.fair)}, limit ${load(ceiling(c, theta))}`,
      kinds.filter((kind) => !missing(c[kind])).map((kind) => ` · ${KINDS[kind]} ${load(c[kind])}${off(c[kind])}`)),
    h("p", { class: "quiet" }, more.join(" · "), c.heavy?.length ? [more.length ? " · " : "", "heaviest: ", c.heavy.map(({ key, cost }, i) => [i ? ", " : "", keyLink(key), ` ${load(cost)}`])] : ""));
}

export function channelsTable(channels, kinds, keyLink) {
  const known = (name) => channels.some((c) => !missing(c[name]));
  return table("Loads per channel, in units of the operator's cost", [
    { head: "Channel", number: true, cell: (c) => String(c.channel) },
    { head: "Fair load", number: true, cell: (c) => load(c.fair) },
    ...kinds.map((kind) => ({ head: KINDS[kind], number: true, cell: (c) => load(c[kind]) })),
    known("tuples") && { head: "Tuples", number: true, cell: (c) => count(c.tuples) },
    known("task_seconds") && { head: "Task", number: true, cell: (c) => seconds(c.task_seconds) },
    known("keys") && { head: "Keys", number: true, cell: (c) => count(c.keys) },
    known("held_bytes") && { head: "State", number: true, cell: (c) => bytes(c.held_bytes) },
    known("heavy") && { head: "Heaviest keys", cell: (c) => (c.heavy.length ? c.heavy.map(({ key, cost }, i) => [i ? ", " : "", keyLink(key), ` ${load(cost)}`]) : "–") },
  ].filter(Boolean), channels, { class: "loads" });
}

/** Loads per channel: switches for the kinds, picture, words about one channel, table. */
export function loadsPicture(channels, { kinds, off = [], theta, keyLink = (key) => key }) {
  const there = kinds.filter((kind) => channels.some((c) => !missing(c[kind])));
  const heavyOn = ["reached", "planned", "before", "tried"].find((kind) => there.includes(kind));
  const on = new Set(there.filter((kind) => !off.includes(kind)));
  const heavy = heavyOn && channels.some((c) => c.heavy?.length);
  const told = h("div", { class: "reading", "aria-live": "polite" }, reading(null, there, theta, keyLink, heavy));
  let [groups, at] = [[], [null, 0]];
  const shown = () => there.filter((kind) => on.has(kind));
  const pick = (i) => {
    groups.forEach((group, n) => group.classList.toggle("picked", n === i));
    told.replaceChildren(reading(i === null ? null : channels[i], there, theta, keyLink, heavy));
  };
  const redraw = (holder, width) => {
    at = [holder, width];
    groups = draw(holder, width, { channels, kinds: shown(), theta, heavyOn, pick });
  };
  const holder = drawn(redraw, { class: "picture wide", role: "group", "aria-label": `Loads of ${channels.length} channels. Arrow keys go from channel to channel; the table below has the same.` });
  steppable(holder, () => channels.length, pick);
  const toggle = (kind) => (event) => {
    on[event.target.checked ? "add" : "delete"](kind);
    if (at[0]) redraw(...at);
  };
  const switches = there.map((kind) => h("label", { class: `key bar ${kind}` }, h("input", { type: "checkbox", checked: on.has(kind), onchange: toggle(kind) }), ` ${KINDS[kind]}`));
  return [h("div", { class: "keys" }, there.length > 1 ? switches : "", heavy ? h("span", { class: "key area heavy" }, "heaviest keys") : ""),
    holder, told, asTable(() => channelsTable(channels, there, keyLink))];
}
