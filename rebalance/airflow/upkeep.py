"""The DAGs that act on a pipeline's past: `rebalance_<name>_maintain`, once a day, and `rebalance_<name>_rewind`, a form for a person.

Both call what the command line calls. They hold the pipeline's own writer lock, so a run of the pipeline and one of these wait for each
other, and one that has waited too long is retried.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, Param
from airflow.sdk.exceptions import AirflowFailException

from rebalance.airflow import SAID
from rebalance.airflow.operator import PipelineLink, RebalanceOperator
from rebalance.airflow.page import describe_maintain, describe_rewind
from rebalance.airflow.tasks import leave
from rebalance.errors import RebalanceError
from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.pipeline.intervals import parse_start

#: An interval as its id or as a date, or nothing at all, for `undo`.
TO = r"^(\d{8}T\d{4}Z|\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2})?(Z|\+00:00)?)?)?$"


def make_maintain_dag(pipeline: Pipeline, defaults: dict[str, Any]) -> DAG:
    """Maintenance as a DAG of one task."""
    when = pipeline.airflow.maintain
    dag = DAG(
        f"{pipeline.dag_id}_maintain",
        description=f"removes what {pipeline.name} needs no more, and tidies its files",
        doc_md=describe_maintain(pipeline),
        schedule=None if when == "none" else when,
        start_date=pipeline.interval.first,
        catchup=False,
        max_active_runs=1,
        tags=["rebalance", "maintain"],
        default_args=defaults,
        params={
            "dry_run": Param(
                False,
                type="boolean",
                title="dry_run",
                description="Only say what would be removed and rewritten, in the task's note; change nothing. Without it, what "
                "[retention] gives up is removed for good. No result, and no row of the state, changes either way.",
            )
        },
    )
    RebalanceOperator(
        task_id="maintain",
        dag=dag,
        pipeline=pipeline,
        links=[PipelineLink()],
        python_callable=run_maintain,
        op_args=[str(pipeline.file)],
        doc_md="maintain removes rows, files and entries of logs that are needed no more, and rewrites state in pieces.",
    )
    return dag


def make_rewind_dag(pipeline: Pipeline, defaults: dict[str, Any]) -> DAG:
    """A rewind as a DAG of one task with a form."""
    first = pipeline.interval_at(pipeline.interval.first).id
    dag = DAG(
        f"{pipeline.dag_id}_rewind",
        description=f"takes {pipeline.name} back to before an interval, so that it and the later ones can run again",
        doc_md=describe_rewind(pipeline),
        schedule=None,
        max_active_runs=1,
        tags=["rebalance", "rewind"],
        default_args=defaults,
        params={
            "to": Param(
                # Not an empty text, which Airflow's form takes for a field that was forgotten.
                None,
                type=["null", "string"],
                pattern=TO,
                title="to",
                description=f"The first interval that is to be run again, UTC: for example {first}. The function and the state of before it "
                "become active at once. Nothing is deleted: results of it and the later intervals stay until these run again, which is "
                f"yours to start: clear their runs of {pipeline.dag_id}, oldest first.",
            ),
            "undo": Param(
                False,
                type="boolean",
                title="undo",
                description="Instead: take the newest rewind back, so that what it undid counts again. Refused if anything has run since.",
            ),
        },
    )
    RebalanceOperator(
        task_id="rewind",
        dag=dag,
        pipeline=pipeline,
        links=[PipelineLink()],
        python_callable=run_rewind,
        op_args=[str(pipeline.file)],
        doc_md="rewind makes the function and the state from before an interval active again, or takes that back.",
    )
    return dag


def run_maintain(pipeline_file: str, params: dict[str, Any], ti: Any = None) -> str:
    """What the task `maintain` does; returns what was done, one sentence a line."""
    from rebalance.steps.maintain import maintain

    try:
        return "\n".join(maintain(load_pipeline(pipeline_file), dry_run=bool(params["dry_run"])))
    except RebalanceError as error:
        raise _told(ti, error) from None


def run_rewind(pipeline_file: str, params: dict[str, Any], ti: Any = None) -> str:
    """What the task `rewind` does; returns what it means."""
    from rebalance.steps.rewind import rewind, undo

    to, back = params["to"] or "", bool(params["undo"])
    if bool(to) == back:
        said = f"the form has to = {to!r} and undo = {back}: give either an interval or undo. Nothing was changed."
        leave(ti, SAID, said)
        raise AirflowFailException(said)
    try:
        pipeline = load_pipeline(pipeline_file)
        return undo(pipeline) if back else rewind(pipeline, pipeline.interval_at(parse_start(to)))
    except RebalanceError as error:
        raise _told(ti, error) from None


def _told(ti: Any, error: RebalanceError) -> Exception:
    """What Airflow should do with it: only what may pass is tried again."""
    said = f"{type(error).__name__}: {error}"
    leave(ti, SAID, said)
    return AirflowFailException(said) if error.final else error
