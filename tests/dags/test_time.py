"""Time in a real Airflow: runs wait for their grace without a worker, and what is not its turn is refused. The steps look whose turn it is and publish, without work."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from zlib import crc32

import pytest

from rebalance.airflow import tasks
from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.pipeline.intervals import Interval
from rebalance.steps import RESULTS, Insist, turn
from rebalance.storage.epochs import all_epochs, current_epoch, processed_ids, publish
from tests.dags.conftest import WritePipeline
from tests.dags.test_rules import FIRST, SECOND, is_paused, recorded, states, unpause

FOURTH = FIRST.shifted(3)


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, datetime]]:
    """The steps that ran, and when."""
    done: list[tuple[str, datetime]] = []

    def function_of(name: str) -> Callable[..., str]:
        def step(pipeline: Pipeline, interval: Interval, insist: Insist) -> str:
            with turn.its_turn(pipeline, interval, insist):
                done.append((name, datetime.now(UTC)))
                epoch = current_epoch(pipeline.tables)
                if name == RESULTS and interval.id not in processed_ids(pipeline.tables):
                    missing = turn.missing_before(pipeline, interval, epoch)
                    publish(
                        pipeline.tables,
                        epoch,
                        kind="process",
                        interval_id=interval.id,
                        function_version=0,
                        state_version=-1,
                        skipped_from=interval.shifted(-missing).id if missing else "",
                    )
            return f"{name} done"

        return step

    monkeypatch.setattr("rebalance.steps.function_of", function_of)
    return done


@pytest.fixture
def pipeline(write_pipeline: WritePipeline, request: pytest.FixtureRequest) -> Pipeline:
    return load_pipeline(write_pipeline(f"p{crc32(request.node.name.encode())}"))


@pytest.fixture
def dag(airflow: Any, pipeline: Pipeline, ran: Any) -> Any:
    dag = airflow.load_dag(pipeline.dag_id)
    unpause(dag)
    return dag


def trigger(airflow: Any, dag: Any, date: datetime, **conf: object) -> Any:
    """A run by hand, as Airflow's API makes it of a logical date and what was said in the form; returns it when it has ended."""
    import pendulum
    from airflow.models.dagbag import DBDagBag
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState
    from airflow.utils.types import DagRunTriggeredByType, DagRunType

    with create_session() as session:
        known: Any = DBDagBag().get_latest_version_of_dag(dag.dag_id, session=session)
        run = known.create_dagrun(
            run_id=f"manual__{date.isoformat()}",
            logical_date=pendulum.instance(date),
            data_interval=known.timetable.infer_manual_data_interval(run_after=pendulum.instance(date)),
            run_after=pendulum.instance(date),
            run_type=DagRunType.MANUAL,
            triggered_by=DagRunTriggeredByType.TEST,
            state=DagRunState.RUNNING,
            conf=conf,
            start_date=datetime.now(UTC),
            session=session,
        )
        airflow.finish(dag, run, session)
        assert run.note is None or isinstance(run.note, str)
    return run


def early_at_first(monkeypatch: pytest.MonkeyPatch, when: Callable[[], bool] = lambda: True) -> list[datetime]:
    """A clock by which the first interval is closed a second after it was first asked, once `when` holds; returns when it was asked."""
    asked: list[datetime] = []

    def now() -> datetime:
        if not when():
            return datetime.now(UTC)
        asked.append(datetime.now(UTC))
        return FIRST.end + timedelta(minutes=10) - timedelta(seconds=1) + (asked[-1] - asked[0])

    monkeypatch.setattr(turn, "now", now)
    return asked


def reschedules(dag: Any) -> list[str]:
    """The tasks that have given their worker back."""
    from airflow.models.taskinstance import TaskInstance
    from airflow.models.taskreschedule import TaskReschedule
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        found = select(TaskInstance.task_id).join(TaskReschedule, TaskReschedule.ti_id == TaskInstance.id)
        return list(session.scalars(found.where(TaskInstance.dag_id == dag.dag_id)))


def test_a_run_waits_for_the_grace_without_a_worker_and_without_a_retry(
    airflow: Any, dag: Any, ran: list[tuple[str, datetime]], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = early_at_first(monkeypatch)
    airflow.run_interval(dag, FIRST)
    assert [step for step, _ in ran] == ["collect_stats", "check_quality", "make_plan", "migrate_state", RESULTS]
    assert ran[0][1] >= asked[0] + timedelta(seconds=1)
    assert reschedules(dag) == ["collect_stats"], "it began, saw that it was too early, and left its worker"
    assert {state for state in states(dag, FIRST).values() if state != ("success", 0)} == {("success", 1)}


def test_a_clock_that_jumps_back_delays_the_next_task_and_nothing_else(
    airflow: Any, dag: Any, pipeline: Pipeline, ran: list[tuple[str, datetime]], monkeypatch: pytest.MonkeyPatch
) -> None:
    early_at_first(monkeypatch, lambda: len(ran) >= 2)
    airflow.run_interval(dag, FIRST)
    assert reschedules(dag) == ["make_plan"]
    assert [step for step, _ in ran] == ["collect_stats", "check_quality", "make_plan", "migrate_state", RESULTS]
    assert processed_ids(pipeline.tables) == [FIRST.id]


def test_a_run_by_hand_of_an_interval_that_has_not_ended_is_refused_and_stops_nothing_else(
    airflow: Any, dag: Any, pipeline: Pipeline, ran: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn, "now", lambda: FIRST.start + timedelta(minutes=30))
    refused = trigger(airflow, dag, FIRST.end + timedelta(minutes=1))
    assert (refused.state, ran, is_paused(dag)) == ("failed", [], False)
    assert refused.note.startswith("**This run was refused and has changed nothing; scheduled runs go on.**")
    assert "NotClosedError: interval 20260101T0000Z is not closed" in refused.note
    assert trigger(airflow, dag, FIRST.end + timedelta(minutes=2), now=True).state == "success"
    assert processed_ids(pipeline.tables) == [FIRST.id]


def test_a_later_date_triggered_by_hand_is_refused_with_what_is_missing_unless_it_is_meant(
    airflow: Any, dag: Any, pipeline: Pipeline
) -> None:
    airflow.run_interval(dag, FIRST)
    refused = trigger(airflow, dag, FOURTH.end + timedelta(minutes=1))
    assert (refused.state, is_paused(dag)) == ("failed", False)
    assert "missing before it are 20260101T0100Z, 20260101T0200Z." in refused.note
    assert processed_ids(pipeline.tables) == [FIRST.id]

    assert trigger(airflow, dag, FOURTH.end + timedelta(minutes=2), skip=True).state == "success"
    assert processed_ids(pipeline.tables) == [FIRST.id, FOURTH.id]
    assert all_epochs(pipeline.tables)[-1].skipped_from == SECOND.id

    # The scheduler comes to the intervals that were left out, and to the one that was run, all the same.
    for interval in (SECOND, FIRST.shifted(2), FOURTH):
        assert airflow.run_tasks(dag, interval).state == "success"
    assert {state for state, _ in states(dag, SECOND).values()} == {"skipped"}
    assert recorded(dag, SECOND)[0].note.startswith(f"interval {SECOND.id} was left out on purpose")
    assert {state for state, _ in states(dag, FOURTH).values()} == {"success"}
    airflow.run_interval(dag, FOURTH.shifted(1))
    assert processed_ids(pipeline.tables)[2:] == [FOURTH.shifted(1).id]
    assert not is_paused(dag)


def test_an_interval_whose_events_are_gone_for_good_can_be_left_out(
    airflow: Any, dag: Any, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rebalance import steps
    from rebalance.errors import SourceError

    good = steps.function_of

    def bad(name: str) -> Callable[..., str]:
        def step(*_: object) -> str:
            raise SourceError("the events are gone")

        return step

    monkeypatch.setattr(steps, "function_of", bad)
    with pytest.raises(airflow.RunError, match="the events are gone"):
        airflow.run_interval(dag, FIRST)
    assert is_paused(dag)
    monkeypatch.setattr(steps, "function_of", good)
    assert airflow.run_tasks(dag, SECOND).state == "failed"
    assert "trigger a run of this one's by hand, with `skip`" in recorded(dag, SECOND)[1][RESULTS].note
    assert trigger(airflow, dag, SECOND.end + timedelta(minutes=1), skip=True).state == "success"
    assert airflow.run_tasks(dag, SECOND).state == "success"
    assert processed_ids(pipeline.tables) == [SECOND.id]


def test_without_catching_up_the_scheduler_s_runs_leave_out_what_was_missed_and_nobody_else_s_do(
    airflow: Any, pipeline: Pipeline, ran: Any
) -> None:
    text = pipeline.file.read_text()
    pipeline.file.write_text(text.replace("[airflow]", "[airflow]\ncatchup = false"))
    dag = airflow.load_dag(pipeline.dag_id)
    airflow.run_interval(dag, SECOND)
    assert trigger(airflow, dag, FIRST.shifted(6).end + timedelta(minutes=1)).state == "failed"
    airflow.run_interval(dag, FOURTH)
    assert [(e.interval_id, e.skipped_from) for e in all_epochs(pipeline.tables)] == [
        (SECOND.id, FIRST.id),
        (FOURTH.id, FIRST.shifted(2).id),
    ]


def backfill(ann: Any, dag: Any, max_active_runs: int) -> None:
    """The first four intervals, as the form of Airflow's UI asks for them."""
    asked = {
        "dag_id": dag.dag_id,
        "from_date": FIRST.start.isoformat(),
        "to_date": FOURTH.start.isoformat(),
        "max_active_runs": max_active_runs,
        "run_on_latest_version": True,
    }
    assert ann.post("/api/v2/backfills", json=asked).status_code == 200


def work_as_the_scheduler(airflow: Any, dag: Any) -> int:
    """Start runs by Airflow's own rules and work on all that are at work, the newest first; returns how many were at once."""
    from airflow.jobs.job import Job
    from airflow.jobs.scheduler_job_runner import SchedulerJobRunner
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import select

    most, scheduler = 0, SchedulerJobRunner(Job())
    at_work = select(DagRun).where(DagRun.dag_id == dag.dag_id, DagRun.state == "running")
    with create_session() as session:
        while True:
            scheduler._start_queued_dagruns(session)
            session.commit()
            runs = session.scalars(at_work.order_by(DagRun.logical_date.desc())).all()
            most = max(most, len(runs))
            if not runs:
                return most
            for run in runs:
                run.dag = scheduler.scheduler_dag_bag.get_dag_for_run(run, session=session)
                airflow.advance(dag, run, session)


@pytest.mark.parametrize("at_once", [1, 3])
def test_a_backfill_processes_its_intervals_in_order_however_many_runs_it_has_at_once(
    airflow: Any,
    dag: Any,
    pipeline: Pipeline,
    api: Callable[[str], Any],
    monkeypatch: pytest.MonkeyPatch,
    at_once: int,
) -> None:
    """The DAG's own limit of one active run does not hold for backfills."""
    monkeypatch.setattr(tasks, "NEXT_LOOK", timedelta(0))
    backfill(api("ann"), dag, at_once)
    assert work_as_the_scheduler(airflow, dag) == at_once
    four = [FIRST.shifted(number) for number in range(4)]
    assert [epoch.interval_id for epoch in all_epochs(pipeline.tables)] == [interval.id for interval in four]
    for interval in four:
        run, _ = recorded(dag, interval)
        assert (run.run_type, run.state) == ("backfill", "success")
        assert {state for task, state in states(dag, interval).items() if task != "planned"} == {("success", 1)}
    assert bool(reschedules(dag)) is (at_once > 1), "they wait for the run before, without a worker and without a retry"
