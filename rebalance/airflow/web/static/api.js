// What the page asks of its own routes and of Airflow's API. Both know the person by the cookie of Airflow's session.

/** An answer that is none: `message` is a sentence for the person. */
export class Refusal extends Error {
  constructor(status, kind, message) {
    super(message);
    Object.assign(this, { status, kind });
  }
}

const WORDS = {
  401: "You are not signed in any more. Reload Airflow, sign in, and come back.",
  403: "Airflow does not give you the right to this. Ask whoever manages its users.",
};

async function ask(address, options = {}) {
  let answer;
  try {
    answer = await fetch(address, { credentials: "same-origin", headers: { Accept: "application/json" }, ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal(0, "Unreachable", "Airflow's API server does not answer. Try again when it is up.");
  }
  const body = await answer.json().catch(() => null);
  if (answer.ok) return body;
  throw new Refusal(answer.status, body?.error ?? "Refused", WORDS[answer.status] ?? wordsOf(body, answer.status));
}

function wordsOf(body, status) {
  const said = body?.message ?? body?.detail;
  if (typeof said === "string") return said;
  if (Array.isArray(said)) return said.map((one) => `${one.loc?.at(-1) ?? ""}: ${one.msg}`).join("; ");
  return `Airflow's API server answered ${status} without a word; its log has the reason.`;
}

const send = (method, address, body) =>
  ask(address, { method, headers: { Accept: "application/json", "Content-Type": "application/json" }, body: JSON.stringify(body) });

const of = (dagId) => `api/dags/${encodeURIComponent(dagId)}`;

export const pipelines = (signal) => ask("api/pipelines", { signal });
export const pipeline = (dagId, signal) => ask(of(dagId), { signal });
export const interval = (dagId, id, signal) => ask(`${of(dagId)}/intervals/${encodeURIComponent(id)}`, { signal });
export const runsOf = (dagId, id, signal) => ask(`${of(dagId)}/intervals/${encodeURIComponent(id)}/runs`, { signal });
export const run = (dagId, runId, signal) => ask(`${of(dagId)}/runs/${encodeURIComponent(runId)}`, { signal });
export const key = (dagId, text, signal) => ask(`${of(dagId)}/key?key=${encodeURIComponent(text)}`, { signal });
export const knobs = (dagId, signal) => ask(`${of(dagId)}/trial`, { signal });
export const tryPlan = (dagId, changed) => send("POST", `${of(dagId)}/trial`, changed);

// Airflow's own API, so that its permissions hold and its audit log has who did what.
const airflow = (path) => `../api/v2/dags/${path}`;

/** The run that asks about a plan. Its name has the digest of the function, so what is answered is what was shown. */
export const questionOf = (dagId, plan) => ({ dagId: `${dagId}_approve`, runId: `plan__${plan.plan_id}__${(plan.digest ?? "").slice(0, 12)}` });

const ofRun = ({ dagId, runId }) => airflow(`${encodeURIComponent(dagId)}/dagRuns/${encodeURIComponent(runId)}`);

/** What Airflow knows of a question, with the answer if somebody gave it; null if it was not asked yet. */
export async function question(asked) {
  const { hitl_details: [found] } = await ask(`${ofRun(asked)}/hitlDetails`);
  return found ?? null;
}

export const answer = (asked, option) => send("PATCH", `${ofRun(asked)}/taskInstances/approve_plan/-1/hitlDetails`, { chosen_options: [option], params_input: {} });

export async function trigger(dagId, conf) {
  const dag = await ask(airflow(encodeURIComponent(dagId)));
  // A new DAG is paused, and a run of a paused DAG would wait for ever.
  if (dag.is_paused) await send("PATCH", airflow(`${encodeURIComponent(dagId)}?update_mask=is_paused`), { is_paused: false });
  return send("POST", airflow(`${encodeURIComponent(dagId)}/dagRuns`), { logical_date: null, conf });
}
