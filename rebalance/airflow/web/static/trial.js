// Try another planner or other limits on the stored statistics: both plans side by side, nothing is written.

import * as api from "./api.js";
import { loadsPicture } from "./bars.js";
import { h, section, table } from "./dom.js";
import { flowsPicture } from "./flows.js";
import { DECISIONS, bytes, count, percent, plural, ratio, seconds } from "./format.js";
import { toInterval, toKey } from "./places.js";

const FIELDS = [
  { name: "theta_max", text: "θ_max", about: "how far a channel may be from its fair load; 0.1 is 10 %", step: "any", min: 0 },
  { name: "max_routes", text: "max_routes", about: "most keys with a route of their own", step: 1, min: 0 },
  { name: "channels", text: "channels", about: "how many; another number also moves keys by the ring", step: 1, min: 1 },
];

const ROWS = [
  ["Decision", (p) => DECISIONS[p.decision] ?? p.decision],
  ["Why", (p) => p.reason],
  ["Planner", (p) => p.planner],
  ["θ_max", (p) => percent(p.theta_max)],
  ["Channels", (p) => count(p.channels)],
  ["θ: the furthest channel from its fair load", (p) => percent(p.theta)],
  ["Max/mean load", (p) => ratio(p.skewness)],
  ["Routes", (p) => `${count(p.routes)} of at most ${count(p.max_routes)}`],
  ["Keys that move", (p) => count(p.moved_keys)],
  ["State that moves", (p) => `${bytes(p.moved_bytes)}, ${percent(p.moved_share)} of all`],
  ["Planning took", (p) => seconds(p.seconds)],
  ["Certificate", (p) => p.certificate ?? "–"],
  ["Notes", (p) => (p.notes.length ? h("ul", {}, p.notes.map((note) => h("li", {}, note))) : "–")],
];

const columnsOf = (plan) => plan.loads.map((value, channel) => ({ channel, fair: plan.fair[channel], tried: value }));

function results(dagId, doc) {
  const compared = table(`On the ${plural(doc.keys, "key")} of interval ${doc.interval}, after function v${doc.function_version}; now max/mean is ${ratio(doc.now.skewness)}, θ ${percent(doc.now.theta)}`,
    [{ head: "", cell: ([name]) => name }, ...doc.plans.map((plan) => ({ head: plan.label, cell: ([, value]) => value(plan) }))], ROWS, { class: "compared" });
  return [
    section("Both plans", compared, h("p", {}, "Nothing was written. To plan like this from now on, change the pipeline file. ", h("a", { href: toInterval(dagId, doc.interval) }, "The interval"))),
    h("div", { class: "beside" }, doc.plans.map((plan) => section(plan.label, h("h3", {}, "Loads"),
      loadsPicture(columnsOf(plan), { kinds: ["tried"], theta: plan.theta_max, keyLink: (key) => h("a", { href: toKey(dagId, key) }, key) }),
      h("h3", {}, "Moves"), flowsPicture(plan.flows)))),
  ];
}

/** What differs from the pipeline file; the rest is left to it. */
function changesOf(form, knobs) {
  const given = new FormData(form);
  const changed = {};
  for (const { name } of FIELDS) {
    const text = given.get(name).trim();
    if (text !== "" && Number(text) !== knobs[name]) changed[name] = Number(text);
  }
  if (given.get("planner") !== knobs.planner) changed.planner = given.get("planner");
  return changed;
}

export async function showTrial(dagId, signal) {
  const { planners, knobs } = await api.knobs(dagId, signal);
  const outcome = h("div", { "aria-live": "polite" });
  const about = h("p", { class: "quiet" });
  const button = h("button", { type: "submit", class: "primary" }, "Try");
  const choose = h("select", { name: "planner", id: "planner" }, planners.map(({ name }) => h("option", { value: name, selected: name === knobs.planner }, name === knobs.planner ? `${name} (as the file says)` : name)));
  const explain = () => about.replaceChildren(planners.find(({ name }) => name === choose.value)?.about ?? "");
  choose.addEventListener("change", explain);
  explain();
  const submit = async (event) => {
    event.preventDefault();
    button.disabled = true;
    outcome.replaceChildren(h("p", { class: "quiet" }, "Planning …"));
    try {
      outcome.replaceChildren(...results(dagId, await api.tryPlan(dagId, changesOf(event.target, knobs))).flat(Infinity));
    } catch (error) {
      outcome.replaceChildren(h("p", { class: "notice", role: "alert" }, error.message));
    }
    button.disabled = false;
  };
  const fields = FIELDS.map(({ name, text, about: meaning, ...limits }) => h("div", { class: "field" }, h("label", { for: name }, text),
    h("input", { id: name, name, type: "number", value: knobs[name], ...limits }), h("span", { class: "quiet" }, meaning)));
  return [
    h("h1", {}, "Try a plan"),
    h("p", { class: "why" }, "Plans on the newest stored statistics, with the knobs that you change. Nothing is written, nothing moves."),
    h("form", { class: "knobs", onsubmit: submit }, h("div", { class: "field" }, h("label", { for: "planner" }, "planner"), choose, about), fields, h("div", { class: "actions" }, button)),
    outcome,
  ];
}
