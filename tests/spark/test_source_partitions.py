"""Partitioned sources: an interval lists and reads its own files and no others, however long the history is."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession

from rebalance.errors import SourceError
from rebalance.pipeline.file import Pipeline
from rebalance.pipeline.intervals import Interval
from rebalance.spark.events import events_of
from rebalance.spark.folders import Folders
from rebalance.spark.source import newest_event, read_source
from rebalance.steps import Insist
from rebalance.steps.process_batch import process_batch
from rebalance.steps.run import last_interval
from rebalance.stores.places import for_spark
from tests.spark.test_sources import pipeline_on, sums
from tests.support.world import first_interval

pytestmark = pytest.mark.usefixtures("few_rows")

#: The source of most tests: folders by day and hour, the hour as Spark writes numbers.
HOURLY = 'path = "events"\nformat = "parquet"\nkey = "user"\npartitions = {day = "%Y-%m-%d", hour = "%-H"}'


def events(start: datetime, user: int = 1, amount: float = 1.0) -> pl.DataFrame:
    times = [start + timedelta(minutes=minute) for minute in (10, 20)]
    rows = {"ts": times, "user": [user, user + 1], "amount": [amount, amount]}
    return pl.DataFrame(rows, schema_overrides={"ts": pl.Datetime("us", "UTC")})


def folder_of(pipeline: Pipeline, interval: Interval) -> Path:
    return Path(pipeline.source.path) / f"day={interval.start:%Y-%m-%d}" / f"hour={interval.start.hour}"


def put(pipeline: Pipeline, interval: Interval, rows: pl.DataFrame) -> None:
    folder = folder_of(pipeline, interval)
    folder.mkdir(parents=True, exist_ok=True)
    rows.write_parquet(folder / "in.parquet")


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The folders whose existence or content is asked for, as they are asked for."""
    asked: list[str] = []
    opened = Folders._opened

    def opening(self: Folders, folder: str) -> tuple[Any, Any]:
        asked.append(folder)
        return opened(self, folder)

    monkeypatch.setattr(Folders, "_opened", opening)
    return asked


def test_an_interval_reads_its_own_folders_and_one_that_is_not_there_has_no_events(
    spark: SparkSession, tmp_path: Path, listed: list[str]
) -> None:
    pipeline = pipeline_on(tmp_path, HOURLY)
    first = first_interval(pipeline)
    for number in (0, 2):
        put(pipeline, first.shifted(number), events(first.shifted(number).start, user=number))
    found = read_source(spark, pipeline, first)
    assert [Path(file).parent.name for file in found.inputFiles()] == ["hour=0"]
    assert sorted(set(listed)) == [
        f"{for_spark(pipeline.source.path)}/day=2026-01-01/hour=0",
        f"{for_spark(pipeline.source.path)}/day=__HIVE_DEFAULT_PARTITION__",
    ]
    for number in range(3):
        process_batch(pipeline, first.shifted(number))
    assert sums(pipeline) == [(0, 1, 1.0), (1, 1, 1.0), (2, 1, 1.0), (3, 1, 1.0)]
    assert last_interval(pipeline) == first.shifted(2)


def test_the_newest_event_is_looked_for_in_the_newest_folders_and_not_before_what_was_processed(
    spark: SparkSession, tmp_path: Path, listed: list[str]
) -> None:
    pipeline = pipeline_on(tmp_path, HOURLY)
    first = first_interval(pipeline)
    for number in (0, 9, 10, 25):
        put(pipeline, first.shifted(number), events(first.shifted(number).start))
    put(pipeline, first.shifted(30), events(first.start)[:0])
    assert newest_event(spark, pipeline) == first.shifted(25).start + timedelta(minutes=20)
    root = for_spark(pipeline.source.path)
    assert set(listed) == {root, f"{root}/day=2026-01-02"}
    for number in range(2):
        process_batch(pipeline, first.shifted(number))
    for number in (10, 25, 9):
        (folder_of(pipeline, first.shifted(number)) / "in.parquet").unlink()
        folder_of(pipeline, first.shifted(number)).rmdir()
    put(pipeline, first, events(first.start))
    assert newest_event(spark, pipeline) == first.shifted(1).start, (
        "nothing came since the newest interval that is done"
    )


@pytest.mark.parametrize(
    ("partitions", "message"),
    [
        pytest.param('{day = "%Y-%m-%d", hour = "%H"}', "folders like hour=%H, but there is 'hour=5'", id="format"),
        pytest.param('{date = "%Y-%m-%d"}', "folders like date=%Y-%m-%d, but there is 'day=2026-01-01'", id="column"),
    ],
)
def test_folders_that_are_not_as_declared_are_refused_not_taken_for_no_events(
    spark: SparkSession, tmp_path: Path, partitions: str, message: str
) -> None:
    pipeline = pipeline_on(tmp_path, HOURLY.partition("partitions")[0] + f"partitions = {partitions}")
    first = first_interval(pipeline)
    put(pipeline, first.shifted(5), events(first.shifted(5).start))
    for asked in (
        lambda: process_batch(pipeline, first.shifted(5), Insist(skip=True)),
        lambda: newest_event(spark, pipeline),
    ):
        with pytest.raises(SourceError, match=message):
            asked()


def test_a_source_without_any_folder_says_so(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = pipeline_on(tmp_path, HOURLY)
    with pytest.raises(SourceError, match=r"no folder for a day and hour yet.*Check source\.path"):
        process_batch(pipeline, first_interval(pipeline))


def test_a_row_in_the_folder_of_another_time_is_refused_because_no_interval_would_find_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    pipeline = pipeline_on(tmp_path, HOURLY)
    first = first_interval(pipeline)
    put(pipeline, first, pl.concat([events(first.start), events(first.shifted(3).start)[:1]]))
    with pytest.raises(
        SourceError, match=r"^1 event .* in a partition of another time \(day \+ hour\), for example .*03:10"
    ):
        process_batch(pipeline, first)
    daily = HOURLY.replace(', hour = "%-H"', "")
    aside = pipeline_on(tmp_path, f'{daily}\non_bad_rows = "quarantine"')
    put(pipeline, first, pl.concat([events(first.start), events(first.shifted(30).start)[:1]]))
    for number in range(2):
        process_batch(aside, first.shifted(number))
    assert pl.read_delta(f"{aside.tables}/quarantine")["reason"].to_list() == ["wrong partition"]


def test_rows_without_a_time_are_found_where_spark_puts_them(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = pipeline_on(tmp_path, HOURLY)
    first = first_interval(pipeline)
    rows = pl.concat([events(first.start), events(first.start).with_columns(ts=pl.lit(None, pl.Datetime("us", "UTC")))])
    rows.write_parquet(tmp_path / "in.parquet")
    given = spark.read.parquet(str(tmp_path / "in.parquet"))
    given.selectExpr("*", "date(ts) AS day", "hour(ts) AS hour").write.partitionBy("day", "hour").parquet(
        pipeline.source.path
    )
    with pytest.raises(SourceError, match=r"^2 events .* have no time"):
        process_batch(pipeline, first)


PAST = 2000


def test_after_two_thousand_intervals_the_source_is_read_as_after_one(
    spark: SparkSession, tmp_path: Path, listed: list[str]
) -> None:
    pipeline = pipeline_on(tmp_path, HOURLY)
    first = first_interval(pipeline)
    put(pipeline, first, events(first.start))
    file = folder_of(pipeline, first) / "in.parquet"
    for number in range(1, PAST):
        folder = folder_of(pipeline, first.shifted(number))
        folder.mkdir(parents=True)
        os.link(file, folder / "in.parquet")
    newest = first.shifted(PAST)
    put(pipeline, newest, events(newest.start))
    found = read_source(spark, pipeline, newest)
    assert len(found.inputFiles()) == 1
    assert len(listed) == 2
    assert events_of(found, pipeline, newest).count() == 2
    assert newest_event(spark, pipeline) == newest.start + timedelta(minutes=20)
    assert len(listed) == 2 + 2, "the root and the newest day"


@pytest.mark.parametrize("kind", ["string", "number"])
def test_of_a_delta_table_with_two_thousand_partitions_one_is_read(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    partitions = '{day = "%Y-%m-%d", hour = "%H"}' if kind == "string" else '{stamp = "%Y%m%d%H"}'
    pipeline = pipeline_on(tmp_path, f'path = "events"\nkey = "user"\npartitions = {partitions}')
    first = first_interval(pipeline)
    past = PAST if kind == "string" else 30
    rows = pl.DataFrame(
        {"ts": [first.shifted(number).start for number in range(past)], "user": 1, "amount": 1.0},
        schema_overrides={"ts": pl.Datetime("us", "UTC")},
    )
    if kind == "string":
        columns = {"day": pl.col("ts").dt.strftime("%Y-%m-%d"), "hour": pl.col("ts").dt.strftime("%H")}
    else:
        columns = {"stamp": pl.col("ts").dt.strftime("%Y%m%d%H").cast(pl.Int32)}
    write_deltalake(pipeline.source.path, rows.with_columns(**columns), partition_by=list(columns))
    interval = first.shifted(past - 5)
    found = events_of(read_source(spark, pipeline, interval), pipeline, interval)
    assert found.count() == 1
    assert files_read(found) == 1
    assert newest_event(spark, pipeline) == first.shifted(past - 1).start


def files_read(df: Any) -> int:
    """How many files the scans of an executed query have read, by Spark's own metrics."""
    df.collect()
    plan = df._jdf.queryExecution().executedPlan()
    leaves = plan.collectLeaves()
    return sum(
        leaves.apply(i).metrics().apply("numFiles").value()
        for i in range(leaves.size())
        if leaves.apply(i).metrics().contains("numFiles")
    )


def test_a_partition_column_that_a_delta_table_has_not_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = pipeline_on(tmp_path, 'path = "events"\nkey = "user"\npartitions = {day = "%Y-%m-%d"}')
    write_deltalake(pipeline.source.path, events(first_interval(pipeline).start))
    with pytest.raises(SourceError, match=r"source\.partitions names 'day'.*no such column.*ts, user, amount"):
        process_batch(pipeline, first_interval(pipeline))


@pytest.mark.parametrize(
    ("written", "stored", "message"),
    [
        ("%Y-%m-%d", "2026/01/01", "day is like %Y-%m-%d, but at .* there is '2026/01/01'"),
        ("%Y-%m-%d", 20260101, r"column 'day' is (int|bigint), but its format gives '2026-01-01'"),
    ],
)
def test_partitions_of_a_delta_table_that_are_not_as_declared_are_refused(
    spark: SparkSession, tmp_path: Path, written: str, stored: str | int, message: str
) -> None:
    pipeline = pipeline_on(tmp_path, f'path = "events"\nkey = "user"\npartitions = {{day = "{written}"}}')
    first = first_interval(pipeline)
    write_deltalake(pipeline.source.path, events(first.start).with_columns(day=pl.lit(stored)), partition_by=["day"])
    with pytest.raises(SourceError, match=message):
        read_source(spark, pipeline, first)


def test_a_delta_table_may_be_named_as_the_catalog_has_it(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql(f"CREATE DATABASE shop LOCATION '{tmp_path / 'warehouse'}'")
    try:
        pipeline = pipeline_on(tmp_path, 'table = "shop.events"\nkey = "user"\non_bad_rows = "quarantine"')
        first = first_interval(pipeline)
        with pytest.raises(SourceError, match=r"events at shop\.events cannot be read.*Check source\.table"):
            process_batch(pipeline, first)
        events(first.start).write_parquet(tmp_path / "in.parquet")
        spark.read.parquet(str(tmp_path / "in.parquet")).write.format("delta").saveAsTable("shop.events")
        assert last_interval(pipeline) == first
        process_batch(pipeline, first)
        assert sums(pipeline) == [(1, 1, 1.0), (2, 1, 1.0)]
    finally:
        spark.sql("DROP DATABASE shop CASCADE")
