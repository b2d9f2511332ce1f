// The address says what is shown: #/, #/dag/<id>, …/interval/<id>, …/run/<id>, …/key/<text>, …/try.

import * as api from "./api.js";
import { h } from "./dom.js";
import { zone } from "./format.js";
import { showInterval } from "./interval.js";
import { showKey } from "./key.js";
import { showPipelines } from "./overview.js";
import { HOME, placeOf, toInterval, toKey, toPipeline, toTrial } from "./places.js";
import { showPipeline } from "./pipeline.js";
import { followTheme } from "./theme.js";
import { showTrial } from "./trial.js";

const view = document.getElementById("view");
let leaving = new AbortController();

/** The view of a place: its elements, once they are there. */
async function viewOf(place, signal) {
  const { dagId, kind, name } = place;
  if (!dagId) return showPipelines(signal);
  if (kind === "interval") return showInterval(dagId, name, signal);
  if (kind === "run") return showRun(dagId, name, signal);
  if (kind === "key") return showKey(dagId, name, signal);
  if (kind === "try") return showTrial(dagId, signal);
  return showPipeline(dagId, signal);
}

async function showRun(dagId, runId, signal) {
  const found = await api.run(dagId, runId, signal);
  if (found.interval) return showInterval(dagId, found.interval, signal);
  return [h("p", { class: "notice" }, found.why), h("p", {}, h("a", { href: toPipeline(dagId) }, "The pipeline over time"))];
}

function header({ dagId, kind, name }) {
  const crumbs = [h("a", { href: HOME }, "All pipelines")];
  if (dagId) crumbs.push(h("a", { href: toPipeline(dagId) }, dagId.replace(/^rebalance_/, "")));
  if (kind === "interval") crumbs.push(h("span", {}, name));
  if (kind === "key") crumbs.push(h("span", {}, `key ${name}`));
  if (kind === "try") crumbs.push(h("span", {}, "try a plan"));
  if (kind === "run") crumbs.push(h("span", {}, name));
  crumbs.at(-1).setAttribute("aria-current", "page");
  return [
    h("nav", { "aria-label": "Where this is" }, h("ol", {}, crumbs.map((crumb) => h("li", {}, crumb)))),
    dagId && keyField(dagId, kind === "key" ? name : ""),
    dagId && h("a", { class: "button", href: toTrial(dagId) }, "Try a plan"),
    h("span", { class: "zone", title: "The zone that is chosen in Airflow; UTC stands under the pointer" }, `Times in ${zone()}`),
  ].filter(Boolean);
}

function keyField(dagId, value) {
  const field = h("input", { type: "search", name: "key", value, placeholder: "Look up a key", "aria-label": "Look up a key", required: true });
  const go = (event) => {
    event.preventDefault();
    location.hash = toKey(dagId, field.value);
  };
  return h("form", { role: "search", onsubmit: go }, field, h("button", { type: "submit" }, "Look up"));
}

function trouble(error, { dagId }) {
  const owner = /^(rebalance_.+)_(maintain|rewind|approve)$/.exec(dagId ?? "");
  if (error.status === 404 && owner) {
    return [h("p", { class: "notice" }, `${dagId} is no pipeline itself. It belongs to `, h("a", { href: toPipeline(owner[1]) }, owner[1]), ".")];
  }
  return [
    h("p", { class: "notice", role: "alert" }, error instanceof api.Refusal ? error.message : `This page has a fault: ${error.message}`),
    h("p", {}, h("button", { onclick: show }, "Try again"), " ", h("a", { href: HOME }, "All pipelines")),
  ];
}

async function show() {
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  const place = placeOf(location.hash);
  view.setAttribute("aria-busy", "true");
  document.getElementById("top").replaceChildren(...header(place));
  let shown;
  try {
    shown = await viewOf(place, signal);
  } catch (error) {
    if (signal.aborted) return;
    shown = trouble(error, place);
  }
  if (signal.aborted) return;
  view.replaceChildren(...[shown].flat(Infinity).filter(Boolean));
  view.setAttribute("aria-busy", "false");
  document.title = ["Rebalance", place.dagId, place.name].filter(Boolean).join(" · ");
}

addEventListener("hashchange", async () => {
  await show();
  // Who goes by keys goes on at the top of what is new.
  scrollTo(0, 0);
  view.focus({ preventScroll: true });
});
addEventListener("rebalance:changed", show);
// The address is taken by the place, so this link cannot jump by itself.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  view.focus();
});
followTheme(show);
