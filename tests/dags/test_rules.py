"""How Airflow treats the tasks: what is refused, what is retried, what is skipped. The jobs are stand-ins; Airflow is real."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from rebalance.errors import MigrationError, QualityError
from rebalance.pipeline.file import load_pipeline
from rebalance.pipeline.intervals import Interval
from rebalance.storage import control
from rebalance.storage.schemas import SCHEMAS
from tests.dags.conftest import WritePipeline

START = datetime(2026, 1, 1, tzinfo=UTC)
FIRST = Interval(START, START + timedelta(hours=1))
SECOND = FIRST.shifted(1)


@pytest.fixture
def dag(write_pipeline: WritePipeline, airflow: Any, fake_jobs: dict[str, Any], request: pytest.FixtureRequest) -> Any:
    """A pipeline of the test's own name, so that no test meets another's runs."""
    name = f"p{crc32(request.node.name.encode())}"
    write_pipeline(name)
    return airflow.load_dag(f"rebalance_{name}")


def states(dag: Any, interval: Interval) -> dict[str, tuple[str, int]]:
    """State and number of tries of each task of an interval's run."""
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        found = session.scalars(select(TaskInstance).where(TaskInstance.dag_id == dag.dag_id)).all()
        return {ti.task_id: (str(ti.state), ti.try_number) for ti in found if ti.dag_run.logical_date == interval.start}


def test_every_task_is_told_its_interval_and_says_what_it_did(
    airflow: Any, dag: Any, fake_jobs: dict[str, Any]
) -> None:
    fake_jobs["make_plan"] = "keep: all is well"
    told: list[tuple[str, str, str]] = []
    said = airflow.run_interval(dag, FIRST, report=lambda *what: told.append(what))
    assert list(said) == ["process_batch", "collect_stats", "check_quality", "make_plan", "migrate_state"]
    assert said["make_plan"] == "keep: all is well"
    assert told[3] == ("make_plan", "success", "keep: all is well")


def test_a_run_is_recorded_as_the_schedulers_own(airflow: Any, dag: Any) -> None:
    """Otherwise the scheduler would run, or leave out, intervals that were run here."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import select

    for interval in (FIRST, SECOND, FIRST):
        airflow.run_interval(dag, interval)
    with create_session() as session:
        runs = session.scalars(select(DagRun).where(DagRun.dag_id == dag.dag_id).order_by(DagRun.logical_date)).all()
        recorded = [(run.run_type, run.logical_date, run.data_interval_start, run.data_interval_end) for run in runs]
    assert recorded == [("scheduled", i.start, i.start, i.end) for i in (FIRST, SECOND)]


def test_trouble_that_a_retry_cannot_cure_is_not_retried_and_stops_the_run(
    airflow: Any, dag: Any, fake_jobs: dict[str, Any]
) -> None:
    fake_jobs["check_quality"] = QualityError("3 keys are null")
    with pytest.raises(airflow.RunError, match="check_quality: QualityError: 3 keys are null"):
        airflow.run_interval(dag, FIRST)
    assert states(dag, FIRST) == {
        "process_batch": ("success", 1),
        "collect_stats": ("success", 1),
        "check_quality": ("failed", 1),
        "make_plan": ("upstream_failed", 0),
        "migrate_state": ("upstream_failed", 0),
    }


def test_other_trouble_is_retried(airflow: Any, dag: Any, fake_jobs: dict[str, Any]) -> None:
    answers: Iterator[object] = iter([MigrationError("a disk hiccup"), "moved"])
    fake_jobs["migrate_state"] = lambda: next(answers)
    assert airflow.run_interval(dag, FIRST)["migrate_state"] == "moved"
    assert states(dag, FIRST)["migrate_state"] == ("success", 2)


def test_an_interval_is_not_run_after_one_that_failed(airflow: Any, dag: Any, fake_jobs: dict[str, Any]) -> None:
    fake_jobs["process_batch"] = QualityError("bad")
    with pytest.raises(airflow.RunError, match="process_batch"):
        airflow.run_interval(dag, FIRST)
    with pytest.raises(airflow.RunError, match="the interval before, 2026-01-01 00:00, is failed"):
        airflow.run_interval(dag, SECOND)
    fake_jobs.clear()
    airflow.run_interval(dag, FIRST)
    airflow.run_interval(dag, SECOND)


def test_a_run_after_a_failed_one_fails_rather_than_waits(airflow: Any, dag: Any, fake_jobs: dict[str, Any]) -> None:
    """A run that waited for the failed one would hold the only place in which that could be run again."""
    fake_jobs["check_quality"] = QualityError("bad")
    with pytest.raises(airflow.RunError, match="check_quality"):
        airflow.run_interval(dag, FIRST)
    reasons: list[str] = []
    dag.get_task("process_batch").on_failure_callback = [lambda context: reasons.append(str(context["exception"]))]
    run = airflow.run_tasks(dag, SECOND)
    assert run.state == "failed"
    assert "Clear its failed task first, then this one, and unpause the DAG." in reasons[0]


def test_a_run_without_a_data_interval_is_refused_with_a_message(airflow: Any, dag: Any) -> None:
    reasons: list[str] = []
    dag.get_task("process_batch").on_failure_callback = [lambda context: reasons.append(str(context["exception"]))]
    run = dag.test(logical_date=None)
    assert run.state == "failed"
    assert len(reasons) == 1
    assert "this run has no data interval" in reasons[0]


def test_a_data_interval_of_another_length_is_refused(
    write_pipeline: WritePipeline, dag_file: Any, fake_jobs: Any
) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    file = write_pipeline()
    with pytest.raises(AirflowFailException, match=r"before interval\.length was changed"):
        dag_file().run_task("make_plan", str(file), FIRST.start, FIRST.start + timedelta(hours=2))


def test_a_broken_pipeline_files_task_fails_with_what_is_wrong(
    write_pipeline: WritePipeline, airflow: Any, fake_jobs: dict[str, Any]
) -> None:
    write_pipeline("odd", more="[planing]\n")
    dag = airflow.load_dag("rebalance_odd")
    with pytest.raises(airflow.RunError, match="there is no knob 'planing'"):
        airflow.run_interval(dag, FIRST)


def store_plan(file: Path, decision: str) -> None:
    """A plan as make_plan would leave it."""
    row: dict[str, Any] = dict.fromkeys(SCHEMAS["plans"].names)
    row |= {"plan_id": "p", "interval_id": FIRST.id, "base_epoch": 1, "decision": decision, "reason": "because"}
    control.append(load_pipeline(file).tables, "plans", [row])


def test_approval_is_skipped_when_the_plan_moves_nothing(
    write_pipeline: WritePipeline, airflow: Any, fake_jobs: dict[str, Any]
) -> None:
    file = write_pipeline("asking", mode="approve")
    store_plan(file, "keep")
    dag = airflow.load_dag("rebalance_asking")
    run = airflow.run_tasks(dag, FIRST)
    assert run.state == "success"
    assert states(dag, FIRST)["approve_plan"] == ("skipped", 1)
    assert states(dag, FIRST)["migrate_state"] == ("success", 1)


def test_a_run_in_this_process_does_not_wait_for_a_person(
    write_pipeline: WritePipeline, airflow: Any, fake_jobs: dict[str, Any]
) -> None:
    write_pipeline("asking_too", mode="approve")
    dag = airflow.load_dag("rebalance_asking_too")
    with pytest.raises(airflow.RunError, match="waits for a person's approval"):
        airflow.run_interval(dag, FIRST)
    assert "migrate_state" in airflow.run_interval(dag, FIRST, approve=True)


def test_a_plan_awaits_approval_until_it_is_carried_out(write_pipeline: WritePipeline) -> None:
    from rebalance.airflow.approval import plan_in_words
    from rebalance.storage.epochs import publish
    from rebalance.storage.plans import plan_awaiting_approval

    file = write_pipeline("asking", mode="approve")
    root = load_pipeline(file).tables
    assert plan_awaiting_approval(root, FIRST.id) is None
    numbers = {
        "theta_before": 0.5,
        "theta_after": 0.05,
        "skewness_before": 1.5,
        "skewness_after": 1.05,
        "moved_share": 0.01,
    }
    counts = {"moved_keys": 12, "moved_bytes": 3456.0, "routes": 7, "planner": "mixed", "base_epoch": 0}
    row = dict.fromkeys(SCHEMAS["plans"].names) | numbers | counts
    control.append(
        root, "plans", [row | {"plan_id": "p", "interval_id": FIRST.id, "decision": "apply", "reason": "better"}]
    )
    plan = plan_awaiting_approval(root, FIRST.id)
    assert plan is not None
    assert "Moves 12 keys, 3,456 bytes of state (1.0% of all)" in plan_in_words(plan)
    publish(root, None, kind="migrate", interval_id=FIRST.id, function_version=1, state_version=1, plan_id="p")
    assert plan_awaiting_approval(root, FIRST.id) is None
