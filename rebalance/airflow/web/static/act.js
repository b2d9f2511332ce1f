// What a person can do here. Each button first says what will happen; Airflow's own API does it, with the person's own rights.

import * as api from "./api.js";
import { h } from "./dom.js";
import { bytes, giveOrTake, plural, ratio } from "./format.js";
import { runLink, toInterval } from "./places.js";

/** Ask, do, and show where it can be watched. `go` returns what to show when it is done. */
function confirmed(title, says, word, go) {
  const told = h("div", { "aria-live": "polite" });
  const yes = h("button", { class: "primary" }, word);
  const no = h("button", { autofocus: true }, "Cancel");
  const dialog = h("dialog", { "aria-labelledby": "asked" }, h("h2", { id: "asked" }, title), says.map((text) => h("p", {}, text)), told, h("div", { class: "actions" }, yes, no));
  let done = false;
  no.addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => {
    dialog.remove();
    if (done) dispatchEvent(new Event("rebalance:changed"));
  });
  yes.addEventListener("click", async () => {
    yes.disabled = true;
    told.replaceChildren(h("p", { class: "quiet" }, "Asking Airflow …"));
    try {
      told.replaceChildren(h("p", { class: "good" }, await go()));
      done = true;
      yes.remove();
      no.replaceChildren("Close");
      no.focus();
    } catch (error) {
      told.replaceChildren(h("p", { class: "notice", role: "alert" }, error.message));
      yes.disabled = false;
    }
  });
  document.body.append(dialog);
  dialog.showModal();
}

const ANSWERS = {
  Approve: "The next run carries it out in migrate_state, before it processes its interval. Results do not wait for it.",
  Reject: "Nothing moves. The next interval may bring another plan.",
};

async function answer(asked, option) {
  await api.answer(asked, option).catch((error) => {
    throw error.status === 409 ? new Error("Somebody has answered this question already.") : error;
  });
  return ["Airflow has the answer. ", runLink("The question's run", asked.dagId, asked.runId), " records it within seconds."];
}

function buttons(asked, plan) {
  const ask = (option) => () => confirmed(`${option} this plan?`, [
    `Plan ${plan.plan_id} by ${plan.planner}, made for interval ${plan.interval}: it moves ${plural(plan.moved_keys, "key")}, ${bytes(plan.moved_bytes)} of state.`, ANSWERS[option],
    "Airflow records who answered, for exactly the function that was planned.",
  ], option, () => answer(asked, option));
  return [h("button", { class: "primary", onclick: ask("Approve") }, "Approve"), h("button", { onclick: ask("Reject") }, "Reject")];
}

/** What can be done about a plan that waits: answer it, where Airflow has asked and nobody has answered. */
export function answers(dagId, plan) {
  const asked = api.questionOf(dagId, plan);
  const holder = h("div", { class: "actions", "aria-live": "polite" });
  const said = (found) => {
    if (!found) return [h("p", {}, `Airflow has not asked about this plan yet: the task ask_approval of ${dagId} starts its question. At the command line, rebalance approve answers it too.`)];
    if (!found.response_received) return buttons(asked, plan);
    return [h("p", {}, `${found.responded_by_user?.name ?? "Somebody"} answered ${found.chosen_options.join(", ")}; `, runLink("the question's run", asked.dagId, asked.runId), " records it within seconds.")];
  };
  api.question(asked).then((found) => holder.replaceChildren(...said(found)), (error) => holder.replaceChildren(h("p", {}, error.message)));
  return holder;
}

/** What a pipeline says of its plan that waits. */
export function approval(card) {
  const plan = card.pending;
  return h("section", { class: "notice waits", "aria-label": "A plan waits for an answer" },
    h("p", {}, h("strong", {}, "A plan waits for your answer. "), `${plan.planner} would move ${plural(plan.moved_keys, "key")}, ${bytes(plan.moved_bytes)} of state, for a max/mean load of ${ratio(plan.predicted)}${giveOrTake(plan.error)}. `,
      h("a", { href: toInterval(card.dag_id, plan.interval) }, "Look at it")),
    answers(card.dag_id, plan));
}

export function rewindButton(dagId, doc) {
  if (!doc.processed) return "";
  const rewind = `${dagId}_rewind`;
  const ask = () => confirmed(`Rewind to ${doc.id}?`, [
    `This starts the DAG ${rewind}. The function and the state from before ${doc.id} become active again; it and all later intervals must then be run again.`,
    `Their results stay until then. Afterwards clear the runs of ${dagId} from this interval on, oldest first. Until something has run, the rewind can be taken back by the same DAG with undo.`,
    "A DAG that is paused is unpaused, because its run would wait otherwise.",
  ], "Rewind", async () => {
    const run = await api.trigger(rewind, { to: doc.id });
    return ["Airflow has started it: ", runLink(run.dag_run_id, rewind, run.dag_run_id), "."];
  });
  return h("button", { onclick: ask }, "Rewind to this interval");
}
