"""The events of an interval, from wherever the team keeps them; only the files that can have some are listed and read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial, reduce
from operator import and_, or_

from delta.tables import DeltaTable
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DoubleType, LongType, StructField, StructType

from rebalance.errors import SourceError, StoreError
from rebalance.pipeline.file import Pipeline
from rebalance.pipeline.intervals import Interval, parse_start
from rebalance.pipeline.partitions import Partitions
from rebalance.spark.folders import Folders
from rebalance.spark.routing import SALT
from rebalance.storage.epochs import current_epoch
from rebalance.stores.places import for_spark, is_remote

#: Numbers by their widest type, which files of all narrower ones can be read as.
_WIDEST: dict[str, DataType] = {
    "byte": LongType(),
    "short": LongType(),
    "integer": LongType(),
    "float": DoubleType(),
}
#: Of CSV and JSON: the raw text of a row that does not fit the declared columns, null for all others.
MALFORMED = "_malformed"


def read_source(spark: SparkSession, pipeline: Pipeline, span: Interval, *, pinned: bool = False) -> DataFrame:
    """All events that can be of a stretch of time, unread: the columns as they are in the source.

    Files are listed now, and of a Delta table the version of now is `pinned` if asked: read twice, it then gives the same rows.
    """
    if pipeline.source.format == "delta":
        return _checked(pipeline, lambda: _read_delta(spark, pipeline, span, pinned))
    return _checked(pipeline, lambda: _read_files(spark, pipeline, span))


def within(time: Column, span: Interval) -> Column:
    """Whether a time is of a stretch of time, [start, end)."""
    return (time >= _moment(span.start)) & (time < _moment(span.end))


def _moment(time: datetime) -> Column:
    return F.lit(time).cast("timestamp")


def _checked(pipeline: Pipeline, read: Callable[[], DataFrame]) -> DataFrame:
    """What is read, with its columns looked at."""
    try:
        events = read()
    except AnalysisException as error:
        raise _unreadable(pipeline, str(error).splitlines()[0]) from error
    except Py4JJavaError as error:
        if not is_remote(pipeline.source.path or ""):
            raise
        said = str(error.java_exception.getMessage()).splitlines()[0]
        raise StoreError(
            f"the events at {pipeline.source.path} cannot be reached: {said}. Nothing was done. Check source.path, and the store's "
            "credentials and endpoint (docs/object_stores.md)."
        ) from None
    _check_columns(events, pipeline)
    return events


def _unreadable(pipeline: Pipeline, why: str) -> SourceError:
    source = pipeline.source
    return SourceError(
        f"the events at {source.place} cannot be read as {source.format}: {why} "
        f"Check source.{'path' if source.path else 'table'} and source.format."
    )


def _read_files(spark: SparkSession, pipeline: Pipeline, span: Interval) -> DataFrame:
    source = pipeline.source
    if not source.partitions:
        return _load(spark, pipeline, [for_spark(source.path)])
    folders = Folders(spark, for_spark(source.path), Partitions(source.partitions))
    own, undated = folders.of(span), folders.of_no_time()
    if own:
        return _load(spark, pipeline, [*own, *undated])
    # No folder, no events; any other one tells the columns, and whether folders are named as they were declared to be.
    another = next(folders.newest_first(), None)
    if another is None:
        raise _unreadable(pipeline, f"there is no folder for a {' and '.join(source.partitions)} yet.")
    return _load(spark, pipeline, undated) if undated else _load(spark, pipeline, [another]).where(F.lit(False))


def _load(spark: SparkSession, pipeline: Pipeline, paths: Sequence[str]) -> DataFrame:
    source = pipeline.source
    reader = spark.read.format(source.format)
    if source.partitions:
        reader = reader.option("basePath", for_spark(source.path))
    if source.format in ("csv", "json"):
        # Types are given, so a value that does not fit one must not silently become null.
        reader = (
            reader.schema(f"{source.columns}, {MALFORMED} STRING")
            .option("mode", "PERMISSIVE")
            .option("columnNameOfCorruptRecord", MALFORMED)
        )
        reader = reader.option("header", source.format == "csv")
    elif source.columns:
        reader = reader.schema(source.columns)
    events = reader.load(list(paths))
    return _widest(reader, events, paths) if source.format == "parquet" else events


def _widest(reader: DataFrameReader, events: DataFrame, paths: Sequence[str]) -> DataFrame:
    """The same files with their numbers in the widest type: a column may be INT in some files and BIGINT in others."""
    columns = [
        StructField(field.name, _WIDEST.get(field.dataType.typeName(), field.dataType), field.nullable)
        for field in events.schema
    ]
    return reader.schema(StructType(columns)).load(list(paths)) if columns != events.schema.fields else events


def _read_delta(spark: SparkSession, pipeline: Pipeline, span: Interval, pinned: bool) -> DataFrame:
    source, events = pipeline.source, _delta_table(spark, pipeline, pinned)
    if not source.partitions:
        return events
    _check_partitions(events, pipeline)
    own = [
        reduce(and_, [F.col(column) == _typed(events, column, value) for column, value in found.items()])
        for found in Partitions(source.partitions).of(span)
    ]
    return events.where(reduce(or_, own) | F.col(next(iter(source.partitions))).isNull())


def _delta_table(spark: SparkSession, pipeline: Pipeline, pinned: bool = False) -> DataFrame:
    source, reader = pipeline.source, spark.read.format("delta")
    if pinned:
        table = (
            DeltaTable.forPath(spark, for_spark(source.path))
            if source.path
            else DeltaTable.forName(spark, source.table)
        )
        reader = reader.option("versionAsOf", table.history(1).collect()[0]["version"])
    events = reader.load(for_spark(source.path)) if source.path else reader.table(source.table)
    missing = [column for column in source.partitions if column not in events.columns]
    if missing:
        raise SourceError(
            f"source.partitions names {missing[0]!r}, but the events at {source.place} have no such column. "
            f"Their columns are: {', '.join(events.columns)}."
        )
    return events


def _check_partitions(events: DataFrame, pipeline: Pipeline) -> None:
    """Refuse text in another format than the declared one: it would be taken for no events. Other types are compared as such."""
    partitions = Partitions(pipeline.source.partitions)
    columns = [column for column in partitions.formats if dict(events.dtypes)[column] == "string"]
    if not columns:
        return
    known = reduce(and_, [F.col(column).isNotNull() for column in columns])
    for row in events.where(known).select(*columns).limit(1).collect():
        for column in columns:
            if partitions.place_of(column, row[column]) is None:
                raise SourceError(
                    f"source.partitions says that {column} is like {partitions.formats[column]}, but at {pipeline.source.place} there is "
                    f"{row[column]!r}, which no interval would read. Correct the format (%-H is an hour without a leading zero)."
                )


def _typed(events: DataFrame, column: str, value: str) -> Column:
    """A partition's value in its column's type: an hour 05 may be stored as a number."""
    kind = events.schema[column].dataType
    shape = {"string": ".*", "date": r"\d{4}-\d\d-\d\d"}.get(kind.typeName(), r"\d+")
    if not re.fullmatch(shape, value):
        raise SourceError(
            f"source.partitions: column {column!r} is {kind.simpleString()}, but its format gives {value!r}. Correct the format."
        )
    return F.lit(value).cast(kind)


def _check_columns(events: DataFrame, pipeline: Pipeline) -> None:
    source, types = pipeline.source, dict(events.dtypes)
    for column in (*source.key, source.time):
        if column not in types:
            raise SourceError(
                f"the events at {source.place} have no column {column!r}. Their columns are: {', '.join(events.columns)}. "
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
    """Time of the newest event; None when there is none since the first interval.

    Looked for among the events since the newest interval that was processed; where there are none, the answer is that interval's start.
    """
    epoch, first = current_epoch(pipeline.tables), pipeline.interval.first
    done = parse_start(epoch.interval_id) if epoch and epoch.interval_id else None
    time = F.col(pipeline.source.time).cast("timestamp")
    for events in _newest_parts(spark, pipeline, done or first):
        found = events.where(time >= _moment(done or first)).agg(F.max(F.unix_micros(time)).alias("t")).collect()
        if found[0]["t"] is not None:
            return datetime.fromtimestamp(found[0]["t"] / 1e6, UTC)
    return done


def _newest_parts(spark: SparkSession, pipeline: Pipeline, since: datetime) -> Iterator[DataFrame]:
    """Parts of the source in which the newest event since a time may be, the newest part first."""
    source, partitions = pipeline.source, Partitions(pipeline.source.partitions)
    span = Interval(since, since + timedelta(microseconds=1))
    if source.format == "delta":
        events = _checked(pipeline, lambda: _delta_table(spark, pipeline))
        outermost = next(iter(source.partitions), "")
        if outermost and partitions.sorts_as_text(outermost):
            (values,) = partitions.of(span)
            events = events.where(F.col(outermost) >= _typed(events, outermost, values[outermost]))
        yield events
    elif source.partitions:
        for folder in Folders(spark, for_spark(source.path), partitions).newest_first(since):
            yield _checked(pipeline, partial(_load, spark, pipeline, [folder]))
    else:
        yield read_source(spark, pipeline, span)
