"""The demo's pipeline and stream at a smaller size: what its picture shows, and its interval by the hash on the clock."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import SparkSession

from rebalance.demo.__main__ import PIPELINE
from rebalance.demo.clock import race
from rebalance.demo.events import demo_workload, write_trades
from rebalance.partition import consistent_ring
from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.steps.run import run_intervals
from rebalance.storage import control
from rebalance.storage.history import read_history
from rebalance.storage.reader import open_tables
from tests.support.world import first_interval, stored_results

INTERVALS, EVENTS = 3, 20_000


@pytest.fixture(scope="module")
def pipeline(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """The demo's intervals, run."""
    folder = tmp_path_factory.mktemp("demo")
    file = folder / "demo.toml"
    file.write_text(PIPELINE.read_text().replace("../../.local/demo/", ""))
    pipeline = load_pipeline(file)
    workload = demo_workload(pipeline.channels.count)
    write_trades(Path(pipeline.source.path), first_interval(pipeline), workload, intervals=INTERVALS, events=EVENTS)
    assert run_intervals(pipeline, count=INTERVALS) == INTERVALS
    return pipeline


def test_every_interval_of_the_picture_is_within_theta_max_or_at_its_heaviest_key(pipeline: Pipeline) -> None:
    records = read_history(pipeline.tables)
    assert len(records) == INTERVALS
    for record in records:
        cost = control.read(pipeline.tables, "key_stats", interval_id=record.interval_id)["cost"].to_numpy()
        heaviest = np.max(cost) * pipeline.channels.count / np.sum(cost)
        assert record.reached <= max(1 + pipeline.planning.theta_max, heaviest) + 1e-9
        assert record.without > 1 + pipeline.planning.theta_max, "by the hash alone there would be nothing to see"


def test_an_interval_on_the_clock_has_the_same_results_by_the_hash_alone_as_by_the_plan(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    last, planned = first_interval(pipeline).shifted(INTERVALS - 1), open_tables(pipeline.tables).function
    ring = replace(planned, slots=consistent_ring(planned.channels), routes={})
    before = read_history(pipeline.tables)
    runs = race(pipeline, last, {"hash": ring, "plan": planned}, tmp_path)
    for name, run in runs.items():
        assert (run.interval_id, run.rows, len(run.task_seconds)) == (last.id, EVENTS, planned.channels)
        own = pipeline.model_copy(update={"tables": str(tmp_path / f"{name}-1")})
        assert stored_results(own, last).equals(stored_results(pipeline, last))
        used = open_tables(own.tables).function
        assert (used.routes == {}) == (name == "hash")
    assert read_history(pipeline.tables) == before
