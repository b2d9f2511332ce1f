"""Intervals through Airflow's DAG on a cluster whose workers are killed: python -m tests.support.cluster_run FOLDER MASTER KILLS.

KILLS is JSON: for each interval the step during which a worker dies, how many stages with tasks it is spared, and whether Spark itself has to
move the rows of a migration, however few. A process of its own, because a process has one Spark.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rebalance.demo.in_process import load_dag, prepare, run_interval
from rebalance.errors import EnvironmentMissingError
from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.pipeline.intervals import parse_start
from rebalance.spark import small_move
from rebalance.spark.session import spark_session
from rebalance.steps import STEPS
from rebalance.steps.trouble import trouble_in_words
from tests.support.cluster import Cluster
from tests.support.cluster_kills import Killer
from tests.support.world import first_interval

EXECUTORS = 2
MOST_BYTES = small_move.MOST_BYTES


def main(folder: Path, master: str, kills: list[tuple[str, int, bool]]) -> None:
    """Run one interval for each kill; prints what was done as JSON."""
    logging.getLogger("rebalance").addHandler(logging.StreamHandler())
    prepare(Path(os.environ["AIRFLOW_HOME"]))
    file = folder / "world.toml"
    dag, first = load_dag("rebalance_world"), first_interval(load_pipeline(file))
    (folder / "fresh").mkdir()
    fresh = Cluster(folder / "fresh", master)
    killer = Killer(after=fresh.start_worker)
    killer.start()
    steps = [step.name for step in STEPS]
    said: list[dict[str, str]] = []
    try:
        for number, (step, skip, by_spark) in enumerate(kills):
            wait_for_executors()
            small_move.MOST_BYTES = 0 if by_spark else MOST_BYTES

            def report(task: str, state: str, text: str, step: str = step, skip: int = skip) -> None:
                if steps.index(task) + 1 == steps.index(step):
                    killer.arm(step, skip)

            if step == steps[0]:
                killer.arm(step, skip)
            said.append(run_interval(dag, first.shifted(number), report=report))
            assert len(killer.killed) == number + 1, (
                f"interval {number}: {step} went by unharmed, {killer.seen} stages were seen"
            )
        told = {"said": said, "killed": killer.killed, **on_executors(), "ended": after_an_end(load_pipeline(file))}
        print(json.dumps(told))  # noqa: T201
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


def after_an_end(pipeline: Pipeline) -> str:
    """What is said when the cluster has ended our Spark, as masters do; the next step has a new one."""
    spark, said = spark_session(pipeline), ""
    context()._jsc.sc().stop()
    try:
        with trouble_in_words(pipeline.tables):
            spark.range(3).count()
    except EnvironmentMissingError as error:
        said = str(error)
    assert spark_session(pipeline).range(3).count() == 3
    return said


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]))
