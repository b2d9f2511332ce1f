"""Airflow DAGs: one `rebalance_<pipeline>` per TOML file in `pipelines/` (or in the folder that REBALANCE_PIPELINES names).

Results never wait for a plan. `process_batch` runs when the tasks that plan are done, whatever became of them, and so does the next
interval. A run whose planning failed is failed nevertheless, with a note that says so (`rebalance.airflow.marks`): a green run would be
overlooked. `process_batch` is the last task and would make it green, so an empty task, `planned`, stands beside it.

No task depends on its past. Only `process_batch` needs the interval before, and with one run at a time a run that waited for a failed
one would hold the only place in which that one could be run again. It refuses instead.

Airflow reads this file every half minute, so it imports neither Spark nor anything else that takes long; the tasks do, when they run.
"""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG, CronDataIntervalTimetable, TriggerRule
from airflow.sdk.exceptions import AirflowFailException

from rebalance.airflow import TROUBLE
from rebalance.airflow.page import describe, describe_approval, describe_broken
from rebalance.errors import ConfigError, OrderError, RebalanceError
from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.pipeline.intervals import Interval, cron_of
from rebalance.steps import RESULTS, Step, run_step, steps_of

PIPELINES = Path(os.environ.get("REBALANCE_PIPELINES") or Path(__file__).parent / "pipelines")


def run_task(
    step: str,
    pipeline_file: str,
    data_interval_start: datetime | None = None,
    data_interval_end: datetime | None = None,
    ti: Any = None,
) -> str:
    """What every task does: its step, for the run's data interval. What goes wrong is left where the run's note is made of it."""
    try:
        pipeline, interval = pipeline_and_interval(pipeline_file, data_interval_start, data_interval_end)
        refuse_without_results_before(ti, pipeline)
        return run_step(step, pipeline, interval)
    except Exception as error:
        said = str(error) if isinstance(error, AirflowFailException) else f"{type(error).__name__}: {error}"
        if ti:
            ti.xcom_push(key=TROUBLE, value=said)
        # Airflow retries every other exception.
        if isinstance(error, RebalanceError) and error.final:
            raise AirflowFailException(said) from None
        raise


def pipeline_and_interval(file: str, start: datetime | None, end: datetime | None) -> tuple[Pipeline, Interval]:
    """The pipeline, and which of its intervals the run's data interval is."""
    if start is None or end is None:
        raise AirflowFailException(
            "this run has no data interval, so there is no telling which events it should process. "
            "Trigger it with a logical date (it processes the last interval that ended by then), or backfill a range of dates."
        )
    pipeline = load_pipeline(file)
    interval = pipeline.interval_at(utc(start))
    if interval.end.timestamp() != end.timestamp():
        raise OrderError(
            f"the run's data interval ends at {end.isoformat()}, but {interval} is an interval of the pipeline. "
            "It was created before interval.length was changed: delete this run and trigger the interval anew."
        )
    return pipeline, interval


def utc(date: datetime) -> datetime:
    """One of Airflow's dates, which are of its own kind, as a plain one."""
    return datetime.fromtimestamp(date.timestamp(), UTC)


def refuse_without_results_before(ti: Any, pipeline: Pipeline) -> None:
    """Fail at once if the run before has no results: this interval would build on state that is not there."""
    before = ti.get_previous_dagrun() if ti else None
    if before is None or before.data_interval_start is None:
        return
    found = ti.get_task_states(dag_id=ti.dag_id, task_ids=[RESULTS], run_ids=[before.run_id])
    state = found.get(before.run_id, {}).get(RESULTS)
    if state == "success":
        return
    # The tables know better: the task may have been cleared, or failed when it was run once more.
    from rebalance.storage.epochs import processed

    if processed(pipeline.tables, pipeline.interval_at(utc(before.data_interval_start)).id) is None:
        raise AirflowFailException(
            f"the run before, {before.run_id}, has no results: its {RESULTS} is {state or 'not run yet'}. "
            "Clear that task first, then the failed ones of this run, and unpause the DAG."
        )


def fail(message: str) -> None:
    """The only task of a broken pipeline file."""
    raise AirflowFailException(message)


def make_dag(pipeline: Pipeline) -> DAG:
    """The five tasks in order; where planning comes first, with an end of its own beside the results."""
    dag = DAG(
        pipeline.dag_id,
        description=f"{pipeline.operator.label} on {pipeline.channels.count} channels, kept balanced by {pipeline.planning.planner}",
        doc_md=describe(pipeline),
        schedule=CronDataIntervalTimetable(cron_of(pipeline.interval.length), timezone="UTC"),
        start_date=pipeline.interval.first,
        catchup=pipeline.airflow.catchup,
        # State is built in the order of time, one interval after the other.
        max_active_runs=1,
        tags=["rebalance", pipeline.planning.planner, pipeline.planning.mode],
        default_args=task_defaults(pipeline),
    )
    tasks = {step.name: make_task(dag, pipeline, step) for step in steps_of(pipeline)}
    row = list(tasks.values())
    for before, after in pairwise(row):
        before >> after
    if pipeline.planning.mode == "approve":
        # It fails with the tasks that plan, as `planned` does.
        tasks["migrate_state"] >> make_question(dag, pipeline)
    elif row[-1].task_id == RESULTS:
        # Fails with the tasks that plan, and the run with it; Airflow starts no process for it.
        tasks["migrate_state"] >> EmptyOperator(
            task_id="planned",
            dag=dag,
            doc_md="planned is green if the interval was planned; if not, the run is failed.",
        )
    return dag


def task_defaults(pipeline: Pipeline) -> dict[str, Any]:
    """What all tasks of a pipeline have in common."""
    return {
        "pool": pipeline.airflow.pool,
        "retries": pipeline.airflow.retries,
        "retry_delay": timedelta(seconds=pipeline.airflow.retry_delay_seconds),
    }


def make_task(dag: DAG, pipeline: Pipeline, step: Step) -> Any:
    """A step as a task."""
    return PythonOperator(
        task_id=step.name,
        dag=dag,
        python_callable=run_task,
        op_args=[step.name, str(pipeline.file)],
        trigger_rule=TriggerRule.ALL_DONE if step.name == RESULTS else TriggerRule.ALL_SUCCESS,
        doc_md=f"{step.name} {step.about}.",
    )


def make_question(dag: DAG, pipeline: Pipeline) -> Any:
    """The task that asks a person about the interval's plan, beside the results, and does not wait for the answer."""
    from rebalance.airflow.approval import AskApproval

    return AskApproval(
        task_id="ask_approval",
        dag=dag,
        pipeline=pipeline,
        doc_md="ask_approval asks a person about the interval's plan and does not wait; it is skipped when there is nothing to ask.",
    )


def make_approve_dag(pipeline: Pipeline) -> DAG:
    """The DAG that asks a person about a plan of the pipeline, and records the answer."""
    from rebalance.airflow.approval import ApprovePlan, approve_dag_id, record_answer

    dag = DAG(
        approve_dag_id(pipeline),
        description=f"asks a person about the plans of {pipeline.name}",
        doc_md=describe_approval(pipeline),
        schedule=None,
        # It only ever asks; paused, it would keep the question to itself.
        is_paused_upon_creation=False,
        tags=["rebalance", pipeline.planning.mode],
        default_args=task_defaults(pipeline),
    )
    question = ApprovePlan(task_id="approve_plan", dag=dag, pipeline=pipeline)
    question >> PythonOperator(
        task_id="record_answer", dag=dag, python_callable=record_answer, op_args=[str(pipeline.file)]
    )
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
            made = [make_dag(pipeline)]
            if pipeline.planning.mode == "approve":
                made.append(make_approve_dag(pipeline))
            taken = [dag.dag_id for dag in made if dag.dag_id in dags]
            if taken:
                raise ConfigError(
                    f"{file.name}: the name {pipeline.name!r} is taken by another pipeline file (there is a DAG {taken[0]} already). "
                    "Choose another name."
                )
        except Exception as error:
            dag_id = "rebalance_" + re.sub(r"\W+", "_", file.stem, flags=re.ASCII).lower()
            made = [make_broken_dag(dag_id if dag_id not in dags else f"{dag_id}_duplicate", file, error)]
        dags.update({dag.dag_id: dag for dag in made})
    return dags


globals().update(make_dags(PIPELINES))
