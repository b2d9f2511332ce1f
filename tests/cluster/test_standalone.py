"""A real standalone cluster: a step that gets no worker says so, intervals survive the death of workers, and spark-submit runs the jobs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.find_spark_home import _find_spark_home

from rebalance.pipeline.file import Pipeline
from rebalance.steps.exits import PERSON
from rebalance.storage.epochs import all_epochs
from tests.support.budget import is_long
from tests.support.cluster import Cluster, foreign_python
from tests.support.streaks import ARROW, Plain, live_state, results_of, world
from tests.support.world import WINDOWED_SUM, first_interval, make_world, stored

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are found by Linux's /proc")
PROJECT = Path(__file__).resolve().parents[2]
#: The function refuses to run where the package can be imported, and takes a moment, so that there is a middle of it.
FUNCTION = ARROW.replace(
    "    if calls:",
    """\
    import importlib.util
    import time

    if importlib.util.find_spec("rebalance"):
        raise RuntimeError("this executor can import the package")
    time.sleep(0.002)
    if calls:""",
)
SMALL = """
[spark]
master = "{master}"
{knobs}
[spark.settings]
"spark.pyspark.python" = "{python}"
"spark.executor.memory" = "512m"
"spark.driver.memory" = "512m"
"spark.driver.host" = "127.0.0.1"
"spark.sql.shuffle.partitions" = "4"
"spark.databricks.delta.snapshotPartitions" = "1"
"spark.starvation.timeout" = "1s"
"""
#: For each interval, the step in which a worker dies, after how many stages that have had a task at work, and whether Spark moves the rows.
KILLS = [("collect_stats", 0, False), ("migrate_state", 0, False), ("process_batch", 1, False)]
MORE_KILLS = [
    *(("process_batch", skip, False) for skip in (0, 2, 3)),
    *(("migrate_state", skip, True) for skip in range(3)),
    ("migrate_state", 1, False),
    ("collect_stats", 1, False),
    ("process_batch", 1, True),
]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What executors run: a Python without this package."""
    return foreign_python(tmp_path_factory.mktemp("python") / "env")


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster without workers."""
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        cluster.start_master()
        yield cluster
    finally:
        cluster.stop()


def with_workers(cluster: Cluster, count: int) -> Cluster:
    """The same with workers."""
    alive = [process for process in cluster.started[1:] if process.poll() is None]
    for _ in range(count - len(alive)):
        cluster.start_worker()
    return cluster


def small_world(folder: Path, master: Cluster, python: Path, knobs: str = "", **how: Any) -> Pipeline:
    settings = SMALL.format(master=master.address, python=python, knobs=knobs)
    return world(folder, FUNCTION, planner="mixed", more=settings, **how)


def submitted(job: str, pipeline: Pipeline, *how: str) -> subprocess.CompletedProcess[str]:
    """A job by Spark's own spark-submit, started as people do, in the environment of this project."""
    command = [str(Path(_find_spark_home()) / "bin" / "spark-submit"), *how, str(PROJECT / "jobs" / f"{job}.py")]
    interval = first_interval(pipeline).id
    environ = {**os.environ, "PYSPARK_DRIVER_PYTHON": sys.executable, "PYTHONPATH": str(PROJECT)}
    return subprocess.run(
        [*command, "--pipeline", str(pipeline.file), "--interval", interval],
        env=environ,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_a_step_that_no_worker_takes_fails_in_good_time_and_says_where_to_look(
    master: Cluster, python: Path, tmp_path: Path
) -> None:
    pipeline = small_world(tmp_path, master, python, "resources_timeout_minutes = 0.05", intervals=1)
    began = time.monotonic()
    command = [sys.executable, str(PROJECT / "jobs" / "collect_stats.py"), "--pipeline", str(pipeline.file)]
    done = subprocess.run(
        [*command, "--interval", first_interval(pipeline).id], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == PERSON, done.stderr
    assert time.monotonic() - began < 120
    lines = done.stderr.splitlines()
    (error,) = [line for line in lines if line.startswith("EnvironmentMissingError: ")]
    assert f"{master.address} has had no executor at work for a job of ours for " in error
    assert "spark.resources_timeout_minutes" in error
    # Spark's own words, and ours while there is still time to do something about it.
    assert any("WARN" in line and "has not accepted any resources" in line for line in lines)
    assert any("it is given up after 0.05 minutes" in line for line in lines)
    assert not (Path(pipeline.tables) / "interval_stats").exists()


def test_workers_killed_in_the_middle_of_three_steps_change_no_result_and_no_count(
    master: Cluster, python: Path, tmp_path: Path
) -> None:
    cluster = with_workers(master, 2)
    kills = [*KILLS, *(MORE_KILLS if is_long() else [])]
    pipeline = small_world(tmp_path, cluster, python, intervals=len(kills), events=3000)
    environ = {**os.environ, "REBALANCE_PIPELINES": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.cluster_run", str(tmp_path), cluster.address, json.dumps(kills)],
        cwd=PROJECT,
        env=environ,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-10_000:]
    told = json.loads(done.stdout.strip().splitlines()[-1])
    assert told["killed"] == [step for step, _, _ in kills]
    assert (told["pythons"], told["answers"]) == ([str(python)], ["2026-01-01T00:00:00+00:00"])
    assert "master has ended this application" in told["ended"]
    assert done.stderr.count("Lost executor") >= len(told["killed"])
    assert "state is exchanged" not in done.stderr, "it must be read where it lies"
    check_all(pipeline, [step for step, _, _ in kills])


def check_all(pipeline: Pipeline, struck: list[str]) -> None:
    """Results, state and every count equal a plain recomputation; tasks that nobody has killed were measured."""
    plain = Plain(pipeline)
    assert any(epoch.kind == "migrate" for epoch in all_epochs(pipeline.tables))
    for number, step in enumerate(struck):
        interval = first_interval(pipeline).shifted(number)
        expected = plain.process(interval)
        assert results_of(pipeline, interval) == expected
        counted = plain.events.filter((pl.col("ts") >= interval.start) & (pl.col("ts") < interval.end))
        by_key = counted.group_by(key="symbol").agg(rows=pl.len().cast(pl.Int64)).sort("key")

        def own(table: str, interval_id: str = interval.id) -> pl.DataFrame:
            return stored(pipeline, table).filter(pl.col("interval_id") == interval_id)

        assert own("key_stats").filter(pl.col("tuples") > 0).select("key", rows="tuples").sort("key").equals(by_key)
        assert own("interval_stats")["rows"].to_list() == [counted.height]
        assert own("key_costs").select("key", "rows").sort("key").equals(by_key)
        (batch,) = own("batches").to_dicts()
        assert batch["rows"] == sum(batch["tuples"]) == counted.height
        assert step == "process_batch" or all(seconds > 0 for seconds in batch["task_seconds"])
    assert live_state(pipeline) == plain.live()


def test_spark_submit_runs_a_job_on_the_cluster_in_client_mode(master: Cluster, python: Path, tmp_path: Path) -> None:
    cluster = with_workers(master, 1)
    pipeline = small_world(tmp_path, cluster, python, intervals=1)
    # Where the file names no master, spark-submit's counts.
    pipeline.file.write_text(pipeline.file.read_text().replace(f'master = "{cluster.address}"', ""))
    done = submitted("process_batch", pipeline, "--master", cluster.address)
    assert done.returncode == 0, done.stderr[-10_000:]
    assert results_of(pipeline, first_interval(pipeline)) == Plain(pipeline).process(first_interval(pipeline))
    assert cluster.address in done.stderr


def test_frequent_keys_are_found_by_workers_that_have_not_the_package(
    master: Cluster, python: Path, tmp_path: Path
) -> None:
    cluster = with_workers(master, 1)
    settings = SMALL.format(master=cluster.address, python=python, knobs="")
    planner = 'mixed"\nstatistics = "frequent"\nfrequent_error = 0.02\nmode = "auto'
    pipeline = make_world(tmp_path, operator=WINDOWED_SUM, planner=planner, more=settings, intervals=1)
    done = submitted("collect_stats", pipeline)
    assert done.returncode == 0, done.stderr[-10_000:]
    events = pl.read_parquet(f"{pipeline.source.path}/*.parquet")
    counts = events.group_by(key="symbol").agg(tuples=pl.len().cast(pl.Int64)).sort("key")
    large = pl.col("tuples") >= 60
    assert stored(pipeline, "key_stats").sort("key").select("key", "tuples").equals(counts.filter(large))
    (counted,) = stored(pipeline, "interval_stats").to_dicts()
    assert (counted["rows"], counted["statistics"]) == (3000, "frequent")
    assert counts.filter(~large)["tuples"].max() <= counted["unnamed_tuples"] <= 59


def test_spark_itself_refuses_python_in_cluster_mode_on_a_standalone_master(
    master: Cluster, python: Path, tmp_path: Path
) -> None:
    pipeline = small_world(tmp_path, master, python, intervals=1)
    done = submitted("process_batch", pipeline, "--master", master.address, "--deploy-mode", "cluster")
    assert done.returncode != 0
    assert "not supported for python applications on standalone clusters" in done.stderr + done.stdout
    assert not Path(pipeline.tables).exists()
