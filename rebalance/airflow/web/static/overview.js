// All pipelines: a row each, what needs a person first.

import * as api from "./api.js";
import { h, table } from "./dom.js";
import { bytes, count, plural, ratio, seconds, time } from "./format.js";
import { airflowLink, toInterval, toPipeline } from "./places.js";

const ORDER = { attention: 0, empty: 1, good: 2 };
const STATES = { good: ["●", "Good"], attention: ["▲", "Needs a look"], empty: ["○", "Empty"] };

/** How a pipeline is, by sign, word and colour. */
export function health(card) {
  const [sign, word] = STATES[card.health];
  return h("span", { class: `health ${card.health}` }, h("span", { "aria-hidden": true }, sign), ` ${word}`);
}

/** max/mean reached, in front of what the hash alone would have; 1 is the left end. */
export function reachedBar(card) {
  if (card.reached === null) return "–";
  const most = Math.max(card.hash, card.reached, 1 + card.theta_max, 1.01) - 1;
  const width = (value) => `${Math.max(0, Math.min(100, (100 * (value - 1)) / most)).toFixed(1)}%`;
  return h("div", { class: "reached" },
    h("strong", {}, ratio(card.reached)), h("span", { class: "quiet" }, ` hash alone ${ratio(card.hash)}`),
    h("div", { class: "track", "aria-hidden": true },
      h("div", { class: "hash", style: { width: width(card.hash) } }),
      h("div", { class: "now", style: { width: width(card.reached) } }),
      h("div", { class: "limit", style: { left: width(1 + card.theta_max) } })));
}

const checks = (card) =>
  card.failed_checks || card.warned_checks
    ? h("span", {}, card.failed_checks ? h("strong", { class: "bad" }, `${count(card.failed_checks)} failed`) : "",
      card.failed_checks && card.warned_checks ? ", " : "", card.warned_checks ? h("span", { class: "warn" }, `${count(card.warned_checks)} warned`) : "")
    : card.interval ? "passed" : "–";

const COLUMNS = [
  { head: "Pipeline", cell: (c) => [h("a", { class: "name", href: toPipeline(c.dag_id) }, c.name), h("div", { class: "quiet" }, `${c.operator ?? "–"} · ${c.planner ?? "–"} · ${c.mode ?? "–"}`)] },
  { head: "How it is", cell: (c) => [health(c), h("div", { class: "why" }, c.why), c.pending && h("a", { href: toPipeline(c.dag_id) }, "Answer the plan that waits")].filter(Boolean) },
  { head: "Last interval", cell: (c) => (c.interval ? h("a", { href: toInterval(c.dag_id, c.interval) }, time(c.start)) : "–") },
  { head: "Max/mean load", title: "The fullest channel's load over the mean; 1 is perfect. The mark is where θ_max lies.", cell: reachedBar },
  { head: "Saved", number: true, title: "An estimate for the last interval: seconds of the slowest channel follow its load", cell: (c) => seconds(c.saved_seconds) },
  { head: "Moved", number: true, title: "State that was moved for the last interval", cell: (c) => (c.interval ? [bytes(c.moved_bytes), h("div", { class: "quiet" }, plural(c.moved_keys, "key"))] : "–") },
  { head: "Checks", cell: checks },
  { head: "Late", number: true, title: "Events that came after their interval was processed", cell: (c) => (c.interval ? [plural(c.late, "event"), c.quarantined ? h("div", { class: "quiet" }, `${plural(c.quarantined, "row")} put aside`) : ""] : "–") },
];

export async function showPipelines(signal) {
  const { pipelines, broken } = await api.pipelines(signal);
  const cards = pipelines.toSorted((a, b) => ORDER[a.health] - ORDER[b.health] || a.name.localeCompare(b.name));
  if (!cards.length && !broken.length) {
    return [h("h1", {}, "Pipelines"), h("p", { class: "notice" },
      "There is no pipeline yet that you may see. `rebalance init <name> --source PATH` writes a pipeline file from a look at your table; put it into the folder that your DAG file names, and its DAG appears in Airflow.")];
  }
  return [
    h("h1", {}, "Pipelines"),
    broken.map(({ dag_id: id, why }) => h("p", { class: "notice", role: "alert" }, airflowLink(id, "dags", id), ` ${why}`)),
    cards.length ? table(`${plural(cards.length, "pipeline")}: what needs a person comes first`, COLUMNS, cards, { class: "cards" }) : "",
  ];
}
