"""Two drivers with a Spark each at the same interval of the same tables: on a store one is stopped past its lease, too."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path

import polars as pl
import pytest
from pyspark.sql import SparkSession

from rebalance.pipeline.file import Pipeline
from rebalance.steps import run_step
from rebalance.storage import lock
from rebalance.storage.epochs import all_epochs
from tests.spark.conftest import SETTINGS
from tests.spark.test_object_store import on_store, rows_of
from tests.support.budget import cases, rounds
from tests.support.s3 import S3, SECRET
from tests.support.world import Stages, first_interval, make_world

pytestmark = pytest.mark.usefixtures("few_rows")

#: Long enough for a slow machine to renew it in time, short enough to wait for.
LEASE_SECONDS = 4.0
MOMENTS = ("results written", "state written", "batch recorded")

#: A driver that takes the intervals it is told, and stops itself, like a machine that falls asleep, at the moment it is told.
DRIVER = """
import json, os, signal, sys
from rebalance.errors import RebalanceError
from rebalance.pipeline.file import load_pipeline
from rebalance.spark.jars import S3_PACKAGES
from rebalance.spark.session import spark_session
from rebalance.steps import process_batch as step, run_step
from rebalance.storage import lock

pipelines = [load_pipeline(file, {"spark": {"packages": S3_PACKAGES}}) for file in sys.argv[3:]]
lock.LEASE_SECONDS = float(sys.argv[1])
for name, value in json.loads(sys.argv[2]).items():
    spark_session(pipelines[-1]).conf.set(name, value)
spark_session(pipelines[-1]).range(1).count()
asleep = [""]


def checkpoint(name):
    if asleep[0] and name == f"process_batch: {asleep[0]}":
        asleep[0] = ""
        os.kill(os.getpid(), signal.SIGSTOP)


step.checkpoint = checkpoint
print("ready", flush=True)
for line in sys.stdin:
    number, at, asleep[0] = json.loads(line)
    pipeline = pipelines[number]
    interval = pipeline.interval_at(pipeline.interval.first).shifted(at)
    try:
        said = run_step("process_batch", pipeline, interval)
    except RebalanceError as error:
        said = f"{type(error).__name__}: {error}"
    print(said, flush=True)
"""


class Driver:
    """The other driver."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin
        assert process.stdout
        self.process, self.told, self.said = process, process.stdin, process.stdout

    def tell(self, pipeline: int, interval: int, moment: str = "") -> None:
        self.told.write(json.dumps([pipeline, interval, moment]) + "\n")
        self.told.flush()

    def arguments_of_its_jvm(self) -> str:
        pid = self.process.pid
        (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        said = Path(f"/proc/{child}/cmdline").read_text()
        assert "fs.s3a.endpoint" in said
        return said

    def wait_until_stopped(self) -> None:
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOWAIT)


@contextmanager
def driver(*files: Path) -> Iterator[Driver]:
    command = [sys.executable, "-c", DRIVER, str(LEASE_SECONDS), json.dumps(SETTINGS), *map(str, files)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Driver(process)
            process.stdin.close()  # type: ignore[union-attr]
            assert process.wait(timeout=60) == 0
        finally:
            process.kill()


def test_of_two_drivers_one_processes_the_interval_and_a_stopped_one_changes_nothing_when_it_wakes(
    spark: SparkSession, s3: S3, matches: Stages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "LEASE_SECONDS", LEASE_SECONDS)
    moments = list(islice(cycle(MOMENTS), rounds("whole drivers", default=cases(1, long=3))))
    intervals = len(moments) + 1
    local = make_world(tmp_path / "disk", intervals=intervals, events=600, keys=60)
    stored = on_store(s3, tmp_path / "store", local, "race")
    alone = make_world(tmp_path / "alone", events_folder=Path(local.source.path))
    with driver(local.file, stored.file) as other:
        for at in range(intervals):
            run_step("process_batch", alone, first_interval(alone).shifted(at))
        assert other.said.readline() == "ready\n"
        assert SECRET not in other.arguments_of_its_jvm()
        for number, pipeline, at in [(1, stored, 0), *((0, local, at) for at in range(intervals))]:
            other.tell(number, at)
            said = [run_step("process_batch", pipeline, first_interval(pipeline).shifted(at))]
            said.append(other.said.readline().strip())
            assert sum("was processed already" in one for one in said) == 1, said
        for at, moment in enumerate(moments, start=1):
            other.tell(1, at, moment)
            other.wait_until_stopped()
            assert "processed on 4 channels" in run_step("process_batch", stored, first_interval(stored).shifted(at))
            other.process.send_signal(signal.SIGCONT)
            assert other.said.readline().startswith(("LockedError: ", "OvertakenError: "))
    check_same(stored, alone, intervals)
    check_same(local, alone, intervals)


def check_same(pipeline: Pipeline, alone: Pipeline, intervals: int) -> None:
    """What a single driver would have left: every row of the results once, an epoch an interval, and its rows."""
    kinds = [(epoch.kind, epoch.interval_id) for epoch in all_epochs(pipeline.tables)]
    assert kinds == [(epoch.kind, epoch.interval_id) for epoch in all_epochs(alone.tables)][: intervals + 1]
    newest = first_interval(pipeline).shifted(intervals - 1).id
    expected = [row for row in rows_of(alone.tables, "results") if row["interval_id"] <= newest]
    assert rows_of(pipeline.tables, "results") == expected
    assert pl.DataFrame(rows_of(pipeline.tables, "batches"))["interval_id"].is_unique().all()
