"""The DAGs that act on a pipeline's past: `rebalance_<name>_maintain`, once a day, and `rebalance_<name>_rewind`, a form for a person.

Both call what the command line calls. They hold the pipeline's own writer lock, so a run of the pipeline and one of these wait for each
other, and one that has waited too long is retried.
"""

from __future__ import annotations

from typing import Any

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG, Param
from airflow.sdk.exceptions import AirflowFailException

from rebalance.airflow.page import describe_maintain, describe_rewind
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
    )
    PythonOperator(
        task_id="maintain",
        dag=dag,
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
                "",
                type="string",
                pattern=TO,
                title="to",
                description=f"The first interval that is to be run again, UTC: for example {first}.",
            ),
            "undo": Param(
                False,
                type="boolean",
                title="undo",
                description="Instead: take the newest rewind back. Nothing may have run since.",
            ),
        },
    )
    PythonOperator(
        task_id="rewind",
        dag=dag,
        python_callable=run_rewind,
        op_args=[str(pipeline.file)],
        doc_md="rewind makes the function and the state from before an interval active again, or takes that back.",
    )
    return dag


def run_maintain(pipeline_file: str) -> str:
    """What the task `maintain` does; returns what was done, one sentence a line."""
    from rebalance.steps.maintain import maintain

    try:
        return "\n".join(maintain(load_pipeline(pipeline_file)))
    except RebalanceError as error:
        raise _told(error) from None


def run_rewind(pipeline_file: str, params: dict[str, Any]) -> str:
    """What the task `rewind` does; returns what it means."""
    from rebalance.steps.rewind import rewind, undo

    to, back = str(params["to"]), bool(params["undo"])
    if bool(to) == back:
        raise AirflowFailException(
            f"the form has to = {to!r} and undo = {back}: give either an interval or undo. Nothing was changed."
        )
    try:
        pipeline = load_pipeline(pipeline_file)
        return undo(pipeline) if back else rewind(pipeline, pipeline.interval_at(parse_start(to)))
    except RebalanceError as error:
        raise _told(error) from None


def _told(error: RebalanceError) -> Exception:
    """What Airflow should do with it: only what may pass is tried again."""
    return AirflowFailException(f"{type(error).__name__}: {error}") if error.final else error
