"""A process killed at any moment of a verb, then run again: the same state, results and epoch as if nothing had happened.

The killed process is a real one with its own Spark, killed by SIGKILL at a named moment between two steps.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rebalance.pipeline.file import Pipeline
from rebalance.steps import STEPS, run_step
from rebalance.steps.faults import KILL_AT
from rebalance.steps.run import run_interval
from rebalance.storage.epochs import all_epochs
from tests.support.world import contents, first_interval, make_world

PROJECT = Path(__file__).resolve().parents[2]
SOURCES = PROJECT / "rebalance" / "steps"


def moments(verb: str) -> list[str]:
    """Every moment that the verb's module names."""
    found = re.findall(r'checkpoint\("([^"]+)"\)', (SOURCES / f"{verb}.py").read_text())
    return list(dict.fromkeys(found))


@pytest.fixture(scope="module")
def undisturbed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """Two intervals that nothing has happened to."""
    pipeline = make_world(tmp_path_factory.mktemp("undisturbed"), intervals=2)
    for number in range(2):
        run_interval(pipeline, first_interval(pipeline).shifted(number))
    return pipeline


def kill(pipeline: Pipeline, verb: str, interval: str, moment: str) -> None:
    """Run a job in a process of its own that dies at the moment."""
    job = subprocess.run(
        [sys.executable, f"jobs/{verb}.py", "--pipeline", str(pipeline.file), "--interval", interval],
        cwd=PROJECT,
        env={**os.environ, KILL_AT: moment, "PYTHONPATH": str(PROJECT)},
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert job.returncode == -signal.SIGKILL, job.stderr.decode()


MOMENTS = [(verb, moment) for verb in ("process_batch", "make_plan", "migrate_state") for moment in moments(verb)]


@pytest.fixture(scope="module")
def prepared(undisturbed: Pipeline, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Pipeline]:
    """For each verb a world in which the second interval has come as far as that verb."""
    pipeline = make_world(tmp_path_factory.mktemp("prepared"), events_folder=Path(undisturbed.source.path))
    run_interval(pipeline, first_interval(pipeline))
    worlds = {}
    for step in STEPS:
        worlds[step.name] = copy(pipeline, tmp_path_factory.mktemp(step.name))
        run_step(step.name, pipeline, first_interval(pipeline).shifted(1))
    return worlds


def copy(pipeline: Pipeline, folder: Path) -> Pipeline:
    shutil.copytree(pipeline.tables, folder / "tables")
    return make_world(folder, events_folder=Path(pipeline.source.path))


@pytest.mark.parametrize(("verb", "moment"), MOMENTS, ids=[moment for _, moment in MOMENTS])
def test_a_kill_at_this_moment_leaves_no_trace(
    undisturbed: Pipeline, prepared: dict[str, Pipeline], tmp_path: Path, verb: str, moment: str
) -> None:
    pipeline = copy(prepared[verb], tmp_path)
    second = first_interval(pipeline).shifted(1)
    before = all_epochs(pipeline.tables)
    kill(pipeline, verb, second.id, moment)
    assert len(all_epochs(pipeline.tables)) - len(before) == ("epoch published" in moment)
    run_interval(pipeline, second)
    assert contents(pipeline) == contents(undisturbed)
