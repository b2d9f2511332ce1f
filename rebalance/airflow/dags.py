"""The DAGs of pipelines: `rebalance_<pipeline>`, and what belongs to it.

Results never wait for a plan. `process_batch` runs when the tasks that plan are done, whatever became of them, and so does the next
interval. A run whose planning failed is failed nevertheless, with a note that says so (`rebalance.airflow.marks`): a green run would be
overlooked. `process_batch` is the last task and would make it green, so an empty task, `planned`, stands beside it.

No task depends on its past. Only `process_batch` needs the interval before, and with one run at a time a run that waited for a failed
one would hold the only place in which that one could be run again. It refuses instead.

A run begins when its interval has ended. Its first task gives the worker back until the interval's grace has passed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG, CronDataIntervalTimetable, TriggerRule
from airflow.sdk.exceptions import AirflowFailException

from rebalance.airflow.assets import READING, assets_of, source_of
from rebalance.airflow.form import run_form
from rebalance.airflow.operator import DocsLink, IntervalLink, PipelineLink, RebalanceOperator
from rebalance.airflow.page import describe, describe_approval, describe_broken
from rebalance.airflow.tasks import NOTIFIERS, run_task
from rebalance.airflow.upkeep import make_maintain_dag, make_rewind_dag
from rebalance.errors import ConfigError
from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.pipeline.intervals import cron_of
from rebalance.steps import RESULTS, Step, steps_of

#: What every pipeline has beside the DAG of its intervals.
_UPKEEP = (make_maintain_dag, make_rewind_dag)


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
        params=run_form(pipeline),
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
        "owner": pipeline.airflow.owner,
        "pool": pipeline.airflow.pool,
        "retries": pipeline.airflow.retries,
        "retry_delay": timedelta(seconds=pipeline.airflow.retry_delay_seconds),
    }


def make_task(dag: DAG, pipeline: Pipeline, step: Step) -> Any:
    """A step as a task."""
    return RebalanceOperator(
        task_id=step.name,
        dag=dag,
        pipeline=pipeline,
        links=[IntervalLink(), *([DocsLink()] if step.name == "check_quality" else [])],
        python_callable=run_task,
        op_args=[step.name, str(pipeline.file)],
        execution_timeout=timeout_of(pipeline, step),
        inlets=[source_of(pipeline)] if step.name in READING else [],
        outlets=assets_of(pipeline, step.name),
        trigger_rule=TriggerRule.ALL_DONE if step.name == RESULTS else TriggerRule.ALL_SUCCESS,
        doc_md=f"{step.name} {step.about}.",
    )


def timeout_of(pipeline: Pipeline, step: Step) -> timedelta | None:
    """How long a step may take in one try: a planner that hangs must not keep results back for ever."""
    limits = pipeline.airflow
    minutes = limits.results_timeout_minutes if step.name == RESULTS else limits.planning_timeout_minutes
    return None if minutes is None else timedelta(minutes=minutes)


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
    question = ApprovePlan(
        task_id="approve_plan", dag=dag, pipeline=pipeline, doc_md="approve_plan shows a plan and waits for a person."
    )
    question >> RebalanceOperator(
        task_id="record_answer",
        dag=dag,
        pipeline=pipeline,
        links=[PipelineLink()],
        python_callable=record_answer,
        op_args=[str(pipeline.file)],
        doc_md="record_answer stores the answer for exactly the function that was shown; an answer that could have no effect fails.",
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


def make_dags(folder: Path, notify: Sequence[Callable[[Any], object]] = ()) -> dict[str, DAG]:
    """Every pipeline file of a folder as a DAG, whatever is wrong with the others."""
    dags: dict[str, DAG] = {}
    for file in sorted(folder.glob("*.toml")):
        try:
            pipeline = load_pipeline(file)
            made = [make_dag(pipeline), *(make(pipeline, task_defaults(pipeline)) for make in _UPKEEP)]
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
        NOTIFIERS[made[0].dag_id] = notify
    return dags
