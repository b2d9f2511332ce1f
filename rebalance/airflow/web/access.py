"""Which pipelines there are, and which run is which interval: Airflow's own records say so.

Every task of a pipeline's DAG has its pipeline file among its arguments, and Airflow keeps these in its database with the DAG. So the
pipelines of any folder are found, however many DAG files call `pipelines()`, and always the file that the tasks themselves read.
Nothing is asked of the API server's environment but that it can reach that file and its tables.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.serialized_dag import SerializedDagModel
from airflow.utils.session import create_session
from fastapi import HTTPException
from sqlalchemy import select

from rebalance.errors import ConfigError, OrderError
from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.pipeline.intervals import parse_start
from rebalance.steps import RESULTS

#: How the ids of all our DAGs begin.
PREFIX = "rebalance_"
#: The only task of the DAG of a pipeline file that cannot be used.
BROKEN = "broken_pipeline_file"


@dataclass(frozen=True)
class Known:
    """A pipeline that Airflow knows: its file, or what is wrong with that."""

    dag_id: str
    file: str = ""
    trouble: str = ""


def known_among(dag_ids: Collection[str]) -> list[Known]:
    """The pipelines among these DAGs, in the order of their ids; the DAGs that maintain or rewind them are none."""
    ours = [dag_id for dag_id in dag_ids if dag_id.startswith(PREFIX)]
    with create_session() as session:
        current = select(DagModel.dag_id).where(DagModel.dag_id.in_(ours), DagModel.is_stale.is_(False))
        records = SerializedDagModel.get_latest_serialized_dags(
            dag_ids=list(session.scalars(current).all()), session=session
        )
        found = [_known(record.dag) for record in sorted(records, key=lambda record: record.dag_id)]
    return [one for one in found if one]


def _known(dag: Any) -> Known | None:
    for task in dag.tasks:
        said = [str(word) for word in getattr(task, "op_args", ())]
        if task.task_id == RESULTS and len(said) == 2 and said[0] == RESULTS:
            return Known(dag.dag_id, file=said[1])
        if task.task_id == BROKEN and said:
            return Known(dag.dag_id, trouble=said[0])
    return None


def pipeline_of(dag_id: str) -> Pipeline:
    """The pipeline of a DAG; 404 with a sentence where it is none."""
    found = known_among([dag_id])
    if not found:
        raise HTTPException(404, f"{dag_id} is not the DAG of a pipeline, so there is nothing to show of it here.")
    return load(found[0])


def load(known: Known) -> Pipeline:
    """The pipeline file that Airflow names for a DAG; refused if it is by now another pipeline's, whose rights are others."""
    if known.trouble:
        raise ConfigError(known.trouble)
    pipeline = load_pipeline(known.file)
    if pipeline.dag_id != known.dag_id:
        raise ConfigError(
            f"{known.file} is the file of {known.dag_id} in Airflow, but describes {pipeline.dag_id} now. Airflow reads it again within a minute."
        )
    return pipeline


def interval_of(pipeline: Pipeline, run_id: str) -> dict[str, Any]:
    """Which interval a run of the pipeline's DAG is for; the id is null where it is for none, with a sentence that says why."""
    with create_session() as session:
        start = session.execute(
            select(DagRun.data_interval_start).where(DagRun.dag_id == pipeline.dag_id, DagRun.run_id == run_id)
        ).one_or_none()
    if start is None:
        raise HTTPException(404, f"{pipeline.dag_id} has no run {run_id}.")
    if start[0] is None:
        return {"interval": None, "why": f"The run {run_id} has no data interval, so it is for no interval."}
    try:
        return {"interval": pipeline.interval_at(start[0]).id, "why": None}
    except OrderError as error:
        return {"interval": None, "why": str(error)}


def runs_of(pipeline: Pipeline, interval_id: str) -> list[dict[str, Any]]:
    """Airflow's runs for an interval with what each task took, newest first."""
    start = parse_start(interval_id)
    with create_session() as session:
        runs = select(DagRun).where(DagRun.dag_id == pipeline.dag_id, DagRun.data_interval_start == start)
        return [_run(run, session) for run in session.scalars(runs.order_by(DagRun.id.desc()))]


def _run(run: Any, session: Any) -> dict[str, Any]:
    tasks = sorted(run.get_task_instances(session=session), key=lambda ti: (ti.start_date is None, ti.start_date))
    return {
        "run_id": run.run_id,
        "state": str(run.state),
        "started": _iso(run.start_date),
        "tasks": [{"task": ti.task_id, "state": str(ti.state or "none"), "seconds": ti.duration} for ti in tasks],
    }


def _iso(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat().replace("+00:00", "Z")
