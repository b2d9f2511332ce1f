"""The events of an interval, from wherever the team keeps them."""

from __future__ import annotations

from datetime import UTC, datetime

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rebalance.errors import SourceError
from rebalance.pipeline.file import Pipeline
from rebalance.pipeline.intervals import Interval


def read_source(spark: SparkSession, pipeline: Pipeline) -> DataFrame:
    """All events, unread: the columns as they are in the source."""
    source = pipeline.source
    reader = spark.read.format(source.format)
    if source.columns:
        reader = reader.schema(source.columns)
    if source.format == "csv":
        # Types are given, so a value that does not fit one must not silently become null.
        reader = reader.option("header", True).option("mode", "FAILFAST")
    try:
        events = reader.load(source.path)
    except AnalysisException as error:
        raise SourceError(
            f"the events at {source.path} cannot be read as {source.format}: {str(error).splitlines()[0]} "
            "Check source.path and source.format."
        ) from error
    _check_columns(events, pipeline)
    return events


def events_of(events: DataFrame, pipeline: Pipeline, interval: Interval) -> DataFrame:
    """The interval's events, [start, end) by event time, with that time as `time`."""
    time = F.col(pipeline.source.time)
    within = (time >= F.lit(interval.start).cast("timestamp")) & (time < F.lit(interval.end).cast("timestamp"))
    return events.where(within).withColumn("time", time.cast("timestamp"))


def count_null_keys(events: DataFrame, pipeline: Pipeline) -> int:
    """How many events have no key; asked only after a job has stumbled over one."""
    is_null = F.lit(False)
    for column in pipeline.source.key:
        is_null = is_null | F.col(column).isNull()
    return events.where(is_null).count()


def _check_columns(events: DataFrame, pipeline: Pipeline) -> None:
    source, types = pipeline.source, dict(events.dtypes)
    for column in (*source.key, source.time):
        if column not in types:
            raise SourceError(
                f"the events at {source.path} have no column {column!r}. Their columns are: {', '.join(events.columns)}. "
                "Change source.key or source.time."
            )
    if "salt" in types:
        raise SourceError(
            "the events have a column 'salt'; the name is needed for the number by which tuples of split keys choose a channel. "
            "Rename it in the source."
        )
    if types[source.time] not in ("timestamp", "timestamp_ntz", "date"):
        raise SourceError(
            f"source.time = {source.time!r} is {types[source.time]}, not a timestamp. Cast it in the source, or name another column."
        )
    for taken, ours in (("key", source.key == ("key",)), ("time", source.time == "time")):
        if taken in types and not ours:
            raise SourceError(
                f"the events have a column {taken!r} that is not the pipeline's {taken}; the name is needed. Rename it in the source."
            )


def newest_event(spark: SparkSession, pipeline: Pipeline) -> datetime | None:
    """Time of the newest event since the first interval, None when there is none."""
    time = F.col(pipeline.source.time).cast("timestamp")
    newest = read_source(spark, pipeline).agg(F.max(F.unix_micros(time)).alias("t")).first()
    if newest is None or newest["t"] is None:
        return None
    found = datetime.fromtimestamp(newest["t"] / 1e6, UTC)
    return found if found >= pipeline.interval.first else None
