"""A person's approval before state is moved, as an Airflow task."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk.exceptions import AirflowSkipException

from rebalance.pipeline.file import load_pipeline


class ApprovePlan(ApprovalOperator):
    """Waits until a person approves or rejects the interval's plan; skips itself when there is nothing to approve.

    No default answer and no retry: a rejection that is asked again, and times out into a default, would be applied after all.
    """

    def __init__(self, *, pipeline_file: str, **options: Any) -> None:
        super().__init__(
            subject="Move the state of rebalanced keys? {{ dag.dag_id }}, {{ data_interval_start }}",
            fail_on_reject=True,
            retries=0,
            **options,
        )
        self.pipeline_file = pipeline_file

    def execute(self, context: Any) -> Any:
        """Show the plan and wait, if the plan is to move anything."""
        # Imported here: Airflow reads this module with every DAG file that uses it.
        from rebalance.storage.plans import plan_awaiting_approval

        pipeline = load_pipeline(self.pipeline_file)
        start = datetime.fromtimestamp(context["data_interval_start"].timestamp(), UTC)
        plan = plan_awaiting_approval(pipeline.tables, pipeline.interval_at(start).id)
        if plan is None:
            raise AirflowSkipException(
                "the plan moves nothing, or was carried out already: there is nothing to approve"
            )
        self.body = plan_in_words(plan)
        return super().execute(context)


def plan_in_words(plan: dict[str, Any]) -> str:
    """A row of `plans` as the Markdown a person decides by."""
    return f"""\
**{plan["reason"]}**

| | now | after |
|---|---|---|
| furthest channel from its fair load, θ | {plan["theta_before"]:.1%} | {plan["theta_after"]:.1%} |
| fullest channel over the mean | {plan["skewness_before"]:.3f} | {plan["skewness_after"]:.3f} |

Moves {plan["moved_keys"]:,} keys, {plan["moved_bytes"]:,.0f} bytes of state ({plan["moved_share"]:.1%} of all); {plan["routes"]:,} keys will have a
route of their own. Plan `{plan["plan_id"]}` by `{plan["planner"]}`. Rejecting fails the run; nothing is moved.
"""
