"""What a person reads in Airflow without opening a log: notes on tasks and runs, and links to the pages. The jobs are stand-ins."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rebalance.errors import QualityError
from rebalance.pipeline.file import load_pipeline
from rebalance.pipeline.intervals import Interval
from tests.dags.conftest import WritePipeline
from tests.dags.test_rules import FIRST, SECOND, recorded
from tests.support.finished import processed

PLAN = {
    "decision": "apply",
    "reason": "θ 0.60 is beyond 0.08",
    "planner": "frugal",
    "moved_keys": 12,
    "moved_bytes": 3456.0,
}


def notes_of(dag: Any, interval: Interval) -> dict[str, str | None]:
    return {task: ti.note for task, ti in recorded(dag, interval)[1].items()}


def test_what_each_task_said_is_its_note_as_soon_as_it_has_ended(
    write_pipeline: WritePipeline, airflow: Any, fake_jobs: dict[str, Any]
) -> None:
    write_pipeline("noted")
    dag = airflow.load_dag("rebalance_noted")
    meanwhile: list[dict[str, str | None]] = []
    fake_jobs["check_quality"] = "9 checks on 200 keys passed"
    fake_jobs["make_plan"] = lambda: meanwhile.append(notes_of(dag, FIRST)) or "apply: better"
    airflow.run_interval(dag, FIRST)
    assert meanwhile[0]["check_quality"] == "9 checks on 200 keys passed"
    assert meanwhile[0]["make_plan"] is None
    assert notes_of(dag, FIRST) == {
        "collect_stats": "collect_stats done",
        "check_quality": "9 checks on 200 keys passed",
        "make_plan": "apply: better",
        "migrate_state": "migrate_state done",
        "process_batch": "process_batch done",
        "planned": None,
    }


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_runs_note_is_its_interval_in_one_line(
    write_pipeline: WritePipeline, airflow: Any, fake_jobs: dict[str, Any], when: str
) -> None:
    pipeline = load_pipeline(write_pipeline(f"summed_{when}", when=when))
    fake_jobs["process_batch"] = lambda: str(processed(pipeline, 0, [2.0, 1.0, 1.0, 1.0], **PLAN))
    dag = airflow.load_dag(pipeline.dag_id)
    airflow.run_interval(dag, FIRST)
    assert recorded(dag, FIRST)[0].note == (
        "5 events; fullest channel 1.00 × the mean by hash → **1.60** reached; 12 keys, 3,456 bytes moved: θ 0.60 is beyond 0.08"
    )


def test_a_persons_own_notes_stay_whatever_becomes_of_the_run(
    write_pipeline: WritePipeline, airflow: Any, fake_jobs: dict[str, Any], api: Callable[[str], Any]
) -> None:
    from airflow.models.dagbag import DBDagBag
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import select

    write_pipeline("own")
    dag = airflow.load_dag("rebalance_own")
    fake_jobs["check_quality"] = QualityError("3 keys are null")
    airflow.run_interval(dag, FIRST)
    ann, run = api("ann"), f"/api/v2/dags/{dag.dag_id}/dagRuns/{recorded(dag, FIRST)[0].run_id}"
    mine = {"note": "I am on it. Ann"}
    for place in (run, f"{run}/taskInstances/collect_stats", f"{run}/taskInstances/check_quality"):
        assert ann.patch(place, json=mine).status_code == 200
    # Airflow's scheduler comes to the end of the run once more, and every step leaves its note once more.
    with create_session() as session:
        stored: Any = DBDagBag().get_latest_version_of_dag(dag.dag_id, session=session)
        stored.clear(run_id=recorded(dag, FIRST)[0].run_id, only_failed=True, session=session)
    with create_session() as session:
        again: Any = session.scalars(select(DagRun).where(DagRun.dag_id == dag.dag_id)).one()
        again.dag = stored
        airflow.finish(dag, again, session)
    assert recorded(dag, FIRST)[0].note == notes_of(dag, FIRST)["collect_stats"] == "I am on it. Ann"


def test_tasks_lead_to_the_interval_on_the_page_and_the_checks_to_their_data_docs(
    write_pipeline: WritePipeline, airflow: Any, fake_jobs: dict[str, Any], api: Callable[[str], Any], tmp_path: Path
) -> None:
    write_pipeline("linked")
    dag = airflow.load_dag("rebalance_linked")
    docs = tmp_path / "tables_linked" / "_quality" / "validations" / "key_stats" / FIRST.id
    for time, outcome in (("20260101T010000.000000Z", "failed"), ("20260101T020000.000000Z", "passed")):
        (docs / time).mkdir(parents=True)
        (docs / time / f"{outcome}.html").touch()
    for interval in (FIRST, SECOND):
        airflow.run_interval(dag, interval)

    def links(interval: Interval, task: str) -> Any:
        run = recorded(dag, interval)[0].run_id
        found = api("vic").get(f"/api/v2/dags/{dag.dag_id}/dagRuns/{run}/taskInstances/{task}/links")
        return found.json()["extra_links"]

    page = f"/rebalance/#/dag/{dag.dag_id}/interval"
    assert links(SECOND, "process_batch") == {"Interval": f"{page}/{SECOND.id}"}
    newest = f"validations/key_stats/{FIRST.id}/20260101T020000.000000Z/passed.html"
    assert links(FIRST, "check_quality") == {
        "Interval": f"{page}/{FIRST.id}",
        "Data Docs": f"/rebalance/docs/{dag.dag_id}/{newest}",
    }
    assert links(SECOND, "check_quality")["Data Docs"] == f"/rebalance/docs/{dag.dag_id}/index.html"
