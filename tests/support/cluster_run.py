"""Intervals through Airflow's DAG on a cluster whose workers are killed: python -m tests.support.cluster_run FOLDER MASTER KILLS.

KILLS is JSON: for each interval the step during which a worker dies and how many stages with tasks it is spared, or null. A process of its own,
because a process has one Spark.
"""

from __future__ import annotations

import json
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rebalance.demo.in_process import load_dag, prepare, run_interval
from rebalance.pipeline.file import load_pipeline
from rebalance.pipeline.intervals import parse_start
from rebalance.steps import STEPS
from tests.support.cluster import Cluster
from tests.support.cluster_kills import Killer
from tests.support.world import first_interval

EXECUTORS = 2


def main(folder: Path, master: str, kills: list[tuple[str, int] | None]) -> None:
    """Run one interval for each kill; prints what was done as JSON."""
    prepare(folder / "airflow")
    dag, first = load_dag("rebalance_world"), first_interval(load_pipeline(folder / "world.toml"))
    (folder / "fresh").mkdir()
    fresh = Cluster(folder / "fresh", master)
    killer = Killer(after=lambda: fresh.start_worker(wait=False))
    killer.start()
    steps = [step.name for step in STEPS]
    said: list[dict[str, str]] = []
    try:
        for number, kill in enumerate(kills):
            wait_for_executors()
            step, skip = kill or ("", 0)

            def report(task: str, state: str, text: str, step: str = step, skip: int = skip) -> None:
                if step and steps.index(task) + 1 == steps.index(step):
                    killer.arm(step, skip)

            if step == steps[0]:
                killer.arm(step, skip)
            said.append(run_interval(dag, first.shifted(number), report=report))
            assert not kill or len(killer.killed) == sum(1 for one in kills[: number + 1] if one), (
                f"{step} went by unharmed"
            )
        print(json.dumps({"said": said, "killed": killer.killed, **on_executors()}))  # noqa: T201
    finally:
        fresh.stop()


def context() -> Any:
    from pyspark import SparkContext

    return SparkContext._active_spark_context


def wait_for_executors() -> None:
    """Until a new worker has taken the place of a killed one: a kill must leave somebody to do the work."""
    deadline = time.monotonic() + 60
    while context() and context()._jsc.sc().getExecutorMemoryStatus().size() - 1 < EXECUTORS:
        assert time.monotonic() < deadline, "no worker has taken the place of a killed one"
        time.sleep(0.1)


def on_executors() -> dict[str, list[str]]:
    """Which Pythons the executors run, and what code of this package gives there, which they cannot import."""

    def asked(number: int) -> tuple[str, str]:
        assert find_spec("rebalance") is None, "an executor can import the package"
        return sys.executable, parse_start("20260101T0000Z").isoformat()

    answers = context().parallelize(range(4), 4).map(asked).collect()
    return {"pythons": sorted({python for python, _ in answers}), "answers": sorted({answer for _, answer in answers})}


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]))
