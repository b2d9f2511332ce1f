"""Processes killed at random moments, inside Spark's jobs and commits too; somebody reads the state all the while.

`make faults` does it a thousand times (REBALANCE_KILLS), `make test` a few. Moments are seeded by REBALANCE_KILL_SEED; what a process was
doing then depends on the machine.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import rebalance
from rebalance.pipeline.file import Pipeline
from rebalance.steps.run import run_interval
from rebalance.storage.lock import writer_lock
from tests.support.world import Stages, contents, first_interval

PROJECT = Path(__file__).resolve().parents[2]
KILLS = int(os.environ.get("REBALANCE_KILLS", "2"))
SEED = int(os.environ.get("REBALANCE_KILL_SEED", "20260101"))
#: So many processes die one after the other before one is let through.
IN_A_ROW = 2


class Reader:
    """Somebody who reads the state at the active epoch all the time, and keeps what was wrong with it."""

    def __init__(self, tables: str, expected: dict[str, pl.DataFrame]) -> None:
        self.tables, self.expected = tables, expected
        self.reads, self.wrong = 0, ""
        self._stop = threading.Event()

    @contextmanager
    def reading(self) -> Iterator[None]:
        thread = threading.Thread(target=self._read)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()

    def _read(self) -> None:
        while not (self._stop.wait(0.05) or self.wrong):
            opened = rebalance.open(self.tables)
            state = pl.read_delta(opened.state_path, version=opened.state_version)
            self.reads += 1
            interval_id = opened.epoch.interval_id
            if not state.drop("channel").sort(*ORDER).equals(self.expected[interval_id]):
                self.wrong = f"epoch {opened.epoch}: not the state after {interval_id}"
            if state["channel"].to_list() != opened.function.channel_of(state["key"].to_list()).tolist():
                self.wrong = f"epoch {opened.epoch}: rows are not where function v{opened.function.version} says"


ORDER = ("interval_id", "key", "time", "is_earlier", "value")


def state_of(pipeline: Pipeline) -> pl.DataFrame:
    opened = rebalance.open(pipeline.tables)
    return pl.read_delta(opened.state_path, version=opened.state_version).drop("channel").sort(*ORDER)


def killed_at_random(pipeline: Pipeline, start: str, random_: random.Random, longest: float) -> bool:
    """Start the interval, kill it some time later, with or without its JVM; whether it had not ended by itself."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.interval_process", str(pipeline.file), start],
        cwd=PROJECT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == b"ready\n"
        time.sleep(random_.uniform(0, longest))
        alone = random_.random() < 0.3
        (os.kill if alone else os.killpg)(process.pid, signal.SIGKILL)
        return process.wait() == -signal.SIGKILL


@pytest.fixture(scope="module")
def undisturbed(matches: Stages, tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """Two intervals that nothing has happened to."""
    return matches.copy(tmp_path_factory.mktemp("undisturbed"), "2 collect_stats")


def test_kills_at_random_moments_lose_and_double_nothing_and_no_reader_sees_half_of_anything(
    matches: Stages, undisturbed: Pipeline, tmp_path: Path
) -> None:
    expected: dict[str, Any] = contents(undisturbed)
    first = first_interval(undisturbed)
    states = {
        first.id: state_of(matches.copy(tmp_path / "first", "1 collect_stats")),
        first.shifted(1).id: state_of(undisturbed),
    }
    seeded, longest, kills, reads, began = random.Random(SEED), 8.0, 0, 0, time.monotonic()
    while kills < KILLS:
        pipeline = matches.copy(tmp_path / f"world-{kills}", "1 collect_stats")
        reader = Reader(pipeline.tables, states)
        with reader.reading():
            for _ in range(IN_A_ROW):
                kills += killed_at_random(pipeline, first.shifted(1).id, seeded, longest)
            took = time.monotonic()
            # The JVM of a process that was killed alone may still hold what it had open.
            with writer_lock(pipeline.tables, patience=30):
                pass
            run_interval(pipeline, first.shifted(1), say=lambda text: None)
            longest = max(1.0, 1.2 * (time.monotonic() - took))
        assert reader.wrong == ""
        assert contents(pipeline) == expected, f"after kill {kills} of seed {SEED}"
        reads += reader.reads
        left = (time.monotonic() - began) / kills * (KILLS - kills) / 60 if kills else 0.0
        sys.stderr.write(f"{kills} of {KILLS} kills, {reads} reads, about {left:.0f} minutes left\n")
    assert reads > KILLS
