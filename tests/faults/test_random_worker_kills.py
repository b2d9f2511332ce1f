"""Executors and workers of a standalone cluster killed at random moments, while an interval goes through all that may happen to it.

Spark runs the tasks of a dead executor again, and the cluster starts another one; with its worker it dies as a machine does. `make faults` kills
some dozens (a share of REBALANCE_KILLS); `make test` has three such deaths, in `tests/cluster`.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.budget import SEED, kills
from tests.support.cluster import Cluster
from tests.support.container import descendants
from tests.support.reading import Reader
from tests.support.victims import STORY, Victims
from tests.support.world import Stages, contents, first_interval

KILLS = kills("worker", default=0)
pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="processes are found by Linux's /proc"),
    pytest.mark.skipif(not KILLS, reason="a part of make faults; tests/cluster kills workers in three steps"),
]
WORKERS = 2
#: Seconds from a kill to the next one: about what the cluster needs to have another executor at work.
PAUSE = (1.0, 8.0)
SETTINGS = """
[spark]
master = "{master}"
[spark.settings]
"spark.executor.memory" = "512m"
"spark.driver.memory" = "1g"
"spark.driver.host" = "127.0.0.1"
"spark.sql.shuffle.partitions" = "4"
"spark.databricks.delta.snapshotPartitions" = "1"
# Any task may be struck as often as chance will have it.
"spark.task.maxFailures" = "50"
"spark.stage.maxConsecutiveAttempts" = "50"
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    started = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        started.start_master()
        for _ in range(WORKERS):
            started.start_worker()
        yield started
    finally:
        started.stop()


def strike(cluster: Cluster, seeded: random.Random) -> str:
    """Kill an executor, in one of three cases with its worker; who it was, if there was one."""
    workers = [process for process in cluster.started[1:] if process.poll() is None]
    worker = seeded.choice(workers)
    executors = descendants(worker.pid)
    if not executors:
        return ""
    whole = seeded.random() < 1 / 3
    if whole:
        worker.kill()
        worker.wait()
    for pid in executors:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    if whole:
        cluster.start_worker()
    return "worker with its executor" if whole else "executor"


def test_workers_killed_at_random_moments_change_no_row_of_any_table(
    matches: Stages,
    expected: dict[str, dict[str, Any]],
    victims: Victims,
    reader: Reader,
    cluster: Cluster,
    tmp_path: Path,
) -> None:
    seeded, kinds = random.Random(SEED), Counter[str]()
    while kinds.total() < KILLS:
        settings = SETTINGS.format(master=cluster.address)
        pipeline = matches.copy(tmp_path / "world", "1 collect_stats", becomes=settings)
        reader.turns_to(pipeline)
        driver = Path(f"/proc/{victims.start(pipeline, first_interval(pipeline).shifted(1), *STORY)}")
        while driver.exists() and kinds.total() < KILLS:
            time.sleep(seeded.uniform(*PAUSE))
            struck = strike(cluster, seeded) if driver.exists() else ""
            kinds.update([struck] if struck else [])
        assert victims.ended() == 0, victims.told()
        assert contents(pipeline) == expected[STORY[-1]], f"after {kinds}, seed {SEED}"
        _, wrong = reader.turns_to(None)
        assert wrong == ""
        shutil.rmtree(tmp_path / "world")
        told = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        sys.stderr.write(f"{kinds.total()} of {KILLS} kills of workers ({told})\n")
