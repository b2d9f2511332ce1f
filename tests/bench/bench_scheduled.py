"""What an interval costs as people run it: a real scheduler, LocalExecutor, five tasks that are processes of their own, a warm JVM.

    python -m tests.bench.bench_scheduled [--intervals 5] [--events 20000] [--warm 10]

Airflow is started as `make ui` starts it, with Airflow's own defaults for its scheduler. The DAG is unpaused and catches up on the intervals, one
run after the other. All figures are Airflow's records: an interval is the time from the start of its run to the end of `process_batch`, a
task's seconds are from its start to its end, and waiting is what is left between them.
"""

# ruff: noqa: T201 - a table for a person at a terminal

from __future__ import annotations

import argparse
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rebalance.demo.events import write_trades
from rebalance.pipeline.intervals import Interval
from rebalance.simulate.workload import Workload
from rebalance.spark.warm import FOLDER_VARIABLE
from rebalance.steps import RESULTS, STEPS
from rebalance.storage.epochs import all_epochs

PROJECT = Path(__file__).resolve().parents[2]
NAMES = [step.name for step in STEPS]
DAG_ID = "rebalance_scheduled"
PIPELINE = """\
tables = "../tables"
[source]
path = "../events"
format = "parquet"
key = "symbol"
time = "ts"
[interval]
length = "1 h"
first = {first:%Y-%m-%dT%H:%M:%SZ}
[operator]
name = "latest_match"
window = 2
parameters = {{ kind = "side", value = "price" }}
[channels]
count = 4
[planning]
theta_max = 0.02
[airflow]
maintain = "none"
[spark]
warm = {warm}
"""
RUNS = "SELECT run_id, start_date, state FROM dag_run WHERE dag_id = ? ORDER BY logical_date"
TASKS = "SELECT run_id, task_id, start_date, end_date, state FROM task_instance WHERE dag_id = ?"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--intervals", type=int, default=5)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--warm", type=float, default=10.0, help="minutes for which the JVM is left to the next task")
    parser.add_argument("--patience", type=float, default=330.0, help="seconds after which it is given up")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = prepare(Path(folder), options.intervals, options.events, options.warm)
        took = scheduled(home, options.intervals, options.patience)
        moved = [epoch for epoch in all_epochs(str(home.parent / "tables")) if epoch.kind == "migrate"]
    print(f"| interval | {' | '.join(NAMES)} | waiting | seconds |")
    print("|---" * (len(NAMES) + 3) + "|")
    print(f"# {sum(epoch.state_version >= 0 for epoch in moved)} migrations of state", file=sys.stderr)
    for number, (whole, tasks) in enumerate(took, 1):
        row = " | ".join(f"{tasks[name]:.1f}" for name in NAMES)
        print(f"| {number} | {row} | {whole - sum(tasks.values()):.1f} | {whole:.1f} |")


def prepare(folder: Path, intervals: int, events: int, warm: float) -> Path:
    """Events of the last full hours, so that the scheduler has just these intervals to catch up on; returns Airflow's folder."""
    last = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    first = last - timedelta(hours=intervals)
    workload = Workload(keys=2000, channels=4, z=1.0, f=0.5, seed=3)
    span = Interval(first, first + timedelta(hours=1))
    write_trades(folder / "events", span, workload, intervals=intervals, events=events)
    (folder / "pipelines").mkdir()
    (folder / "pipelines" / "scheduled.toml").write_text(PIPELINE.format(first=first, warm=warm))
    return folder / "airflow"


def scheduled(home: Path, intervals: int, patience: float) -> list[tuple[float, dict[str, float]]]:
    """Run Airflow until all intervals have results; returns the seconds of each interval and of its tasks."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environ = {
        **os.environ,
        "REBALANCE_PIPELINES": str(home.parent / "pipelines"),
        FOLDER_VARIABLE: str(home.parent / "warm"),
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
    }
    command = [sys.executable, "tools/ui.py", "--port", str(port), "--home", str(home)]
    with subprocess.Popen(command, cwd=PROJECT, env=environ, stdout=subprocess.DEVNULL, start_new_session=True) as ui:
        try:
            deadline = time.monotonic() + patience
            while len(took := measured(home / "airflow.db")) < intervals:
                if time.monotonic() > deadline or ui.poll() is not None:
                    sys.exit(f"only {len(took)} of {intervals} intervals have results; {told(home)}")
                time.sleep(2)
        finally:
            ui.send_signal(signal.SIGINT)
            ui.wait(90)
    return took


def measured(database: Path) -> list[tuple[float, dict[str, float]]]:
    """The intervals that have results, by Airflow's records."""
    if not database.exists():
        return []
    try:
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=30)) as airflow:
            runs = airflow.execute(RUNS, [DAG_ID]).fetchall()
            tasks = airflow.execute(TASKS, [DAG_ID]).fetchall()
    except sqlite3.OperationalError:
        # Airflow is still making its tables.
        return []
    found = []
    for run, started, _ in runs:
        own = {task: (began, ended) for of, task, began, ended, state in tasks if of == run and state == "success"}
        if not set(NAMES) <= own.keys():
            continue
        seconds = {name: _between(*own[name]) for name in NAMES}
        found.append((_between(started, own[RESULTS][1]), seconds))
    return found


def told(home: Path) -> str:
    """What became of the tasks."""
    with closing(sqlite3.connect(home / "airflow.db")) as airflow:
        return str(airflow.execute(TASKS, [DAG_ID]).fetchall())


def _between(start: str, end: str) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()


if __name__ == "__main__":
    main()
