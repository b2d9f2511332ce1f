"""Runs of a pipeline's DAG inside this process, on a small Airflow of its own: SQLite, no server, no scheduler.

    prepare(home)                        once, before anything imports airflow
    run_interval(load_dag(id), interval) every task of the interval, in order, with Airflow's own rules and records

The tasks run one after the other in this process and so share its Spark session. `make ui` opens Airflow's pages on the same records.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rebalance.errors import RebalanceError
from rebalance.pipeline.intervals import Interval
from rebalance.steps import RESULTS

PROJECT = Path(__file__).resolve().parents[2]
#: Where the demo and `make ui` keep Airflow's records.
HOME = PROJECT / ".local" / "airflow"

#: What Airflow calls the DAG folder.
BUNDLE = "dags-folder"
#: Seconds between looks at whether a task has become ready.
PAUSE = 0.1

Report = Callable[[str, str, str], None]


class RunError(RebalanceError):
    """A run through Airflow did not succeed; the message names the task and its trouble."""


def airflow_environment(home: Path = HOME, dags: Path = PROJECT / "dags", port: int = 8080) -> dict[str, str]:
    """The settings of our Airflow, as environment variables: everything inside `home`, nothing on the network but this machine."""
    address = f"http://127.0.0.1:{port}"
    return {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{address}/execution/",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(home / "logs"),
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__BASE_URL": address,
        # One person at one machine.
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__CORE__PARALLELISM": "4",
        # Nothing leaves the machine.
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
    }


def prepare(home: Path = HOME, dags: Path = PROJECT / "dags") -> None:
    """Point this process at our Airflow and make its database if there is none."""
    wanted = airflow_environment(home, dags)
    changed = [name for name, value in wanted.items() if os.environ.get(name) != value]
    if "airflow.settings" in sys.modules and changed:
        raise RunError(
            f"airflow is imported already, with other settings: {', '.join(changed)}. Call prepare() before anything imports it."
        )
    os.environ.update(wanted)
    home.mkdir(parents=True, exist_ok=True)
    from airflow.utils import db

    made = home / "made-by"
    version = _airflow_version()
    if not made.exists() or made.read_text() != version:
        db.initdb()
        made.write_text(version)


def _airflow_version() -> str:
    from airflow import __version__

    return str(__version__)


def load_dag(dag_id: str) -> Any:
    """A DAG out of the DAG folder that prepare() was given, recorded in Airflow's database as its DAG processor would."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import BundleDagBag, sync_bag_to_db

    folder = Path(os.environ["AIRFLOW__CORE__DAGS_FOLDER"])
    bag = BundleDagBag(folder, bundle_path=folder, bundle_name=BUNDLE)
    if bag.import_errors:
        raise RunError("; ".join(f"{file}: {error}" for file, error in bag.import_errors.items()))
    dag = bag.dags.get(dag_id)
    if dag is None:
        raise RunError(
            f"there is no DAG {dag_id!r} in {bag.dag_folder}. There are: {', '.join(sorted(bag.dags)) or 'none'}."
        )
    DagBundlesManager().sync_bundles_to_db()  # type: ignore[no-untyped-call]
    sync_bag_to_db(bag, BUNDLE, None)
    return dag


@dataclass
class _Outcomes:
    """What became of each task, told by Airflow's own callbacks."""

    report: Report
    said: dict[str, str] = field(default_factory=dict)

    def succeeded(self, context: Any) -> None:
        ti = context["ti"]
        self._tell(ti.task_id, "success", str(ti.xcom_pull(task_ids=ti.task_id) or "done"))

    def failed(self, context: Any) -> None:
        self._tell(context["ti"].task_id, "failed", str(context.get("exception")))

    def retried(self, context: Any) -> None:
        self._tell(context["ti"].task_id, "up_for_retry", str(context.get("exception")))

    def _tell(self, task: str, state: str, text: str) -> None:
        self.said[task] = text
        self.report(task, state, text)


def run_interval(dag: Any, interval: Interval, *, report: Report = lambda *_: None) -> dict[str, str]:
    """Run all tasks for one interval; returns what each said, raises RunError if there are no results.

    Calls `report(task, state, what it said)` after each task. Run again for the same interval, it replaces Airflow's record of the earlier run.
    """
    _check(dag, interval)
    outcomes = _Outcomes(report)
    for task in dag.tasks:
        task.on_success_callback, task.on_failure_callback, task.on_retry_callback = (
            [outcomes.succeeded],
            [outcomes.failed],
            [outcomes.retried],
        )
    run = run_tasks(dag, interval)
    _write_logs(dag, run, outcomes.said)
    states = {ti.task_id: str(ti.state) for ti in run.get_task_instances()}
    if states.get(RESULTS) != "success":
        failed = [task for task, state in states.items() if state == "failed"]
        reasons = "; ".join(f"{task}: {outcomes.said.get(task, 'no message')}" for task in failed)
        raise RunError(f"{dag.dag_id}, interval {interval}: {reasons or f'the run is {run.state}'}")
    return outcomes.said


def _check(dag: Any, interval: Interval) -> None:
    """Refuse what would only be refused by its first task."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import select

    earlier = (
        select(DagRun)
        .where(DagRun.dag_id == dag.dag_id, DagRun.logical_date < interval.start)
        .order_by(DagRun.logical_date.desc())
        .limit(1)
    )
    with create_session() as session:
        previous = session.scalar(earlier)
        results = previous and previous.get_task_instance(RESULTS, session=session)
        state = results and str(results.state)
        start = previous and previous.data_interval_start
    if state not in (None, "success", "skipped"):
        raise RunError(
            f"{dag.dag_id}: the interval before, {start:%Y-%m-%d %H:%M}, has no results ({RESULTS} is {state}). Run that one again first."
        )


def run_tasks(dag: Any, interval: Interval) -> Any:
    """Create the interval's run as the scheduler would, and run its tasks; returns the run.

    Not by `dag.test()`: that records a manual run whose date is the interval's end, which the scheduler would later take for the next
    interval's own run, and leave that interval out.
    """
    from airflow.utils.session import create_session

    with create_session() as session:
        run = _create_run(dag, interval, session)
        finish(dag, run, session)
    return run


def finish(dag: Any, run: Any, session: Any) -> None:
    """Run the tasks of a run as they become ready, until it has ended."""
    from airflow.utils.state import DagRunState

    states: dict[str, str] = {}
    run.set_state(DagRunState.RUNNING)
    while run.state == DagRunState.RUNNING:
        worked = advance(dag, run, session)
        if not worked and run.state == DagRunState.RUNNING:
            states = _wait(run, states, session)


def advance(dag: Any, run: Any, session: Any) -> bool:
    """Run the tasks of a run that are ready now; returns whether there were any."""
    from airflow.utils.state import TaskInstanceState

    session.expire_all()
    ready, _ = run.update_state(session=session)
    run.schedule_tis(ready, session=session)
    session.commit()
    # Not all that were ready: an empty task is done by now. And others: one that waited for a person was scheduled by the answer.
    scheduled = run.get_task_instances(state=[TaskInstanceState.SCHEDULED], session=session)
    for ti in scheduled:
        _run_task(ti, dag.get_task(ti.task_id), session)
        session.commit()
    return bool(ready or scheduled)


def _create_run(dag: Any, interval: Interval, session: Any) -> Any:
    """The interval's scheduled run, in the place of any that is there already."""
    import pendulum
    from airflow.models.dagbag import DBDagBag
    from airflow.models.dagrun import DagRun
    from airflow.timetables.base import DataInterval
    from airflow.utils.state import DagRunState
    from airflow.utils.types import DagRunTriggeredByType, DagRunType
    from sqlalchemy import select

    same = select(DagRun).where(DagRun.dag_id == dag.dag_id, DagRun.logical_date == interval.start)
    for run in session.scalars(same):
        session.delete(run)
    session.commit()
    start, end = pendulum.instance(interval.start), pendulum.instance(interval.end)
    scheduled: Any = DBDagBag().get_latest_version_of_dag(dag.dag_id, session=session)
    return scheduled.create_dagrun(
        run_id=DagRun.generate_run_id(run_type=DagRunType.SCHEDULED, logical_date=start, run_after=end),
        logical_date=start,
        data_interval=DataInterval(start, end),
        run_after=end,
        run_type=DagRunType.SCHEDULED,
        triggered_by=DagRunTriggeredByType.TIMETABLE,
        state=DagRunState.RUNNING,
        start_date=datetime.now(UTC),
        session=session,
    )


def _run_task(ti: Any, task: Any, session: Any) -> None:
    """Run a task here; Airflow's API, in this process too, records what becomes of it."""
    from airflow.executors.workloads import TaskInstance
    from airflow.sdk.execution_time.supervisor import run_task_in_process
    from airflow.utils.state import TaskInstanceState

    # The API starts nothing that was not queued.
    ti.set_state(TaskInstanceState.QUEUED, session=session)
    session.commit()
    # Which try it is was written past this object.
    session.refresh(ti)
    described: Any = TaskInstance.model_validate(ti, from_attributes=True)
    run_task_in_process(ti=described, task=task)


def _wait(run: Any, before: dict[str, str], session: Any) -> dict[str, str]:
    """Wait a moment for a retry, for an interval's grace, or for a failure to reach later tasks; refuse to wait for what nobody here will do."""
    states = {ti.task_id: str(ti.state) for ti in run.get_task_instances(session=session)}
    if states == before and not {"up_for_retry", "up_for_reschedule"} & set(states.values()):
        raise RunError(f"{run.dag_id}, {run.run_id}: no task can run. Their states are {states}.")
    time.sleep(PAUSE)
    return states


def _write_logs(dag: Any, run: Any, said: dict[str, str]) -> None:
    """Leave each task's last word where Airflow's pages look for its log."""
    logs = Path(os.environ["AIRFLOW__LOGGING__BASE_LOG_FOLDER"])
    for ti in run.get_task_instances():
        if ti.task_id not in said:
            continue
        file = (
            logs
            / f"dag_id={dag.dag_id}"
            / f"run_id={run.run_id}"
            / f"task_id={ti.task_id}"
            / f"attempt={ti.try_number}.log"
        )
        file.parent.mkdir(parents=True, exist_ok=True)
        line = {
            "timestamp": (ti.end_date or datetime.now(UTC)).isoformat(),
            "level": "error" if ti.state == "failed" else "info",
            "event": said[ti.task_id],
            "logger": "rebalance",
        }
        file.write_text(json.dumps(line) + "\n")
