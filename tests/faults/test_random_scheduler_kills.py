"""Airflow's scheduler killed at random moments, with every task it has at work, and started again; `make faults` alone does this.

A real scheduler with its LocalExecutor, an API server and a DAG processor on SQLite take some intervals through the DAG. `make test` has one such
kill, in `tests/stack`.
"""

from __future__ import annotations

import os
import random
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from rebalance.demo.events import write_trades
from rebalance.demo.in_process import airflow_environment
from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.simulate.workload import Workload
from rebalance.spark.warm import FOLDER_VARIABLE
from rebalance.steps.run import run_interval
from tests.support.budget import SEED, kills
from tests.support.cluster import free_port
from tests.support.container import in_container
from tests.support.world import contents, first_interval

KILLS = kills("scheduler", default=0)
pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="what the scheduler has started is found by Linux's /proc"),
    pytest.mark.skipif(not KILLS, reason="a part of make faults; tests/stack kills a scheduler once"),
]
PROJECT = Path(__file__).resolve().parents[2]
#: A scheduler is through with an interval after about so many deaths.
INTERVALS = 1 + -(-KILLS // 4)
#: Seconds, at most, from a task's start to the scheduler's death.
LONGEST = 15.0
_PATIENCE = 600.0
PIPELINE = """
tables = "{tables}"
[source]
path = "{events}"
format = "parquet"
key = "symbol"
time = "ts"
[interval]
length = "1 h"
first = {first:%Y-%m-%dT%H:%M:%SZ}
grace = "0 min"
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
retries = 5
retry_delay_seconds = 1
[spark]
master = "local[2]"
[spark.settings]
"spark.driver.memory" = "1g"
"""
#: A scheduler that is silent for so long is dead: ours is killed and should not be waited for.
HURRIED = {
    "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
    "AIRFLOW__API_AUTH__JWT_SECRET": "of-these-tests-alone-0123456789abcdef",
    "AIRFLOW__API__SECRET_KEY": "of-these-tests-alone",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "1",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "6",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "3",
}
RUNS = "SELECT state FROM dag_run WHERE dag_id = 'rebalance_killed' ORDER BY logical_date"
AT_WORK = (
    "SELECT count(*) FROM task_instance WHERE dag_id = 'rebalance_killed' AND state = 'running' AND start_date > ?"
)


class Airflow:
    """Its parts, each with all it starts held together, as in a container."""

    def __init__(self, folder: Path) -> None:
        self.home, self.log = folder / "airflow", folder / "log"
        self.environ = {
            **os.environ,
            **airflow_environment(self.home, port=free_port()),
            **HURRIED,
            "REBALANCE_PIPELINES": str(folder / "pipelines"),
            FOLDER_VARIABLE: str(folder / "warm"),
        }
        self.port = self.environ["AIRFLOW__API__PORT"]

    @contextmanager
    def part(self, *words: str) -> Iterator[None]:
        """Something that runs for as long as it is needed, and dies then as `kill -9` of all of it does."""
        with (
            self.log.open("ab") as log,
            subprocess.Popen(
                in_container([str(Path(sys.executable).with_name("airflow")), *words]),
                env=self.environ,
                cwd=PROJECT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            ) as process,
        ):
            try:
                yield
            finally:
                process.terminate()

    def asked(self, question: str, *about: str) -> list[str | int]:
        """What its records say."""
        with closing(sqlite3.connect(f"file:{self.home}/airflow.db?mode=ro", uri=True, timeout=60)) as records:
            return [row[0] for row in records.execute(question, about)]

    def until(self, reached: Callable[[], object]) -> None:
        """Wait for something."""
        deadline = time.monotonic() + _PATIENCE
        while not reached():
            assert time.monotonic() < deadline, self.log.read_text()[-10_000:]
            time.sleep(0.2)

    def answers(self) -> bool:
        """Whether its API server listens, without which no task gets anywhere."""
        with socket.socket() as asked:
            return asked.connect_ex(("127.0.0.1", int(self.port))) == 0

    def is_at_work(self, since: str) -> bool:
        """Whether a task was started since then and runs, or none is left to be."""
        return self.asked(AT_WORK, since) != [0] or self.is_done()

    def is_done(self) -> bool:
        """Whether all intervals have their results."""
        states = self.asked(RUNS)
        assert "failed" not in states, self.log.read_text()[-10_000:]
        return states[:INTERVALS] == ["success"] * INTERVALS


def two_worlds(folder: Path) -> tuple[Pipeline, Pipeline]:
    """The pipeline that the scheduler runs, and the same with tables of its own. Their events are of the newest full hours."""
    first = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=INTERVALS)
    made = []
    for name, tables in (("killed", "tables"), ("undisturbed", "undisturbed")):
        file = folder / name.replace("killed", "pipelines") / f"{name}.toml"
        file.parent.mkdir()
        file.write_text(PIPELINE.format(tables=folder / tables, events=folder / "events", first=first))
        made.append(load_pipeline(file))
    workload = Workload(keys=60, channels=4, z=1.0, f=0.5, seed=3)
    write_trades(folder / "events", first_interval(made[0]), workload, intervals=INTERVALS, events=600)
    return made[0], made[1]


@pytest.mark.usefixtures("spark")
def test_a_scheduler_killed_at_random_moments_leaves_every_row_as_if_it_had_lived(tmp_path: Path) -> None:
    killed, undisturbed = two_worlds(tmp_path)
    airflow, seeded, struck = Airflow(tmp_path), random.Random(SEED), 0
    command = [str(Path(sys.executable).with_name("airflow")), "db", "migrate"]
    subprocess.run(command, env=airflow.environ, cwd=PROJECT, capture_output=True, check=True)
    with airflow.part("api-server", "--port", airflow.port), airflow.part("dag-processor"):
        airflow.until(airflow.answers)
        while not airflow.is_done():
            since = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
            with airflow.part("scheduler", "--skip-serve-logs"):
                if struck == KILLS:
                    airflow.until(airflow.is_done)
                    break
                airflow.until(partial(airflow.is_at_work, since))
                time.sleep(seeded.uniform(0, LONGEST))
            struck += 1
            sys.stderr.write(f"{struck} of {KILLS} kills of the scheduler, {airflow.asked(RUNS)}\n")
    assert struck == KILLS
    for number in range(INTERVALS):
        run_interval(undisturbed, first_interval(undisturbed).shifted(number), say=lambda text: None)
    found = contents(killed)
    assert found == contents(undisturbed), f"seed {SEED}"
    assert len(found["batches"]) == INTERVALS
