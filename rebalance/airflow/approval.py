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
        from rebalance.storage.approvals import pending

        plan = pending(load_pipeline(self.pipeline_file).tables)
        if plan is None:
            raise AirflowSkipException("no plan waits for an answer: there is nothing to ask")
        self.conf = {"plan_id": plan["plan_id"], "digest": plan["digest"]}
        self.trigger_run_id = f"plan__{plan['plan_id']}__{plan['digest'][:12]}"
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

    def execute(self, context: Any) -> Any:
        """Show the plan and wait."""
        from rebalance.storage.approvals import plan_in_words

        plan = self._still_open(context)
        self.body = plan_in_words(plan) + "\nResults do not wait for the answer. Rejecting moves nothing.\n"
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

    def _still_open(self, context: Any) -> dict[str, Any]:
        """The plan of this run, if it is the one that waits for an answer."""
        from rebalance.storage.approvals import pending

        asked, plan = plan_of(context), pending(load_pipeline(self.pipeline_file).tables)
        if plan is None or {name: plan[name] for name in asked} != asked:
            raise AirflowSkipException(
                f"plan {asked['plan_id']} was superseded or answered elsewhere, or another function is active by now"
            )
        return plan


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
    from rebalance.storage.approvals import answer

    given = ti.xcom_pull(task_ids="approve_plan")
    try:
        answer(load_pipeline(pipeline_file).tables, given["plan_id"], given["digest"], given["answer"], given["who"])
    except RebalanceError as error:
        raise AirflowFailException(f"{type(error).__name__}: {error}") from None
    return f"{given['answer']} of plan {given['plan_id']} by {given['who']} recorded"
