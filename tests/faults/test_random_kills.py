"""Processes killed at random moments, inside Spark's jobs and commits too; somebody reads the state all the while.

Every step is a process of its own, as in Airflow, with a JVM of its own where it needs one. A try of it is killed at a moment between its
beginning and its end, the next try may be killed in turn, while it undoes what was left; in the end one is let through, and every table is
compared with that of a run that nothing has happened to. `make faults` does it a thousand times (REBALANCE_KILLS), `make test` a few.
Moments are seeded by REBALANCE_KILL_SEED; what a process was doing then depends on the machine.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rebalance.errors import EnvironmentMissingError
from rebalance.pipeline.file import Pipeline
from rebalance.spark.environment import OWN_JARS
from rebalance.steps.exits import code_of
from tests.support.budget import SEED, kills
from tests.support.reading import Reader
from tests.support.victims import ON_SPARK, STORY, Victims, jvm_of
from tests.support.world import Stages, contents, first_interval

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a process's JVM is found by Linux's /proc")
KILLS = kills("driver", default=7)
#: So many tries die one after the other, at least and at most, before one is let through; where few are killed, every part has one.
IN_A_ROW = (2, 6) if len(STORY) < KILLS else (1, 1)
#: From so many on it pays that Java remembers how it has loaded its classes.
MANY = 50
SETTINGS = """
[spark]
master = "local[2]"
[spark.settings]
"spark.driver.memory" = "1g"
# For a few rows, these take longer than the work.
"spark.sql.codegen.wholeStage" = "false"
"spark.sql.codegen.factoryMode" = "NO_CODEGEN"
"spark.sql.adaptive.enabled" = "false"
"spark.driver.extraClassPath" = "{jars}"
"spark.driver.extraJavaOptions" = "-XX:SharedArchiveFile={archive}"
"""


@pytest.fixture(scope="module")
def settings(matches: Stages, victims: Victims, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What makes a JVM start in a third of the time: Java loads classes from an archive that an earlier one has left."""
    folder = tmp_path_factory.mktemp("archive")
    archive = folder / "classes.jsa"
    found = SETTINGS.format(jars=":".join(map(str, sorted(OWN_JARS.glob("*.jar")))), archive=archive)
    if KILLS >= MANY:
        making = found.replace("SharedArchiveFile", "ArchiveClassesAtExit")
        pipeline = matches.copy(folder / "world", "1 collect_stats", becomes=making)
        jvm = jvm_of(victims.start(pipeline, first_interval(pipeline).shifted(1), *STORY))
        assert victims.ended() == 0, victims.told()
        while Path(f"/proc/{jvm}").exists():
            time.sleep(0.1)
        assert archive.exists()
    return found


class Killing:
    """Kills what it starts, and keeps count."""

    def __init__(self, victims: Victims) -> None:
        self.victims, self.random = victims, random.Random(SEED)
        self.kinds: Counter[str] = Counter()
        self.acts: Counter[str] = Counter()
        #: Seconds that each part of the story takes; it is learned.
        self.takes = dict.fromkeys(STORY, 1.0)

    def through(self, pipeline: Pipeline, name: str) -> None:
        """Take the second interval through a part of the story; tries are killed until one is through, or is let through."""
        for _ in range(self.random.randint(*IN_A_ROW)):
            if self.kinds.total() < KILLS and self._is_through(pipeline, name):
                return
        self._start(pipeline, name)
        began = time.monotonic()
        assert self.victims.ended() == 0, self.victims.told()
        self.takes[name] = max(0.05, time.monotonic() - began)

    def _is_through(self, pipeline: Pipeline, name: str) -> bool:
        pid = self._start(pipeline, name)
        kind = self.random.choices(("driver", "Python", "JVM"), (2, 1, 1))[0] if name in ON_SPARK else "driver"
        jvm = jvm_of(pid) if kind == "JVM" else 0
        time.sleep(self.random.uniform(0, self.takes[name]))
        try:
            if kind == "driver":
                os.killpg(pid, signal.SIGKILL)
            else:
                os.kill(jvm or pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        code = self.victims.ended()
        if not code:
            # It was faster, or needed its JVM no more.
            return True
        assert code == (-signal.SIGKILL if kind != "JVM" else code_of(EnvironmentMissingError())), self.victims.told()
        self.kinds[kind] += 1
        self.acts[name] += 1
        return False

    def _start(self, pipeline: Pipeline, name: str) -> int:
        return self.victims.start(pipeline, first_interval(pipeline).shifted(1), name)


def test_kills_at_random_moments_lose_and_double_nothing_and_no_reader_sees_half_of_anything(
    matches: Stages,
    expected: dict[str, dict[str, Any]],
    victims: Victims,
    settings: str,
    reader: Reader,
    tmp_path: Path,
) -> None:
    killing, reads, began = Killing(victims), 0, time.monotonic()
    while killing.kinds.total() < KILLS:
        pipeline = matches.copy(tmp_path / "world", "1 collect_stats", becomes=settings)
        reader.turns_to(pipeline)
        for name in STORY:
            killing.through(pipeline, name)
            assert contents(pipeline) == expected[name], f"{name}, after {killing.kinds.total()} kills, seed {SEED}"
        more, wrong = reader.turns_to(None)
        assert wrong == ""
        reads += more
        shutil.rmtree(tmp_path / "world")
        left = (time.monotonic() - began) / killing.kinds.total() * (KILLS - killing.kinds.total()) / 60
        told = ", ".join(f"{count} {kind}" for kind, count in sorted((killing.kinds + killing.acts).items()))
        sys.stderr.write(
            f"{killing.kinds.total()} of {KILLS} kills ({told}), {reads} reads, {max(0, left):.0f} min left\n"
        )
    assert reads > KILLS
