// One interval: its loads, what moved and why, its checks and its steps.

import { answers, rewindButton } from "./act.js";
import * as api from "./api.js";
import { loadsPicture } from "./bars.js";
import { h, longTable, section, table } from "./dom.js";
import { flowsPicture } from "./flows.js";
import { bytes, count, load, percent, plural, ratio, seconds, span } from "./format.js";
import { tile } from "./pipeline.js";
import { runLink, toDocs, toInterval, toKey } from "./places.js";

function neighbours(dagId, { previous, next }) {
  const link = (id, text, name) => (id ? h("a", { class: "button", href: toInterval(dagId, id), rel: name }, text) : h("span", { class: "button off" }, text));
  return h("nav", { class: "neighbours", "aria-label": "Neighbouring intervals" }, link(previous, "← previous", "prev"), link(next, "next →", "next"));
}

/** What became of the interval, in a sentence. */
function outcome(doc) {
  const { plan } = doc;
  if (doc.skipped_from) return `The intervals from ${doc.skipped_from} on were left out before this one.`;
  if (!plan) return doc.processed ? "Processed without a plan of its own." : "Counted, and not processed yet.";
  const moved = `${plural(plan.moved_keys, "key")}, ${bytes(plan.moved_bytes)} of state`;
  if (plan.applied) return `A plan by ${plan.planner} was carried out: ${moved} moved.`;
  if (plan.pending) return `A plan by ${plan.planner} waits for a person: it would move ${moved}.`;
  if (plan.answer) return `${plan.answer.who} said ${plan.answer.answer} to the plan by ${plan.planner}, which would move ${moved}.`;
  return `${plan.planner} decided to ${plan.decision}. Nothing was moved.`;
}

function tiles(doc) {
  return h("dl", { class: "tiles" },
    tile("Max/mean load", ratio(doc.reached ?? doc.planned ?? doc.before), `hash alone ${ratio(doc.hash)}, before ${ratio(doc.before)}, planned ${ratio(doc.planned)}`),
    tile("Rows", count(doc.rows), plural(doc.keys, "key")),
    tile("Function", `v${doc.function_version}`, `θ_max ${percent(doc.theta_max)}`),
    tile("Late", plural(doc.late, "event"), Object.entries(doc.quarantined).map(([reason, rows]) => `${plural(rows, "row")} put aside: ${reason}`).join(", ")));
}

export function planTable(caption, plans) {
  const rows = [
    ["θ: the furthest channel from its fair load", (p) => percent(p.theta_before), (p) => percent(p.theta_after)],
    ["The fullest channel over the mean", (p) => ratio(p.skewness_before), (p) => ratio(p.skewness_after)],
  ];
  return table(caption, [{ head: "", cell: (row) => row[0] }, { head: "Before", number: true, cell: (row) => row[1](plans) }, { head: "With the plan", number: true, cell: (row) => row[2](plans) }], rows);
}

function planSection(dagId, doc) {
  const { plan } = doc;
  if (!plan) return section("The plan", h("p", { class: "quiet" }, "None was made for this interval."));
  return section("The plan",
    h("p", {}, h("strong", {}, plan.decision), ` by ${plan.planner}: ${plan.reason}`),
    plan.certificate && h("p", {}, plan.certificate),
    plan.notes.length ? h("ul", {}, plan.notes.map((note) => h("li", {}, note))) : "",
    planTable(`Plan ${plan.plan_id}, made in ${seconds(plan.seconds)}: ${plural(plan.moved_keys, "key")} and ${bytes(plan.moved_bytes)} of state move (${percent(plan.moved_share)} of all), ${plural(plan.routes, "route")}, ${plural(plan.splits, "split")}`, plan),
    plan.pending && answers(dagId, { ...plan, interval: doc.id }),
    plan.answer && h("p", {}, `${plan.answer.who} said ${plan.answer.answer}.`));
}

const keyLink = (dagId) => (key) => h("a", { href: toKey(dagId, key) }, key);

function movesSection(dagId, doc) {
  if (!doc.plan || doc.plan.decision !== "apply") return "";
  const more = doc.moves_total > doc.moves.length ? ` The heaviest ${count(doc.moves.length)} of ${count(doc.moves_total)} are listed.` : "";
  return section(doc.plan.applied ? "What moved" : "What would move", flowsPicture(doc.flows),
    doc.moves.length ? longTable(`Keys that change their channel.${more}`, [
      { head: "Key", cell: (move) => keyLink(dagId)(move.key) },
      { head: "From", number: true, cell: (move) => String(move.from) },
      { head: "To", number: true, cell: (move) => String(move.to) },
      { head: "Load", number: true, cell: (move) => load(move.cost) },
      { head: "State", number: true, cell: (move) => bytes(move.state_bytes) },
    ], doc.moves, 12) : "");
}

function qualitySection(dagId, { quality }) {
  if (!quality.length) return section("Checks", h("p", { class: "quiet" }, "These statistics were not checked."));
  const word = (one) => (one.success ? h("span", { class: "good" }, "passed") : h("span", { class: one.severity === "warning" ? "warn" : "bad" }, one.severity === "warning" ? "warned" : "failed"));
  const rows = quality.toSorted((a, b) => a.success - b.success);
  return section("Checks", h("p", {}, `${count(rows.filter((one) => one.success).length)} of ${plural(rows.length, "check")} passed. `, h("a", { href: toDocs(dagId) }, "Data Docs")),
    longTable("Checks of this interval, what failed first", [
      { head: "Outcome", cell: word },
      { head: "Expectation", cell: (one) => one.expectation },
      { head: "Column", cell: (one) => one.column ?? "–" },
      { head: "Bad rows", number: true, cell: (one) => count(one.bad_rows) },
      { head: "Detail", cell: (one) => one.detail ?? "–" },
      { head: "Suite", cell: (one) => one.suite },
    ], rows, 8));
}

function stepsSection(dagId, doc, runs) {
  const known = new Map(doc.steps.map((step) => [step.step, step.seconds]));
  const [run] = runs;
  const tasks = new Map((run?.tasks ?? []).map((task) => [task.task, task]));
  const rows = [...new Set([...tasks.keys(), ...known.keys()])].map((name) => ({ name, own: known.get(name) ?? null, task: tasks.get(name) ?? null }));
  if (!rows.length) return "";
  return section("What each step took",
    table("Seconds of each step", [
      { head: "Step", cell: (row) => row.name },
      { head: "Work", number: true, title: "As the step itself measured it", cell: (row) => seconds(row.own) },
      { head: "Airflow's task", number: true, title: "With starting a process and its JVM", cell: (row) => seconds(row.task?.seconds) },
      { head: "State", cell: (row) => row.task?.state ?? "–" },
    ], rows),
    h("p", {}, runs.length ? ["Runs in Airflow: ", runs.map((one, i) => [i ? ", " : "", runLink(one.run_id, dagId, one.run_id), ` (${one.state})`])] : "No run of Airflow is recorded for this interval."));
}

export async function showInterval(dagId, id, signal) {
  const [doc, { runs }] = await Promise.all([
    api.interval(dagId, id, signal),
    // Who may not see runs still sees the interval.
    api.runsOf(dagId, id, signal).catch((error) => { if (error.status === 403) return { runs: [] }; throw error; }),
  ]);
  return [
    h("div", { class: "heading" }, h("h1", {}, span(doc.start, doc.end)), neighbours(dagId, doc)),
    h("p", { class: "why" }, outcome(doc)),
    h("div", { class: "actions" }, rewindButton(dagId, doc)),
    tiles(doc),
    section("Load of each channel", loadsPicture(doc.channels, { kinds: ["hash", "before", "planned", "reached"], off: ["hash"], theta: doc.theta_max, keyLink: keyLink(dagId) })),
    planSection(dagId, doc),
    movesSection(dagId, doc),
    qualitySection(dagId, doc),
    stepsSection(dagId, doc, runs),
  ];
}
