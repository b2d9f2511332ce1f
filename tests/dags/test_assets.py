"""What other DAGs, people and dashboards learn from a run: assets with what they are about, alerts, metrics. The steps are stand-ins."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rebalance.airflow.assets import WRITTEN
from rebalance.errors import PlannerError
from rebalance.pipeline.file import load_pipeline
from rebalance.steps import STEPS
from rebalance.storage.epochs import publish
from rebalance.storage.schemas import SCHEMAS
from tests.dags.conftest import WritePipeline
from tests.dags.test_rules import FIRST, states
from tests.support.finished import processed
from tests.support.listening import statsd, webhook

DAG_FILE = """\
import json
from datetime import datetime
from pathlib import Path

from airflow.sdk import DAG, task
from rebalance.airflow import asset, pipelines

globals().update(pipelines({pipelines!r}, notify=[lambda context: Path({told!r}).write_text(
    context["alert"].message + " in " + context["run_id"])]))

with DAG("reader_of_" + {name!r}, schedule=[asset({file!r})], is_paused_upon_creation=False) as reader:

    @task
    def read(triggering_asset_events):
        events = [event for found in triggering_asset_events.values() for event in found]
        Path({read!r}).write_text(json.dumps([event.extra for event in events]))

    read()
"""


@pytest.fixture
def folder(airflow: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A DAG folder of somebody's own."""
    folder = tmp_path / "dags"
    folder.mkdir()
    monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", str(folder))
    return folder


def write_dag_file(folder: Path, pipeline_file: Path) -> Path:
    """The DAGs of all pipelines with a notifier, and a DAG that runs on new results; returns where both leave what they learn."""
    place = folder.parent
    text = DAG_FILE.format(
        pipelines=str(pipeline_file.parent),
        file=str(pipeline_file),
        name=pipeline_file.stem,
        told=str(place / "told"),
        read=str(place / "read"),
    )
    (folder / "own.py").write_text(text)
    return place


def run_triggered(airflow: Any, dag_id: str) -> None:
    """Let Airflow's scheduler make the runs that assets ask for, and run the one of this DAG."""
    from airflow.jobs.job import Job
    from airflow.jobs.scheduler_job_runner import SchedulerJobRunner
    from airflow.models.dag import DagModel
    from airflow.models.dagbag import DBDagBag
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import select

    dag = airflow.load_dag(dag_id)
    with create_session() as session:
        scheduler = SchedulerJobRunner(Job())
        scheduler._create_dag_runs_asset_triggered(dag_models=[session.get(DagModel, dag_id)], session=session)
        session.commit()
        run = session.scalars(select(DagRun).where(DagRun.dag_id == dag_id)).one()
        run.dag = DBDagBag().get_latest_version_of_dag(dag_id, session=session)
        airflow.finish(dag, run, session)


def test_a_dag_that_is_scheduled_on_results_runs_and_learns_interval_epoch_and_versions(
    airflow: Any, write_pipeline: WritePipeline, fake_jobs: dict[str, Any], folder: Path
) -> None:
    file = write_pipeline("read")
    place, root = write_dag_file(folder, file), load_pipeline(file).tables

    def process() -> str:
        publish(root, None, kind="process", interval_id=FIRST.id, function_version=3, state_version=7)
        return "done"

    fake_jobs["process_batch"] = process
    airflow.run_interval(airflow.load_dag("rebalance_read"), FIRST)
    run_triggered(airflow, "reader_of_read")
    (extra,) = json.loads((place / "read").read_text())
    assert extra == {
        "pipeline": "read",
        "step": "process_batch",
        "interval": FIRST.id,
        "interval_start": "2026-01-01T00:00:00+00:00",
        "interval_end": "2026-01-01T01:00:00+00:00",
        "version": -1,
        "epoch": 0,
        "function_version": 3,
        "state_version": 7,
    }


def test_what_needs_a_person_reaches_webhook_and_notifiers_after_the_last_try_only(
    airflow: Any,
    write_pipeline: WritePipeline,
    fake_jobs: dict[str, Any],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with webhook() as hook:
        monkeypatch.setenv("ALERTS_URL", hook.url)
        place = write_dag_file(folder, write_pipeline("told", more='[alerts]\nwebhook = "$ALERTS_URL"\n'))
        dag = airflow.load_dag("rebalance_told")
        fake_jobs["collect_stats"] = ZeroDivisionError("division by zero")
        airflow.run_interval(dag, FIRST)
        assert [(post["step"], post["message"]) for post in hook.posted] == [
            ("collect_stats", "ZeroDivisionError: division by zero")
        ], "tried twice, told once"
        assert (place / "told").read_text().startswith("ZeroDivisionError: division by zero in scheduled__2026-01-01")
        fake_jobs.update(collect_stats="fine", make_plan=PlannerError("key 7 goes nowhere"))
        airflow.run_interval(dag, FIRST)
        assert [post["step"] for post in hook.posted] == ["collect_stats", "make_plan"]


def test_loads_moved_bytes_and_seconds_reach_airflows_metrics(
    airflow: Any, write_pipeline: WritePipeline, fake_jobs: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.sdk._shared.observability.metrics.base_stats_logger import NoStatsLogger
    from airflow.sdk.observability import stats
    from airflow.sdk.observability.metrics import stats_utils

    pipeline = load_pipeline(write_pipeline("measured"))
    plan = {"decision": "apply", "reason": "better", "skewness_after": 1.25, "moved_bytes": 4096.0}
    fake_jobs["process_batch"] = lambda: str(processed(pipeline, 0, [2.0, 1.0, 1.0, 1.0], **plan))
    dag = airflow.load_dag("rebalance_measured")
    with statsd() as (port, lines):
        for name, value in {"ON": "True", "HOST": "127.0.0.1", "PORT": str(port)}.items():
            monkeypatch.setenv(f"AIRFLOW__METRICS__STATSD_{name}", value)
        client = stats_utils.get_stats_factory()()
        stats.initialize(factory=lambda: client, export_legacy_names=False)
        try:
            airflow.run_interval(dag, FIRST)
        finally:
            client.statsd.close()
            stats.initialize(factory=NoStatsLogger, export_legacy_names=False)
        found = dict(line.split(":", 1) for line in lines() if line.startswith("airflow.rebalance."))
    own = "airflow.rebalance.measured"
    assert {f"{own}.{step.name}.seconds" for step in STEPS} <= found.keys()
    assert found[f"{own}.max_over_mean.hash"] == "1.0|g"
    assert found[f"{own}.max_over_mean.planned"] == "1.25|g"
    assert found[f"{own}.max_over_mean.reached"] == "1.6|g"
    assert found[f"{own}.bytes_moved"] == "4096.0|g"


def test_every_table_that_a_step_writes_is_an_asset_of_its_task(write_pipeline: WritePipeline, dag_file: Any) -> None:
    write_pipeline("assets")
    tasks = dag_file().rebalance_assets.task_dict
    assert {step: [asset.name for asset in tasks[step].outlets] for step in WRITTEN} == {
        step: [f"rebalance_assets.{table}" for table in tables] for step, tables in WRITTEN.items()
    }
    assert {table for tables in WRITTEN.values() for table in tables} == SCHEMAS.keys() - {
        "approvals",
        "key_costs",
        "key_sums",
        "late_events",
        "quarantine",
        "slot_stats",
    }


def test_the_lineage_begins_at_the_source_and_two_pipelines_may_read_the_same_one(
    airflow: Any, write_pipeline: WritePipeline, fake_jobs: dict[str, Any], api: Callable[[str], Any]
) -> None:
    """Airflow fails tasks whose asset has the address of another asset."""
    for name in ("left", "right"):
        write_pipeline(name)
    for name in ("left", "right"):
        dag = airflow.load_dag(f"rebalance_{name}")
        airflow.run_interval(dag, FIRST)
        assert {state for state, _ in states(dag, FIRST).values()} == {"success"}
    found = api("vic").get("/api/v2/assets", params={"name_pattern": "rebalance_left.", "limit": 50}).json()["assets"]
    assets = {asset["name"].partition(".")[2]: asset for asset in found}
    assert [task["task_id"] for task in assets["source"]["consuming_tasks"]] == ["collect_stats", "process_batch"]
    assert [task["task_id"] for task in assets["results"]["producing_tasks"]] == ["process_batch"]
    assert assets["source"]["uri"].endswith("/events?read_by=rebalance_left")
