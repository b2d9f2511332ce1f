"""One exchange, for every operator; an operator that needs a second one is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from rebalance.errors import OperatorError
from rebalance.partition import PartitionFunction, consistent_ring
from rebalance.pipeline.file import Pipeline
from rebalance.spark.placement import exchanges, physical_plan, place, placing_session
from rebalance.spark.source import events_of, read_source
from rebalance.steps.process_batch import Batch, process_batch
from rebalance.steps.run import next_interval, run_intervals
from rebalance.storage.epochs import Epoch, current_epoch, load_function
from tests.support.world import WINDOWED_SUM, Stages, first_interval, make_world


def batch_of_next_interval(spark: SparkSession, pipeline: Pipeline) -> tuple[Batch, object]:
    """A batch that has events, routes and an earlier interval's state to place."""
    epoch = current_epoch(pipeline.tables)
    assert isinstance(epoch, Epoch)
    function = load_function(pipeline.tables, epoch.function_version)
    own, following = placing_session(spark), next_interval(pipeline)
    return Batch(pipeline, following, epoch, function, own), events_of(read_source(own, pipeline), pipeline, following)


def test_the_session_of_placed_work_has_the_settings_made_so_far_and_keeps_its_own_to_itself(
    spark: SparkSession,
) -> None:
    name, adaptive = "spark.sql.shuffle.partitions", "spark.sql.adaptive.enabled"
    before = spark.conf.get(name)
    spark.conf.set(name, "3")
    try:
        own = placing_session(spark)
    finally:
        spark.conf.set(name, before)
    assert (own.conf.get(name), own.conf.get(adaptive)) == ("3", "false")
    assert (spark.conf.get(name), spark.conf.get(adaptive)) == (before, "true")


@pytest.mark.parametrize("name", ["latest_match", "windowed_sum"])
def test_events_and_state_are_exchanged_exactly_once(
    spark: SparkSession, matches: Stages, tmp_path: Path, name: str
) -> None:
    if name == "latest_match":
        pipeline = matches.copy(tmp_path, "1 process_batch")
    else:
        pipeline = make_world(tmp_path, operator=WINDOWED_SUM, events_folder=Path(matches.pipeline.source.path))
        run_intervals(pipeline, count=1)
    batch, events = batch_of_next_interval(spark, pipeline)
    frames = batch.frames(events)  # type: ignore[arg-type]
    assert batch.function.routes
    assert batch.epoch.state_version >= 0
    for frame in (frames.results, frames.state, frames.counts):
        assert exchanges(frame) == ["Exchange shufflepartitionidpassthrough"]
        assert "Union" in physical_plan(frame)
        # No key is split, so the salt is not even computed.
        assert "xxhash64" not in physical_plan(frame)
    frames.release()


def test_a_row_s_partition_is_its_channel(spark: SparkSession) -> None:
    own = placing_session(spark)
    rows = own.range(1000).select(
        F.col("id").alias("key"), (F.col("id") % 4).cast("int").alias("channel"), F.lit("i").alias("interval_id")
    )
    placed = place(rows, 4, "i")
    assert placed.where(F.spark_partition_id() != F.col("channel")).count() == 0
    placed.unpersist()


@pytest.mark.parametrize("channel", ["4", "-1", "NULL"])
def test_a_channel_out_of_range_fails_instead_of_wrapping(spark: SparkSession, channel: str) -> None:
    own = placing_session(spark)
    rows = own.range(10).select(
        F.col("id").alias("key"), F.expr(f"CAST({channel} AS INT)").alias("channel"), F.lit("i").alias("interval_id")
    )
    placed = place(rows, 4, "i")
    with pytest.raises(PySparkException, match=r"0\.\.3|channel"):
        placed.count()
    placed.unpersist()


@pytest.fixture
def own_operator(project: Path, tmp_path: Path) -> Path:
    """The example of the documentation, word for word."""
    (example,) = re.findall(r"```python\n(.*?OPERATOR = .*?)```", (project / "docs" / "operators.md").read_text(), re.S)
    file = tmp_path / "last_price.py"
    file.write_text(example)
    return file


def test_a_user_s_own_operator_is_one_file(spark: SparkSession, tmp_path: Path, own_operator: Path) -> None:
    operator = f'[operator]\nfile = "{own_operator.name}"\nwindow = 2'
    pipeline = make_world(tmp_path, operator=operator, intervals=2, events=1000)
    run_intervals(pipeline, count=1)
    assert "events of" in process_batch(pipeline, next_interval(pipeline))


def test_an_operator_that_exchanges_again_is_refused_with_the_way_out(
    spark: SparkSession, tmp_path: Path, own_operator: Path
) -> None:
    by_key = own_operator.read_text().replace('rows.groupBy("channel", "key")', 'rows.groupBy("key")', 1)
    own_operator.write_text(by_key)
    pipeline = make_world(tmp_path, operator=f'[operator]\nfile = "{own_operator.name}"', intervals=1, events=500)
    with pytest.raises(OperatorError, match=r'last_price.*2 times.*by \("channel", "key"\)'):
        process_batch(pipeline, first_interval(pipeline))


def test_ring_lookups_need_no_shuffle_of_their_own(spark: SparkSession) -> None:
    from rebalance.spark.routing import route

    function = PartitionFunction(version=0, channels=4, slots=consistent_ring(4), routes={"a": 1})
    assert exchanges(route(spark.createDataFrame([("a",)], "key string"), function)) == []
