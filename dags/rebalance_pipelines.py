"""Airflow DAGs: one `rebalance_<pipeline>` per TOML file in `pipelines/` (or in the folder that REBALANCE_PIPELINES names).

Airflow reads this file every half minute, so it imports neither Spark nor anything else that takes long; the tasks do, when they run.
"""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG, CronDataIntervalTimetable, TriggerRule
from airflow.sdk.exceptions import AirflowFailException

from rebalance.airflow.page import describe, describe_broken
from rebalance.errors import ConfigError, OrderError, RebalanceError
from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.pipeline.intervals import cron_of
from rebalance.steps import STEPS, run_step

PIPELINES = Path(os.environ.get("REBALANCE_PIPELINES") or Path(__file__).parent / "pipelines")


def run_task(
    step: str,
    pipeline_file: str,
    data_interval_start: datetime | None = None,
    data_interval_end: datetime | None = None,
    ti: Any = None,
) -> str:
    """What every task does: its step, for the run's data interval."""
    if data_interval_start is None or data_interval_end is None:
        raise AirflowFailException(
            "this run has no data interval, so there is no telling which events it should process. "
            "Trigger it with a logical date (it processes the last interval that ended by then), or backfill a range of dates."
        )
    if step == "process_batch":
        refuse_after_a_failed_run(ti)
    try:
        # Airflow's dates are of its own kind.
        start = datetime.fromtimestamp(data_interval_start.timestamp(), UTC)
        pipeline = load_pipeline(pipeline_file)
        interval = pipeline.interval_at(start)
        if interval.end.timestamp() != data_interval_end.timestamp():
            raise OrderError(
                f"the run's data interval ends at {data_interval_end.isoformat()}, but {interval} is an interval of the pipeline. "
                "It was created before interval.length was changed: delete this run and trigger the interval anew."
            )
        return run_step(step, pipeline, interval)
    except RebalanceError as error:
        if not error.final:
            raise
        # Airflow retries every other exception.
        raise AirflowFailException(f"{type(error).__name__}: {error}") from None


def refuse_after_a_failed_run(ti: Any) -> None:
    """Fail rather than start a run that cannot end.

    A later task of it would wait for the failed one of the run before, and as only one run is active at a time, the run
    before could not be run again either.
    """
    before = ti.get_previous_dagrun() if ti else None
    if before is not None and before.state == "failed":
        raise AirflowFailException(
            f"the run before, {before.run_id}, failed. Clear its failed task first, then this one, and unpause the DAG."
        )


def fail(message: str) -> None:
    """The only task of a broken pipeline file."""
    raise AirflowFailException(message)


def make_dag(pipeline: Pipeline) -> DAG:
    """The five tasks in order; with a person's approval before the last one if the pipeline asks for it."""
    dag = DAG(
        pipeline.dag_id,
        description=f"{pipeline.operator.name or 'own operator'} on {pipeline.channels.count} channels, kept balanced by {pipeline.planning.planner}",
        doc_md=describe(pipeline),
        schedule=CronDataIntervalTimetable(cron_of(pipeline.interval.length), timezone="UTC"),
        start_date=pipeline.interval.first,
        catchup=pipeline.airflow.catchup,
        # State is built in the order of time, one interval after the other.
        max_active_runs=1,
        # A failed run pauses the DAG: the next one would only wait for it.
        max_consecutive_failed_dag_runs=1,
        tags=["rebalance", pipeline.planning.planner, pipeline.planning.mode],
        default_args={
            "depends_on_past": True,
            "pool": pipeline.airflow.pool,
            "retries": pipeline.airflow.retries,
            "retry_delay": timedelta(seconds=pipeline.airflow.retry_delay_seconds),
        },
    )
    previous: Any = None
    for step in STEPS:
        task = PythonOperator(
            task_id=step.name,
            dag=dag,
            python_callable=run_task,
            op_args=[step.name, str(pipeline.file)],
            doc_md=f"{step.name} {step.about}.",
        )
        if step.name == "migrate_state" and pipeline.planning.mode == "approve":
            from rebalance.airflow.approval import ApprovePlan

            approval = ApprovePlan(task_id="approve_plan", dag=dag, pipeline_file=str(pipeline.file))
            previous = previous >> approval
            # Approved, or skipped because there was nothing to approve.
            task.trigger_rule = TriggerRule.NONE_FAILED
        previous = previous >> task if previous else task
    return dag


def make_broken_dag(dag_id: str, file: Path, error: Exception) -> DAG:
    """A stand-in that shows what is wrong with a pipeline file and takes nothing else down."""
    message = str(error) if isinstance(error, ConfigError) else f"{file.name}: {type(error).__name__}: {error}"
    dag = DAG(
        dag_id,
        description=f"{file.name} cannot be used",
        doc_md=describe_broken(str(file), message),
        schedule=None,
        tags=["rebalance", "broken"],
    )
    PythonOperator(task_id="broken_pipeline_file", dag=dag, python_callable=fail, op_args=[message])
    return dag


def make_dags(folder: Path) -> dict[str, DAG]:
    """Every pipeline file of a folder as a DAG, whatever is wrong with the others."""
    dags: dict[str, DAG] = {}
    for file in sorted(folder.glob("*.toml")):
        try:
            pipeline = load_pipeline(file)
            if pipeline.dag_id in dags:
                raise ConfigError(
                    f"{file.name}: the name {pipeline.name!r} is taken by another pipeline file. Choose another name."
                )
            dag = make_dag(pipeline)
        except Exception as error:
            dag_id = "rebalance_" + re.sub(r"\W+", "_", file.stem, flags=re.ASCII).lower()
            dag = make_broken_dag(dag_id if dag_id not in dags else f"{dag_id}_duplicate", file, error)
        dags[dag.dag_id] = dag
    return dags


globals().update(make_dags(PIPELINES))
