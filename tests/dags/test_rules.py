"""How Airflow treats the tasks: what is refused, what is retried, what never waits. The jobs are stand-ins; Airflow is real."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from rebalance.errors import MigrationError, PlannerError, QualityError, SourceError
from rebalance.pipeline.intervals import Interval
from rebalance.storage.epochs import publish
from tests.dags.conftest import WritePipeline

PLANNING = ["collect_stats", "check_quality", "make_plan", "migrate_state"]
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
    return {task: (ti.state, ti.try_number) for task, ti in recorded(dag, interval)[1].items()}


def recorded(dag: Any, interval: Interval) -> tuple[Any, dict[str, Any]]:
    """An interval's run and its tasks, with their notes, as Airflow's database has them."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        of_interval = select(DagRun).where(DagRun.dag_id == dag.dag_id, DagRun.logical_date == interval.start)
        run = session.scalars(of_interval).one()
        tasks = {ti.task_id: ti for ti in run.get_task_instances(session=session)}
        for marked in (run, *tasks.values()):
            assert marked.note is None or isinstance(marked.note, str)
        session.expunge_all()
    return run, tasks


def is_paused(dag: Any) -> bool:
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session

    with create_session() as session:
        return bool(session.get(DagModel, dag.dag_id).is_paused)


def unpause(dag: Any) -> None:
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session

    with create_session() as session:
        session.get(DagModel, dag.dag_id).is_paused = False


def test_a_planner_that_hangs_is_given_up_without_a_retry_and_results_are_made(
    write_pipeline: WritePipeline, airflow: Any, fake_jobs: dict[str, Any]
) -> None:
    file = write_pipeline("hanging")
    file.write_text(file.read_text().replace("[airflow]", "[airflow]\nplanning_timeout_minutes = 0.01"))
    dag = airflow.load_dag("rebalance_hanging")
    fake_jobs["make_plan"] = lambda: time.sleep(60)
    said = airflow.run_interval(dag, FIRST)
    assert said["process_batch"] == "process_batch done"
    assert states(dag, FIRST)["make_plan"] == ("failed", 1)
    assert "AirflowTaskTimeout" in recorded(dag, FIRST)[1]["make_plan"].note
    assert dag.get_task("process_batch").execution_timeout is None


def test_every_task_is_told_its_interval_and_says_what_it_did(
    airflow: Any, dag: Any, fake_jobs: dict[str, Any]
) -> None:
    fake_jobs["make_plan"] = "keep: all is well"
    told: list[tuple[str, str, str]] = []
    said = airflow.run_interval(dag, FIRST, report=lambda *what: told.append(what))
    assert list(said) == [*PLANNING, "process_batch"]
    assert said["make_plan"] == "keep: all is well"
    assert told[2] == ("make_plan", "success", "keep: all is well")


def test_a_run_is_recorded_as_the_schedulers_own(airflow: Any, dag: Any) -> None:
    """Otherwise the scheduler would run, or leave out, intervals that were run here."""
    for interval in (FIRST, SECOND, FIRST):
        airflow.run_interval(dag, interval)
    for interval in (FIRST, SECOND):
        run, tasks = recorded(dag, interval)
        assert (run.run_type, run.data_interval_start, run.data_interval_end) == (
            "scheduled",
            interval.start,
            interval.end,
        )
        assert {ti.state for ti in tasks.values()} == {"success"}
        assert (run.state, run.note) == ("success", None)


@pytest.mark.parametrize(
    ("task", "trouble", "tries"),
    [
        ("collect_stats", SourceError("the key is null in 3 events"), 1),
        ("check_quality", QualityError("3 keys are null"), 1),
        ("make_plan", PlannerError("key 7 goes nowhere"), 1),
        ("migrate_state", MigrationError("3 rows are gone"), 2),
        ("make_plan", ZeroDivisionError("division by zero"), 2),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_results_do_not_wait_for_a_plan_that_fails_and_nor_does_the_next_interval(
    airflow: Any, dag: Any, fake_jobs: dict[str, Any], task: str, trouble: Exception, tries: int
) -> None:
    fake_jobs[task] = trouble
    said = airflow.run_interval(dag, FIRST)
    assert f"{type(trouble).__name__}: {trouble}".endswith(said[task].rpartition(": ")[2])
    number = PLANNING.index(task)
    assert states(dag, FIRST) == {
        **dict.fromkeys(PLANNING[:number], ("success", 1)),
        task: ("failed", tries),
        **dict.fromkeys(PLANNING[number + 1 :], ("upstream_failed", 0)),
        "planned": ("upstream_failed", 0),
        "process_batch": ("success", 1),
    }
    fake_jobs.clear()
    airflow.run_interval(dag, SECOND)
    assert {state for state, _ in states(dag, SECOND).values()} == {"success"}


def test_a_run_that_was_not_planned_is_marked_so_that_nobody_overlooks_it(
    airflow: Any, dag: Any, fake_jobs: dict[str, Any]
) -> None:
    fake_jobs["check_quality"] = QualityError("3 keys are null")
    unpause(dag)
    airflow.run_interval(dag, FIRST)
    run, tasks = recorded(dag, FIRST)
    assert run.state == "failed"
    assert run.note == (
        "**Results are complete; the interval was not planned.** `check_quality` failed: QualityError: 3 keys are null"
    )
    assert {task: ti.note for task, ti in tasks.items() if ti.note} == {
        "collect_stats": "collect_stats done",
        "check_quality": "QualityError: 3 keys are null",
        "process_batch": "process_batch done",
    }
    assert not is_paused(dag)


def test_a_mark_is_no_longer_than_airflow_allows(airflow: Any, dag: Any, fake_jobs: dict[str, Any]) -> None:
    fake_jobs["check_quality"] = QualityError("null, " * 1000)
    airflow.run_interval(dag, FIRST)
    run, tasks = recorded(dag, FIRST)
    assert len(run.note) == len(tasks["check_quality"].note) == 1000


def test_the_mark_goes_when_the_run_is_planned_after_all(airflow: Any, dag: Any, fake_jobs: dict[str, Any]) -> None:
    """Cleared by a person, the run is the same one with the same note."""
    from airflow.models.dagbag import DBDagBag
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import select

    fake_jobs["check_quality"] = QualityError("3 keys are null")
    airflow.run_interval(dag, FIRST)
    fake_jobs.clear()
    with create_session() as session:
        stored: Any = DBDagBag().get_latest_version_of_dag(dag.dag_id, session=session)
        stored.clear(run_id=recorded(dag, FIRST)[0].run_id, only_failed=True, session=session)
    with create_session() as session:
        run = session.scalars(select(DagRun).where(DagRun.dag_id == dag.dag_id)).one()
        run.dag = stored
        airflow.finish(dag, run, session)
    run, _ = recorded(dag, FIRST)
    assert (run.state, run.note) == ("success", None)


def test_other_trouble_is_retried(airflow: Any, dag: Any, fake_jobs: dict[str, Any]) -> None:
    answers: Iterator[object] = iter([MigrationError("a disk hiccup"), "moved"])
    fake_jobs["migrate_state"] = lambda: next(answers)
    assert airflow.run_interval(dag, FIRST)["migrate_state"] == "moved"
    assert states(dag, FIRST)["migrate_state"] == ("success", 2)
    run, tasks = recorded(dag, FIRST)
    assert (run.state, run.note, tasks["migrate_state"].note) == ("success", None, "moved")


def test_missing_results_are_noted_and_pause_the_dag(airflow: Any, dag: Any, fake_jobs: dict[str, Any]) -> None:
    unpause(dag)
    fake_jobs["process_batch"] = SourceError("the events are gone")
    with pytest.raises(airflow.RunError, match="process_batch: SourceError: the events are gone"):
        airflow.run_interval(dag, FIRST)
    run, _ = recorded(dag, FIRST)
    assert run.state == "failed"
    assert run.note == (
        "**Results are missing, and the DAG is paused.** `process_batch` failed: SourceError: the events are gone"
    )
    assert is_paused(dag)


def test_an_interval_is_not_run_after_one_without_results(airflow: Any, dag: Any, fake_jobs: dict[str, Any]) -> None:
    fake_jobs["process_batch"] = SourceError("bad")
    with pytest.raises(airflow.RunError, match="process_batch"):
        airflow.run_interval(dag, FIRST)
    with pytest.raises(airflow.RunError, match="the interval before, 2026-01-01 00:00, has no results"):
        airflow.run_interval(dag, SECOND)
    fake_jobs.clear()
    airflow.run_interval(dag, FIRST)
    airflow.run_interval(dag, SECOND)


def test_a_run_after_one_without_results_fails_at_once_rather_than_waits(
    airflow: Any, dag: Any, fake_jobs: dict[str, Any]
) -> None:
    """A run that waited for the failed one would hold the only place in which that could be run again."""
    fake_jobs["process_batch"] = SourceError("bad")
    with pytest.raises(airflow.RunError, match="process_batch"):
        airflow.run_interval(dag, FIRST)
    fake_jobs.clear()
    assert airflow.run_tasks(dag, SECOND).state == "failed"
    _, tasks = recorded(dag, SECOND)
    assert {task: ti.state for task, ti in tasks.items()} == {
        "collect_stats": "failed",
        **dict.fromkeys(["check_quality", "make_plan", "migrate_state", "planned"], "upstream_failed"),
        "process_batch": "failed",
    }
    for task in ("collect_stats", "process_batch"):
        assert "has no results: its process_batch is failed. Clear that task first" in tasks[task].note


def test_results_that_are_in_the_tables_count_whatever_airflow_remembers(
    airflow: Any, dag: Any, fake_jobs: dict[str, Any], tmp_path: Path
) -> None:
    """A person may clear a task that was done, or run it once more and fail: the next interval does not wait for that."""
    fake_jobs["process_batch"] = SourceError("bad")
    with pytest.raises(airflow.RunError, match="process_batch"):
        airflow.run_interval(dag, FIRST)
    fake_jobs.clear()
    root = str(tmp_path / f"tables_{dag.dag_id.removeprefix('rebalance_')}")
    publish(root, None, kind="process", interval_id=FIRST.id, function_version=0, state_version=0)
    assert airflow.run_tasks(dag, SECOND).state == "success"


def test_where_results_come_first_a_failed_plan_fails_the_run_after_them(
    write_pipeline: WritePipeline, airflow: Any, fake_jobs: dict[str, Any]
) -> None:
    write_pipeline("results_first", when="after")
    dag = airflow.load_dag("rebalance_results_first")
    fake_jobs["check_quality"] = QualityError("3 keys are null")
    assert next(iter(airflow.run_interval(dag, FIRST))) == "process_batch"
    run, tasks = recorded(dag, FIRST)
    assert (run.state, tasks["process_batch"].state, tasks["migrate_state"].state) == (
        "failed",
        "success",
        "upstream_failed",
    )
    assert run.note.startswith("**Results are complete; the interval was not planned.** `check_quality` failed")
    fake_jobs.clear()
    airflow.run_interval(dag, SECOND)
    assert recorded(dag, SECOND)[0].state == "success"


def test_a_run_without_a_data_interval_is_refused_with_a_message(airflow: Any, dag: Any) -> None:
    reasons: list[str] = []
    dag.get_task("process_batch").on_failure_callback = [lambda context: reasons.append(str(context["exception"]))]
    run = dag.test(logical_date=None)
    assert run.state == "failed"
    assert len(reasons) == 1, "what no retry can cure is not retried"
    assert "this run has no data interval" in reasons[0]


def test_a_data_interval_of_another_length_is_refused(write_pipeline: WritePipeline, fake_jobs: Any) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    from rebalance.airflow.tasks import run_task

    file = write_pipeline()
    with pytest.raises(AirflowFailException, match=r"before interval\.length was changed"):
        run_task("make_plan", str(file), FIRST.start, FIRST.start + timedelta(hours=2))


def test_a_broken_pipeline_files_task_fails_with_what_is_wrong(
    write_pipeline: WritePipeline, airflow: Any, fake_jobs: dict[str, Any]
) -> None:
    write_pipeline("odd", more="[planing]\n")
    dag = airflow.load_dag("rebalance_odd")
    with pytest.raises(airflow.RunError, match="there is no knob 'planing'"):
        airflow.run_interval(dag, FIRST)
