"""Two drivers at the same interval, round after round, with and without the lock, one of them stopped past its lease.

What races here are an interval's commits, in the order of `process_batch` and by its functions, without the Spark that would write their files:
so a round takes a moment. `make faults` takes a thousand rounds in all (REBALANCE_ROUNDS), `make test` some of each kind. Whole drivers with a
Spark each race in tests/spark/test_drivers_race.py, for a share of the rounds.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession

from rebalance.storage import control
from rebalance.storage.epochs import all_epochs, current_epoch
from rebalance.stores.places import options_of, remember
from tests.support.budget import SEED, rounds
from tests.support.racer import ROWS, prepare, rows_of
from tests.support.s3 import BUCKET, S3

PROJECT = Path(__file__).resolve().parents[2]
#: Long enough to be renewed in time, short enough to be waited for.
LEASE_SECONDS = 2.0
#: In `make test`, a driver is stopped at named moments, by tests/spark/test_drivers_race.py.
STOPS = rounds("stop", default=0)


class Racer:
    """One of the two."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin
        assert process.stdout
        self.process, self.told, self.said = process, process.stdin, process.stdout
        assert self.said.readline() == "ready\n"

    def tell(self, interval_id: str, *, locked: bool) -> None:
        self.told.write(json.dumps([interval_id, locked]) + "\n")
        self.told.flush()

    def answer(self) -> tuple[int, bool]:
        refused, won = json.loads(self.said.readline())
        return refused, won


@contextmanager
def racers(root: str, s3: S3) -> Iterator[list[Racer]]:
    command = [sys.executable, "-m", "tests.support.racer", root, json.dumps(s3.settings), str(LEASE_SECONDS)]
    with ExitStack() as stack:
        started = []
        for _ in range(2):
            pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
            process = stack.enter_context(subprocess.Popen(command, cwd=PROJECT, **pipes))
            stack.callback(process.kill)
            started.append(Racer(process))
        yield started


@pytest.fixture(params=["disk", "store"])
def root(s3: S3, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Empty tables, on both kinds of places."""
    found = str(tmp_path / "tables")
    if request.param == "store":
        found = f"s3a://{BUCKET}/{request.node.originalname}-{len(request.node.name)}"
        remember(found, s3.settings)
    prepare(found)
    return found


def check(root: str, intervals: list[str]) -> None:
    """What a single driver would have left: an epoch an interval, in order, and every row once; of answers, two an interval."""
    epochs = all_epochs(root)
    assert [epoch.interval_id for epoch in epochs] == ["", *intervals]
    assert [epoch.epoch for epoch in epochs] == list(range(len(intervals) + 1))
    expected = sorted((interval_id, n) for interval_id in intervals for n in rows_of(interval_id))
    newest = current_epoch(root)
    assert newest
    for table, version in (("results", None), ("state", newest.state_version)):
        path = control.table_path(root, table)
        found = pl.read_delta(path.replace("s3a://", "s3://"), version=version, storage_options=options_of(path))
        assert sorted(found.select("interval_id", "n").rows()) == expected
    batches = control.rows(root, "batches")
    assert sorted((row["interval_id"], row["rows"]) for row in batches) == [(name, ROWS) for name in intervals]
    answers = Counter(row["plan_id"] for row in control.rows(root, "approvals"))
    assert len(answers) == answers.total() == 2 * len(intervals)
    assert {name.split()[0] for name in answers} == set(intervals)


@pytest.mark.parametrize("locked", [True, False], ids=["with the lock", "as if there were none"])
def test_of_two_that_race_for_an_interval_one_has_it_and_no_commit_is_lost_and_no_row_doubled(
    s3: S3, root: str, locked: bool
) -> None:
    intervals, refused = [f"r{number:04}" for number in range(rounds("race", default=4))], 0
    with racers(root, s3) as both:
        for interval_id in intervals:
            for racer in both:
                racer.tell(interval_id, locked=locked)
            said = [racer.answer() for racer in both]
            assert sum(won for _, won in said) == 1 or not locked
            refused += sum(count for count, _ in said)
    check(root, intervals)
    sys.stderr.write(f"{len(intervals)} rounds {'with' if locked else 'without'} the lock, {refused} times refused\n")
    assert refused or locked


@pytest.mark.skipif(not STOPS, reason="a part of make faults; tests/spark/test_drivers_race.py stops a whole driver")
@pytest.mark.parametrize("root", ["store"], indirect=True)
def test_one_that_is_stopped_at_a_random_moment_past_its_lease_and_goes_on_changes_nothing(s3: S3, root: str) -> None:
    seeded, takes = random.Random(SEED), 0.5
    intervals, refused, overtaken = [f"r{number:04}" for number in range(STOPS)], 0, 0
    with racers(root, s3) as (sleeper, other):
        for interval_id in intervals:
            sleeper.tell(interval_id, locked=True)
            time.sleep(seeded.uniform(0, takes))
            os.kill(sleeper.process.pid, signal.SIGSTOP)
            began = time.monotonic()
            other.tell(interval_id, locked=True)
            _, won = other.answer()
            overtaken += won
            os.kill(sleeper.process.pid, signal.SIGCONT)
            count, too = sleeper.answer()
            assert won + too == 1
            refused += count
            # Learned from a round in which nobody had to wait for a lease.
            takes = time.monotonic() - began if time.monotonic() - began < LEASE_SECONDS else takes
    check(root, intervals)
    sys.stderr.write(f"{len(intervals)} rounds with a stop, {overtaken} times overtaken, {refused} times refused\n")


def test_commits_of_spark_beside_those_of_delta_rs_lose_none_and_double_none(
    spark: SparkSession, tmp_path: Path
) -> None:
    times, path = rounds("spark", default=3), str(tmp_path / "table")
    spark.range(0, 1, 1, 1).write.format("delta").save(path)
    program = "import sys\nfrom tests.faults.test_race_rounds import append\nappend(*sys.argv[1:])"
    with subprocess.Popen([sys.executable, "-c", program, path, str(times)], cwd=PROJECT) as other:
        for number in range(times):
            spark.range(10**6 + number, 10**6 + number + 1, 1, 1).write.format("delta").mode("append").save(path)
        assert other.wait(timeout=600) == 0
    found = pl.read_delta(path)["id"].sort().to_list()
    assert found == [0, *range(1, times + 1), *range(10**6, 10**6 + times)]


def append(path: str, times: str) -> None:
    """Commits by delta-rs, one after the other, about as many as Spark makes in the time."""
    for number in range(1, int(times) + 1):
        write_deltalake(path, pl.DataFrame({"id": [number]}).to_arrow(), mode="append")
        time.sleep(0.2)
