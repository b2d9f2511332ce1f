"""Runs of a pipeline's DAG inside this process, on a small Airflow of its own: SQLite, no server, no scheduler.

    prepare(home)                        once, before anything imports airflow
    run_interval(load_dag(id), interval) every task of the interval, in order, with Airflow's own rules and records

The tasks run one after the other in this process and so share its Spark session. `make ui` opens Airflow's pages on the same records.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

from rebalance.errors import RebalanceError
from rebalance.pipeline.intervals import Interval

PROJECT = Path(__file__).resolve().parents[2]
#: Where the demo and `make ui` keep Airflow's records.
HOME = PROJECT / ".local" / "airflow"

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
    """A DAG out of the DAG folder that prepare() was given."""
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(os.environ["AIRFLOW__CORE__DAGS_FOLDER"])
    if bag.import_errors:
        raise RunError("; ".join(f"{file}: {error}" for file, error in bag.import_errors.items()))
    dag = bag.dags.get(dag_id)
    if dag is None:
        raise RunError(
            f"there is no DAG {dag_id!r} in {bag.dag_folder}. There are: {', '.join(sorted(bag.dags)) or 'none'}."
        )
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


def run_interval(
    dag: Any, interval: Interval, *, approve: bool = False, report: Report = lambda *_: None
) -> dict[str, str]:
    """Run all tasks for one interval; returns what each did, raises RunError if one failed.

    Calls `report(task, state, what it said)` after each task. With `approve`, a task that would wait for a person counts as approved.
    Run again for the same interval, it replaces Airflow's record of the earlier run.
    """
    from airflow.utils.state import DagRunState

    _check(dag, interval, approve)
    outcomes = _Outcomes(report)
    for task in dag.tasks:
        task.on_success_callback, task.on_failure_callback, task.on_retry_callback = (
            [outcomes.succeeded],
            [outcomes.failed],
            [outcomes.retried],
        )
    with _as_scheduled(interval):
        run = dag.test(
            logical_date=interval.start,
            run_after=interval.end,
            mark_success_pattern="approve_plan" if approve else None,
        )
    _write_logs(dag, run, outcomes.said)
    if run.state != DagRunState.SUCCESS:
        failed = [ti.task_id for ti in run.get_task_instances() if ti.state == "failed"]
        reasons = "; ".join(f"{task}: {outcomes.said.get(task, 'no message')}" for task in failed)
        raise RunError(f"{dag.dag_id}, interval {interval}: {reasons or f'the run is {run.state}'}")
    return outcomes.said


def _check(dag: Any, interval: Interval, approve: bool) -> None:
    """Refuse what would wait for ever, since nothing else runs beside us."""
    if dag.has_task("approve_plan") and not approve:
        raise RunError(
            f"{dag.dag_id} waits for a person's approval, which an in-process run cannot ask for. Run it in Airflow, or approve beforehand."
        )
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
        state = previous and str(previous.state)
        start = previous and previous.data_interval_start
    if state not in (None, "success"):
        raise RunError(
            f"{dag.dag_id}: the interval before, {start:%Y-%m-%d %H:%M}, is {state}, and tasks depend on the past. Run that one again first."
        )


@contextmanager
def _as_scheduled(interval: Interval) -> Iterator[None]:
    """Let dag.test() record the run as the scheduler would.

    By itself it records a manual run whose date is the interval's end; the scheduler would later take that for the next
    interval's own run and leave that interval out.
    """

    def create(*, dag: Any, session: Any, **given: Any) -> Any:
        import pendulum
        from airflow.models.dagrun import DagRun
        from airflow.timetables.base import DataInterval
        from airflow.utils.types import DagRunType
        from sqlalchemy import select

        same = select(DagRun).where(DagRun.dag_id == dag.dag_id, DagRun.logical_date == interval.start)
        for run in session.scalars(same):
            session.delete(run)
        session.commit()
        given.update(
            data_interval=DataInterval(pendulum.instance(interval.start), pendulum.instance(interval.end)),
            run_id=DagRun.generate_run_id(
                run_type=DagRunType.SCHEDULED, logical_date=interval.start, run_after=interval.end
            ),
            run_type=DagRunType.SCHEDULED,
            start_date=datetime.now(UTC),
        )
        return dag.create_dagrun(state="running", session=session, **given)

    with patch("airflow.models.dagrun.get_or_create_dagrun", create):
        yield


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
