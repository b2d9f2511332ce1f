// What a person can do here. Each button first says what will happen; Airflow's own API does it, with the person's own rights.

import * as api from "./api.js";
import { h } from "./dom.js";
import { bytes, plural, ratio } from "./format.js";
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

async function answer(dagId, plan, option) {
  const asked = await api.question(dagId);
  if (asked.plan_id !== plan.plan_id) {
    throw new Error(asked.plan_id ? `Plan ${asked.plan_id} has taken the place of this one. Look at that one first.` : "This plan waits no more: it was answered, carried out or superseded.");
  }
  try {
    await api.answer(asked.dag_id, asked.run_id, option);
  } catch (error) {
    if (error.status === 404) throw new Error(`Airflow has not asked about this plan yet. The task ask_approval of ${dagId} starts the question in ${asked.dag_id}; unpause both, or use rebalance approve.`);
    if (error.status === 409) throw new Error("Somebody has answered this question already.");
    throw error;
  }
  return ["Airflow has the answer. ", runLink("The question's run", asked.dag_id, asked.run_id), " records it."];
}

/** The buttons under a plan that waits. */
export function answerButtons(dagId, plan) {
  const ask = (option) => () => confirmed(`${option} this plan?`, [
    `Plan ${plan.plan_id} by ${plan.planner}, made for interval ${plan.interval}: it moves ${plural(plan.moved_keys, "key")}, ${bytes(plan.moved_bytes)} of state.`, ANSWERS[option],
    "Airflow records who answered, for exactly the function that was planned.",
  ], option, () => answer(dagId, plan, option));
  return h("div", { class: "actions" }, h("button", { class: "primary", onclick: ask("Approve") }, "Approve"), h("button", { onclick: ask("Reject") }, "Reject"));
}

/** What a pipeline says of its plan that waits. */
export function approval(card) {
  const plan = card.pending;
  return h("section", { class: "notice waits", "aria-label": "A plan waits for an answer" },
    h("p", {}, h("strong", {}, "A plan waits for your answer. "), `${plan.planner} would move ${plural(plan.moved_keys, "key")}, ${bytes(plan.moved_bytes)} of state, for a max/mean load of ${ratio(plan.predicted)}. `,
      h("a", { href: toInterval(card.dag_id, plan.interval) }, "Look at it")),
    answerButtons(card.dag_id, plan));
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
