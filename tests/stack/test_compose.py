"""docker/compose.yaml at work: its services as plain processes, two intervals through the real scheduler, which is killed in the second."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import rebalance
from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.pipeline.intervals import Interval
from rebalance.steps import RESULTS, STEPS
from rebalance.storage import control
from rebalance.storage.epochs import all_epochs
from tests.support import postgres
from tests.support.airflow_api import AirflowApi
from tests.support.compose import DOCKER, Compose
from tests.support.s3 import S3
from tests.support.world import expected_matches, first_interval

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="what a container holds is found by Linux's /proc"),
    pytest.mark.skipif(postgres.programs() is None, reason="PostgreSQL is not installed; see tools/postgres.sh"),
]
DAG = "rebalance_demo"
BUCKET = "rebalance"
EVENTS = 3000
INTERVALS = 2
SCHEDULER = "airflow-scheduler-1"
#: What a small machine in a hurry needs otherwise than the file says.
SMALLER = {
    "DEMO_EVENTS": str(EVENTS),
    # So few that all of them have state that a plan has to move.
    "DEMO_KEYS": "200",
    # The newest of them may not be closed yet.
    "DEMO_INTERVALS": str(INTERVALS + 2),
    "AIRFLOW__API__HOST": "127.0.0.1",
    "AIRFLOW__CORE__PARALLELISM": "2",
    # A scheduler that is silent for so long is dead: ours is killed and should not be waited for.
    "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "1",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "10",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "4",
    "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
    "SPARK_LOCAL_IP": "127.0.0.1",
    "SPARK_DAEMON_MEMORY": "256m",
    # Machine code is compiled once, beside the source.
    "NUMBA_CACHE_DIR": "",
}
_PATIENCE = 600.0
Tasks = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Told:
    """What was seen from outside."""

    #: The pipeline as it ran, but with its events on this machine's disk.
    pipeline: Pipeline
    health: dict[str, Any]
    #: What became of each interval's tasks, and how far those of the second were when the scheduler was killed.
    tasks: list[Tasks]
    at_the_kill: Tasks

    @property
    def intervals(self) -> list[Interval]:
        return [first_interval(self.pipeline).shifted(number) for number in range(INTERVALS)]

    def table(self, name: str, interval: Interval) -> pl.DataFrame:
        """What a table has of an interval."""
        return pl.DataFrame(control.read(self.pipeline.tables, name, interval_id=interval.id))


@pytest.fixture(scope="module")
def told(s3: S3, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    """Two intervals, the scheduler killed while the second one's results are written."""
    folder = tmp_path_factory.mktemp("stack")
    secrets = made_secrets(folder / "secrets")
    environ = pytest.MonkeyPatch()
    for name, value in s3.options.items():
        environ.setenv(name, value)
    with postgres.postgres_server("airflow", secrets["POSTGRES_PASSWORD"], "airflow") as port:
        others = {"postgres:5432": port, "store:9000": int(s3.endpoint.rpartition(":")[2])}
        stack = Compose(folder, secrets, others, SMALLER)
        try:
            stack.up()
            yield story(stack, s3, folder)
        finally:
            stack.down()
            environ.undo()


def made_secrets(folder: Path) -> dict[str, str]:
    """docker/.env, made as people make it."""
    folder.mkdir()
    for name in ("make_env.sh", "env.example"):
        shutil.copy(DOCKER / name, folder)
    subprocess.run(["sh", folder / "make_env.sh"], check=True)
    return dict(line.split("=", 1) for line in (folder / ".env").read_text().splitlines())


def story(stack: Compose, s3: S3, folder: Path) -> Told:
    (password,) = set(re.findall(r"Password for user 'admin': (\S+)", stack.log("airflow-api-1")))
    airflow = AirflowApi(f"http://127.0.0.1:{stack.ports['8080']}", "admin", password)
    file = folder / "data" / "pipelines" / "demo.toml"
    file.write_text(stack.localized(file.read_text()))
    pipeline = load_pipeline(file)
    intervals = [first_interval(pipeline).shifted(number) for number in range(INTERVALS)]
    until(lambda: airflow.unpause(DAG), stack)
    until(lambda: has_ended(airflow, intervals[0]), stack)
    before = written(s3)
    until(lambda: written(s3) - before, stack, look=0.05)
    stack.kill(SCHEDULER)
    at_the_kill = airflow.tasks(DAG, intervals[1])
    stack.start(SCHEDULER)
    until(lambda: has_ended(airflow, intervals[1]), stack)
    until(lambda: is_healthy(airflow), stack)
    health, tasks = airflow.health(), [airflow.tasks(DAG, interval) for interval in intervals]
    stack.kill(SCHEDULER)
    events = folder / "events"
    events.mkdir()
    for entry in s3.client().list_objects_v2(Bucket=BUCKET, Prefix="demo/events/")["Contents"]:
        s3.client().download_file(BUCKET, entry["Key"], str(events / Path(entry["Key"]).name))
    return Told(load_pipeline(file, {"source": {"path": str(events)}}), health, tasks, at_the_kill)


def until(reached: Callable[[], object], stack: Compose, look: float = 0.5) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not reached():
        assert time.monotonic() < deadline, stack.told()
        time.sleep(look)


def has_ended(airflow: AirflowApi, interval: Interval) -> bool:
    return airflow.state(DAG, interval) in ("success", "failed")


def is_healthy(airflow: AirflowApi) -> bool:
    return all(part["status"] == "healthy" for part in airflow.health().values())


def written(s3: S3) -> set[str]:
    """The files of results that lie on the store, committed or not."""
    found = s3.client().list_objects_v2(Bucket=BUCKET, Prefix="demo/tables/results/")
    return {entry["Key"] for entry in found.get("Contents", ()) if entry["Key"].endswith(".parquet")}


def test_every_part_of_airflow_is_at_work(told: Told) -> None:
    parts = ("metadatabase", "scheduler", "triggerer", "dag_processor")
    assert {part: said["status"] for part, said in told.health.items()} == dict.fromkeys(parts, "healthy")


def test_a_killed_scheduler_s_task_is_started_again_and_the_interval_ends_green(told: Told) -> None:
    assert told.at_the_kill[RESULTS]["state"] == "running"
    names = ["planned", *(step.name for step in STEPS)]
    for tasks in told.tasks:
        assert {name: task["state"] for name, task in tasks.items()} == dict.fromkeys(names, "success")
    assert [tasks[RESULTS]["try_number"] for tasks in told.tasks[:2]] == [1, 2]


def test_results_equal_a_plain_recomputation_in_every_interval(told: Told) -> None:
    for interval in told.intervals:
        expected = expected_matches(told.pipeline, interval)
        assert len(expected) > 100
        found = told.table("results", interval).drop("interval_id").sort("key", "time", "value")
        assert_frame_equal(found, expected, check_dtypes=False)


def test_the_state_was_moved_and_every_row_is_there_once_and_where_the_function_says(told: Told, s3: S3) -> None:
    steps = list(pairwise(all_epochs(told.pipeline.tables)))
    moved = [
        epoch for before, epoch in steps if epoch.kind == "migrate" and epoch.state_version > before.state_version >= 0
    ]
    assert moved
    assert moved[0].interval_id == told.intervals[0].id, "it is moved before the second interval is processed"
    opened = rebalance.open(told.pipeline.tables)
    assert opened.epoch.interval_id == told.intervals[-1].id
    state = pl.read_delta(opened.state_path, version=opened.state_version, storage_options=s3.options)
    assert state["channel"].to_list() == opened.function.channel_of(state["key"].to_list()).tolist()
    kept = told.intervals[1 - told.pipeline.operator.window :]
    events = pl.read_parquet(f"{told.pipeline.source.path}/*.parquet")
    events = events.filter((pl.col("ts") >= kept[0].start) & (pl.col("ts") < kept[-1].end))
    expected = events.select(key="symbol", time="ts", value="price").sort("key", "time", "value")
    assert_frame_equal(state.select("key", "time", "value").sort("key", "time", "value"), expected, check_dtypes=False)


def test_every_interval_is_counted_and_recorded_once(told: Told) -> None:
    epochs = [(epoch.kind, epoch.interval_id) for epoch in all_epochs(told.pipeline.tables)]
    assert len(epochs) == len(set(epochs))
    for interval in told.intervals:
        assert ("process", interval.id) in epochs
        counted, processed, keys = (told.table(name, interval) for name in ("interval_stats", "batches", "key_stats"))
        assert counted["rows"].to_list() == processed["rows"].to_list() == [keys["tuples"].sum()] == [EVENTS]
        assert keys["key"].is_unique().all()
        assert told.table("plans", interval).height == 1
