"""A person's approval in Airflow: a question of its own beside the pipeline's runs, which never wait for the answer.

The pipeline allows one run at a time. A task of its own DAG that waited for a person would hold up the results of all later intervals. So
`ask_approval`, a task beside `process_batch`, starts a run of the DAG `rebalance_<name>_approve`, and that run waits.

Every plan has a run of its own. Airflow's form answers a run, not what it shows: were one run used for plan after plan, a person with an
old page open would approve a plan unseen. A question whose plan is superseded, or answered elsewhere, closes itself within an interval.
"""

from __future__ import annotations

from typing import Any

from airflow.providers.standard.exceptions import HITLTimeoutError
from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskAwaitingInput

from rebalance.airflow import SAID
from rebalance.airflow.operator import address, page_address
from rebalance.airflow.tasks import leave
from rebalance.errors import RebalanceError
from rebalance.pipeline.file import Pipeline, load_pipeline

APPROVE, REJECT = "Approve", "Reject"


def approve_dag_id(pipeline: Pipeline) -> str:
    """The DAG that asks a person about the pipeline's plans."""
    return f"{pipeline.dag_id}_approve"


class AskApproval(TriggerDagRunOperator):
    """Asks a person about the plan that waits for an answer, once; skips itself when there is none, or it was asked for already."""

    def __init__(self, *, pipeline: Pipeline, **options: Any) -> None:
        super().__init__(
            trigger_dag_id=approve_dag_id(pipeline),
            # Runs with a date may not share it; a question has none.
            logical_date=None,
            skip_when_already_exists=True,
            openlineage_inject_parent_info=False,
            **options,
        )
        self.pipeline_file = str(pipeline.file)

    def execute(self, context: Any) -> Any:
        """Start the question."""
        # Imported here: Airflow reads this module with every DAG file that uses it.
        from rebalance.steps.trouble import trouble_in_words
        from rebalance.storage.approvals import pending

        root = load_pipeline(self.pipeline_file).tables
        with trouble_in_words(root):
            plan = pending(root)
        if plan is None or context["params"].get("dry_run"):
            raise skip(
                context, "a dry run asks nobody" if plan else "no plan waits for an answer: there is nothing to ask"
            )
        self.conf = {"plan_id": plan["plan_id"], "digest": plan["digest"]}
        self.trigger_run_id = f"plan__{plan['plan_id']}__{plan['digest'][:12]}"
        answer_at = address(f"dags/{self.trigger_dag_id}/runs/{self.trigger_run_id}")
        leave(context["ti"], SAID, f"plan {plan['plan_id']} waits for an answer: [answer it]({answer_at})")
        return super().execute(context)


class ApprovePlan(HITLOperator):
    """Shows a plan and returns a person's answer to it, with the digest of the function that was shown.

    No default answer and no retry: a question that is asked again by itself, and times out into a default, would be an answer that nobody gave.
    A rejection is an answer, not a failure.
    """

    def __init__(self, *, pipeline: Pipeline, **options: Any) -> None:
        super().__init__(
            subject="Move the state of rebalanced keys? {{ dag.dag_id }}, {{ run_id }}",
            options=[APPROVE, REJECT],
            retries=0,
            # Not for the person, who may take any time: this often the question looks whether it is still one.
            response_timeout=pipeline.interval.length,
            **options,
        )
        self.pipeline_file = str(pipeline.file)
        self.pipeline_dag = pipeline.dag_id

    def execute(self, context: Any) -> Any:
        """Show the plan and wait."""
        from rebalance.storage.approvals import plan_in_words

        plan = self._still_open(context)
        self.body = plan_in_words(plan) + self._what_follows(plan)
        return super().execute(context)

    def execute_complete(self, context: Any, event: dict[str, Any]) -> dict[str, str]:
        """The answer, bound to what was shown; or wait on."""
        try:
            given = super().execute_complete(context, event)
        except HITLTimeoutError:
            self._still_open(context)
            raise TaskAwaitingInput(method_name="execute_complete", timeout=self.response_timeout) from None
        user = given["responded_by_user"] or {}
        return {
            **plan_of(context),
            "answer": "approve" if given["chosen_options"] == [APPROVE] else "reject",
            "who": str(user.get("name") or user.get("id") or "somebody in Airflow"),
        }

    def _what_follows(self, plan: dict[str, Any]) -> str:
        page = page_address(f"#/dag/{self.pipeline_dag}/interval/{plan['interval_id']}")
        return f"""{f"Notes: {plan['notes']}" if plan["notes"] else ""}

**{APPROVE}:** `migrate_state` of the next run of `{self.pipeline_dag}` moves the keys with their state in one commit, verifies it, and
switches to the new function. **{REJECT}:** nothing is moved, and the active function stays until a newer plan is made. Results wait for
neither. [Look at the interval]({page})
"""

    def _still_open(self, context: Any) -> dict[str, Any]:
        """The plan of this run, if it is the one that waits for an answer."""
        from rebalance.steps.trouble import trouble_in_words
        from rebalance.storage.approvals import pending

        asked, root = plan_of(context), load_pipeline(self.pipeline_file).tables
        with trouble_in_words(root):
            plan = pending(root)
        if plan is None or {name: plan[name] for name in asked} != asked:
            raise skip(
                context,
                f"plan {asked['plan_id']} was superseded or answered elsewhere, or another function is active by now",
            )
        return plan


def skip(context: Any, why: str) -> AirflowSkipException:
    """Why a task skips itself, left for its note too."""
    leave(context["ti"], SAID, why)
    return AirflowSkipException(why)


def plan_of(context: Any) -> dict[str, str]:
    """Which plan, with which function, the run asks about."""
    asked = context["dag_run"].conf or {}
    if not {"plan_id", "digest"} <= set(asked):
        raise AirflowFailException(
            "this run names no plan. The pipeline's own runs start it with one; by hand, use `rebalance approve`."
        )
    return {name: str(asked[name]) for name in ("plan_id", "digest")}


def record_answer(pipeline_file: str, ti: Any) -> str:
    """Store the answer that `approve_plan` got; fails if it can have no effect, so that nobody believes it had."""
    from rebalance.steps.trouble import trouble_in_words
    from rebalance.storage.approvals import answer

    given = ti.xcom_pull(task_ids="approve_plan")
    try:
        root = load_pipeline(pipeline_file).tables
        with trouble_in_words(root):
            answer(root, given["plan_id"], given["digest"], given["answer"], given["who"])
    except RebalanceError as error:
        said = f"{type(error).__name__}: {error}"
        leave(ti, SAID, said)
        raise AirflowFailException(said) from None
    follows = (
        "the next run's migrate_state carries it out" if given["answer"] == "approve" else "nothing is moved by it"
    )
    return f"{given['answer']} of plan {given['plan_id']} by {given['who']} recorded: {follows}"
