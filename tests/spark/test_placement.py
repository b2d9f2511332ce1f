"""The interval's rows are exchanged once, the state never; an operator that needs another exchange is refused."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from polars.testing import assert_frame_equal
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from rebalance.errors import OperatorError, RebalanceError
from rebalance.partition import PartitionFunction, consistent_ring
from rebalance.pipeline.file import Pipeline
from rebalance.spark.events import events_of
from rebalance.spark.placement import Placing, exchanges, physical_plan, placing_session
from rebalance.spark.source import read_source
from rebalance.spark.task_times import job_group, known_stages
from rebalance.steps.process_batch import Batch, process_batch
from rebalance.steps.run import next_interval, run_intervals
from rebalance.storage.epochs import Epoch, current_epoch, load_function
from rebalance.storage.state import check_channels
from tests.support.markdown import blocks
from tests.support.world import (
    LATEST_MATCH,
    WINDOWED_SUM,
    Stages,
    expected_matches,
    first_interval,
    make_world,
    stored,
    stored_results,
)


def batch_of_next_interval(spark: SparkSession, pipeline: Pipeline) -> tuple[Batch, object]:
    """A batch that has events, routes and an earlier interval's state to place."""
    epoch = current_epoch(pipeline.tables)
    assert isinstance(epoch, Epoch)
    function = load_function(pipeline.tables, epoch.function_version)
    own, following = placing_session(spark), next_interval(pipeline)
    return Batch(pipeline, following, epoch, function, own, -1), events_of(
        read_source(own, pipeline, following), pipeline, following
    )


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
@pytest.mark.parametrize("in_place", [True, False], ids=["state in place", "state exchanged"])
def test_nothing_is_exchanged_after_the_rows_are_placed(
    spark: SparkSession, matches: Stages, tmp_path: Path, name: str, in_place: bool
) -> None:
    where = f"[spark]\nstate_in_place = {str(in_place).lower()}\n"
    if name == "latest_match":
        pipeline = matches.copy(tmp_path, "2 collect_stats", becomes=where)
    else:
        events = Path(matches.pipeline.source.path)
        pipeline = make_world(tmp_path, operator=WINDOWED_SUM, events_folder=events, more=where)
        run_intervals(pipeline, count=1)
    batch, events = batch_of_next_interval(spark, pipeline)
    frames = batch.frames(events)  # type: ignore[arg-type]
    assert batch.function.routes
    assert batch.epoch.state_version >= 0
    for frame in (frames.results, frames.state):
        # In place, the one exchange lies below what Spark is told is placed already.
        found = exchanges(frame)
        assert len(found) == (not in_place)
        assert in_place or found[0].startswith("Exchange shufflepartitionidpassthrough")
        # No key is split, so the salt is not even computed.
        assert "xxhash64" not in physical_plan(frame)
    assert ("Union" in physical_plan(frames.results)) == (not in_place)


def test_only_the_interval_s_rows_are_exchanged_whatever_the_window_holds(spark: SparkSession, tmp_path: Path) -> None:
    """By Spark's own metrics: the bytes of an interval's exchange are the same behind a window of two intervals and of five."""
    operator = LATEST_MATCH.replace("window = 2", "window = 5")
    wide = make_world(tmp_path / "wide", operator=operator, planner="keep", intervals=5, events=2000)
    events = Path(wide.source.path)
    narrow = make_world(tmp_path / "narrow", planner="keep", events_folder=events)
    exchanged = {}
    for pipeline in (wide, narrow):
        for number in range(4):
            process_batch(pipeline, first_interval(pipeline).shifted(number))
        batch, following = batch_of_next_interval(spark, pipeline)
        frames = batch.frames(following)  # type: ignore[arg-type]
        with job_group(batch.spark, "both tables") as group:
            results = frames.results.count()
            frames.state.write.format("noop").mode("overwrite").save()
        exchanged[pipeline.operator.window] = [results, *exchanged_bytes(batch.spark, group)]
    assert exchanged[5][1:] == exchanged[2][1:]
    assert len(exchanged[5]) == 2, "results and state come from one exchange"
    held = [len(stored(pipeline, "state")) for pipeline in (wide, narrow)]
    assert held == [4 * 2000, 2000]


def exchanged_bytes(spark: SparkSession, group: str) -> list[int]:
    """Bytes that each exchange of the group's jobs has written; one that counts results writes a few and is left out."""
    jsc = spark.sparkContext._jsc.sc()
    jsc.listenerBus().waitUntilEmpty(10_000)
    tracker = spark.sparkContext.statusTracker()
    stages = {stage for job in tracker.getJobIdsForGroup(group) for stage in tracker.getJobInfo(job).stageIds}  # type: ignore[union-attr]
    known = known_stages(jsc.statusStore(), sorted(stages))
    return [stage.shuffleWriteBytes() for stage in known if stage.shuffleWriteRecords() > 100]


def test_results_are_the_same_with_the_state_exchanged(spark: SparkSession, matches: Stages, tmp_path: Path) -> None:
    pipeline = matches.copy(tmp_path, "1 collect_stats", becomes="[spark]\nstate_in_place = false\n")
    run_intervals(pipeline, count=2)
    for number in (1, 2):
        interval = first_interval(pipeline).shifted(number)
        assert_frame_equal(stored_results(pipeline, interval), expected_matches(pipeline, interval), check_dtypes=False)


def test_where_spark_s_internals_are_missing_the_state_is_exchanged_with_a_message(
    spark: SparkSession,
    matches: Stages,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("rebalance.spark.in_place.CHANNEL", "no such column")
    pipeline = matches.copy(tmp_path, "1 process_batch")
    interval = first_interval(pipeline).shifted(1)
    with caplog.at_level(logging.WARNING, logger="rebalance"):
        process_batch(pipeline, interval)
    assert "cannot read it in place" in caplog.text
    assert_frame_equal(stored_results(pipeline, interval), expected_matches(pipeline, interval), check_dtypes=False)


def test_a_row_s_partition_is_its_channel(spark: SparkSession) -> None:
    own = placing_session(spark)
    rows = own.range(1000).select(F.col("id").alias("key"))
    for in_place in (True, False):
        placed = Placing(4, in_place).exchanged(rows, (F.col("key") % 4).cast("int")).df
        found = placed.select("key", "channel", F.spark_partition_id().alias("partition")).toArrow().to_pylist()
        assert len(found) == 1000
        assert all(row["key"] % 4 == row["channel"] == row["partition"] for row in found)


def test_state_on_a_channel_that_the_function_does_not_know_is_refused(
    spark: SparkSession, matches: Stages, tmp_path: Path
) -> None:
    pipeline = matches.copy(tmp_path, "1 process_batch")
    epoch = current_epoch(pipeline.tables)
    assert epoch is not None
    check_channels(pipeline.tables, epoch.state_version, 4)
    with pytest.raises(RebalanceError, match=r"has rows on the channels \[3\], but the active function has 3 channels"):
        check_channels(pipeline.tables, epoch.state_version, 3)


@pytest.fixture
def own_operator(project: Path, tmp_path: Path) -> Path:
    """The example of the documentation, word for word."""
    (example,) = [
        block for block in blocks((project / "docs" / "operators.md").read_text(), "python") if "OPERATOR = " in block
    ]
    file = tmp_path / "last_price.py"
    file.write_text(example)
    return file


def test_a_user_s_own_operator_is_one_file(spark: SparkSession, tmp_path: Path, own_operator: Path) -> None:
    operator = f'[operator]\nfile = "{own_operator.name}"\nwindow = 2'
    pipeline = make_world(tmp_path, operator=operator, intervals=2, events=1000)
    run_intervals(pipeline, count=1)
    assert "rows of" in process_batch(pipeline, next_interval(pipeline))


def test_an_operator_that_exchanges_again_is_refused_with_the_way_out(
    spark: SparkSession, tmp_path: Path, own_operator: Path
) -> None:
    by_key = own_operator.read_text().replace('rows.groupBy("channel", "key")', 'rows.groupBy("key")', 1)
    own_operator.write_text(by_key)
    pipeline = make_world(tmp_path, operator=f'[operator]\nfile = "{own_operator.name}"', intervals=1, events=500)
    with pytest.raises(OperatorError, match=r"last_price.*1 times more.*results.*GROUP BY key.*add channel"):
        process_batch(pipeline, first_interval(pipeline))


def test_ring_lookups_need_no_shuffle_of_their_own(spark: SparkSession) -> None:
    from rebalance.spark.routing import route

    function = PartitionFunction(version=0, channels=4, slots=consistent_ring(4), routes={"a": 1})
    assert exchanges(route(spark.createDataFrame([("a",)], "key string"), function)) == []
