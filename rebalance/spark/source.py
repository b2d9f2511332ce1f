"""The events of an interval, from wherever the team keeps them."""

from __future__ import annotations

from datetime import UTC, datetime

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DoubleType, LongType, StructField, StructType

from rebalance.errors import SourceError, StoreError
from rebalance.pipeline.file import Pipeline
from rebalance.pipeline.intervals import Interval
from rebalance.spark.routing import NULL_KEY, SALT
from rebalance.stores.places import for_spark

#: Numbers by their widest type, which files of all narrower ones can be read as.
_WIDEST: dict[str, DataType] = {
    "byte": LongType(),
    "short": LongType(),
    "integer": LongType(),
    "float": DoubleType(),
}


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
        events = reader.load(for_spark(source.path))
        if source.format == "parquet":
            events = _widest(reader, events, for_spark(source.path))
    except AnalysisException as error:
        raise SourceError(
            f"the events at {source.path} cannot be read as {source.format}: {str(error).splitlines()[0]} "
            "Check source.path and source.format."
        ) from error
    except Py4JJavaError as error:
        said = str(error.java_exception.getMessage()).splitlines()[0]
        raise StoreError(
            f"the events at {source.path} cannot be reached: {said}. Nothing was done. Check source.path, and the store's credentials and "
            "endpoint (docs/object_stores.md)."
        ) from None
    _check_columns(events, pipeline)
    return events


def _widest(reader: DataFrameReader, events: DataFrame, path: str) -> DataFrame:
    """The same files with their numbers in the widest type: a column may be INT in some files and BIGINT in others."""
    columns = [
        StructField(field.name, _WIDEST.get(field.dataType.typeName(), field.dataType), field.nullable)
        for field in events.schema
    ]
    return reader.schema(StructType(columns)).load(path) if columns != events.schema.fields else events


def events_of(events: DataFrame, pipeline: Pipeline, interval: Interval) -> DataFrame:
    """The interval's events, [start, end) by event time, with that time as `time`."""
    time = F.col(pipeline.source.time)
    within = (time >= F.lit(interval.start).cast("timestamp")) & (time < F.lit(interval.end).cast("timestamp"))
    return events.where(within).withColumn("time", time.cast("timestamp"))


def explained(error: PySparkException, events: DataFrame, pipeline: Pipeline, interval: Interval) -> Exception:
    """What to raise for an error of a job over the interval's events: null keys in words, anything else as it is."""
    if NULL_KEY not in str(error):
        return error
    is_null = F.lit(False)
    for column in pipeline.source.key:
        is_null = is_null | F.col(column).isNull()
    return SourceError(
        f"{events.where(is_null).count():,} events of interval {interval} have no key ({' + '.join(pipeline.source.key)} is null). "
        "Nothing was written. Filter or fill them in the source, or name another key column."
    )


def _check_columns(events: DataFrame, pipeline: Pipeline) -> None:
    source, types = pipeline.source, dict(events.dtypes)
    for column in (*source.key, source.time):
        if column not in types:
            raise SourceError(
                f"the events at {source.path} have no column {column!r}. Their columns are: {', '.join(events.columns)}. "
                "Change source.key or source.time."
            )
    if types[source.time] not in ("timestamp", "timestamp_ntz", "date"):
        raise SourceError(
            f"source.time = {source.time!r} is {types[source.time]}, not a timestamp. Cast it in the source, or name another column."
        )
    # Spark takes names in any case for the same, so a column `Key` would be overwritten by `key`.
    ours = {"key": source.key == ("key",), "time": source.time == "time", SALT: False}
    for name in events.columns:
        if name.lower() in ours and not ours.get(name):
            use = (
                "number by which tuples of split keys choose a channel"
                if name.lower() == SALT
                else f"pipeline's {name.lower()}"
            )
            raise SourceError(
                f"the events have a column {name!r}; the name is needed for the {use}. Rename it in the source."
            )


def newest_event(spark: SparkSession, pipeline: Pipeline) -> datetime | None:
    """Time of the newest event since the first interval, None when there is none."""
    time = F.col(pipeline.source.time).cast("timestamp")
    newest = read_source(spark, pipeline).agg(F.max(F.unix_micros(time)).alias("t")).first()
    if newest is None or newest["t"] is None:
        return None
    found = datetime.fromtimestamp(newest["t"] / 1e6, UTC)
    return found if found >= pipeline.interval.first else None
