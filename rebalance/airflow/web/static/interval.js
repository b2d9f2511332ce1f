// One interval: its loads, what moved and why, its checks and its steps.

import { answers, rewindButton } from "./act.js";
import * as api from "./api.js";
import { loadsPicture } from "./bars.js";
import { h, longTable, section, table } from "./dom.js";
import { flowsPicture } from "./flows.js";
import { bytes, count, decided, giveOrTake, load, percent, plural, ratio, seconds, span, time } from "./format.js";
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
  const failed = doc.quality.filter((one) => !one.success && one.severity === "stop").length;
  if (!plan && failed) return `${plural(failed, "check")} failed, so nothing was planned on these statistics${doc.processed ? "; the results are there" : ""}.`;
  if (!plan) return doc.processed ? "Processed without a plan of its own." : "Counted, and not processed yet.";
  const moved = `${plural(plan.moved_keys, "key")}, ${bytes(plan.moved_bytes)} of state`;
  if (plan.applied) return `A plan by ${plan.planner} was carried out: ${moved} moved.`;
  if (plan.pending) return `A plan by ${plan.planner} waits for a person: it would move ${moved}.`;
  if (plan.answer) return `${plan.answer.who} said ${plan.answer.answer} to the plan by ${plan.planner}, which would move ${moved}.`;
  if (plan.decision === "apply") return `A plan by ${plan.planner} was not carried out: it would have moved ${moved}.`;
  return `${decided(plan.planner, plan.decision, plan.reason)}.`;
}

function tiles(doc) {
  return h("dl", { class: "tiles" },
    tile("Max/mean load", ratio(doc.reached ?? doc.planned ?? doc.before), [["hash alone", doc.hash], ["before", doc.before], ["planned", doc.planned]].filter(([, value]) => value !== null).map(([name, value]) => `${name} ${ratio(value)}`).join(", ")),
    tile("Rows", count(doc.rows), plural(doc.keys, "key")),
    tile("Function", `v${doc.function_version}`, `θ_max ${percent(doc.theta_max)}`),
    tile("Late", plural(doc.late, "event"), Object.entries(doc.quarantined).map(([reason, rows]) => `${plural(rows, "row")} put aside: ${reason}`).join(", ")));
}

export function planTable(caption, plans) {
  const rows = [
    ["θ: the furthest channel from its fair load", (p) => percent(p.theta_before), (p) => percent(p.theta_after)],
    ["The fullest channel over the mean", (p) => ratio(p.skewness_before) + giveOrTake(p.error), (p) => ratio(p.skewness_after) + giveOrTake(p.error)],
  ];
  return table(caption, [{ head: "", cell: (row) => row[0] }, { head: "Before", number: true, cell: (row) => row[1](plans) }, { head: "With the plan", number: true, cell: (row) => row[2](plans) }], rows);
}

function planSection(dagId, doc) {
  const { plan } = doc;
  if (!plan) return section("The plan", h("p", { class: "quiet" }, "None was made for this interval."));
  return section("The plan",
    h("p", {}, decided(plan.planner, plan.decision, plan.reason)),
    plan.epoch && h("p", {}, `Carried out by epoch ${plan.epoch.epoch} at `, time(plan.epoch.at), `. It made function v${plan.epoch.function_version} active.`),
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

/** What is wanted and what was found; the columns beside it say which expectation this is. */
const detail = (one) => one.detail?.replace(/^(expect_\w+) on (the table|[^\s:]+)( of events)?:? ?/, "") || "–";

function qualitySection(dagId, { quality }) {
  if (!quality.length) return section("Checks", h("p", { class: "quiet" }, "These statistics were not checked."));
  const word = (one) => (one.success ? h("span", { class: "good" }, "passed") : h("span", { class: one.severity === "warn" ? "warn" : "bad" }, one.severity === "warn" ? "warned" : "failed"));
  const rows = quality.toSorted((a, b) => a.success - b.success);
  return section("Checks", h("p", {}, `${count(rows.filter((one) => one.success).length)} of ${plural(rows.length, "check")} passed. `, h("a", { href: toDocs(dagId) }, "Data Docs")),
    longTable("Checks of this interval, what failed first", [
      { head: "Outcome", cell: word },
      { head: "Expectation", kind: "name", cell: (one) => one.expectation },
      { head: "Column", kind: "name", cell: (one) => one.column || "–" },
      { head: "Bad rows", number: true, title: "Of expectations that look at rows one by one", cell: (one) => (one.success || one.bad_rows ? count(one.bad_rows) : "–") },
      { head: "Detail", kind: "text", cell: detail },
      { head: "Suite", kind: "name", cell: (one) => one.suite },
    ], rows, 8));
}

/** Airflow's words for what it did not run. */
const STATES = { upstream_failed: "not run: a step before it failed", skipped: "skipped: nothing to do", up_for_retry: "failed, will be tried again", up_for_reschedule: "waits for the end of the grace", none: "not run yet" };

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
      { head: "Airflow's task", number: true, title: "With starting a process and its JVM", cell: (row) => seconds(row.task?.seconds || null) },
      { head: "State", cell: (row) => STATES[row.task?.state] ?? row.task?.state ?? "–" },
    ], rows, { class: "steps" }),
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
    tiles(doc),
    section("Load of each channel", loadsPicture(doc.channels, { kinds: ["hash", "before", "planned", "reached"], off: ["hash"], theta: doc.theta_max, keyLink: keyLink(dagId) })),
    planSection(dagId, doc),
    movesSection(dagId, doc),
    qualitySection(dagId, doc),
    stepsSection(dagId, doc, runs),
    doc.processed && section("If its events were corrected", h("div", { class: "actions" }, rewindButton(dagId, doc))),
  ];
}
