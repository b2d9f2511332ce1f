"""A JVM that dies under a process that lives on, as a kernel without memory kills it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.world import Stages, contents, first_interval

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a process's JVM is found by Linux's /proc")
PROJECT = Path(__file__).resolve().parents[2]
#: Takes the second interval through all steps; the JVM dies in the first of them.
PROGRAM = """
import os, signal, sys
from pathlib import Path
from rebalance.pipeline.file import load_pipeline
from rebalance.steps import collect_stats
from rebalance.steps.run import run_interval
from tests.support.victims import jvm_of


def checkpoint(moment):
    if moment == "collect_stats: channels stored":
        os.kill(jvm_of(os.getpid()), signal.SIGKILL)
        spark.range(1).count()


collect_stats.checkpoint = checkpoint
pipeline = load_pipeline(Path(sys.argv[1]))
from rebalance.spark.session import spark_session
spark = spark_session(pipeline)
run_interval(pipeline, pipeline.interval_at(pipeline.interval.first).shifted(1))
"""


def test_a_jvm_that_dies_is_named_and_the_results_come_from_another_one(matches: Stages, tmp_path: Path) -> None:
    pipeline = matches.copy(tmp_path, "1 collect_stats")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(pipeline.file)],
        cwd=PROJECT,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    (failed,) = [line for line in done.stdout.splitlines() if "WARNING" in line]
    assert "collect_stats" in failed
    assert "EnvironmentMissingError: Spark's JVM has died in the middle of this step" in failed
    assert "lower spark.driver.memory" in failed
    expected = contents(matches.copy(tmp_path / "undisturbed", "2 collect_stats"))
    second = first_interval(pipeline).shifted(1).id
    found = [row for row in contents(pipeline)["results"] if row["interval_id"] == second]
    assert found == [row for row in expected["results"] if row["interval_id"] == second]
