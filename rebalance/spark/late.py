"""Counting the events of intervals that were processed before: whatever came to them since was not processed.

It is for people to look at, and never fails the data path. An interval's events are counted, by their time alone, when it is processed,
from the very files that are processed; later ones count them again, as far back as `interval.watch_late`.
"""

from __future__ import annotations

import logging

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rebalance.pipeline.file import Pipeline
from rebalance.pipeline.intervals import Interval
from rebalance.spark.source import read_source, within
from rebalance.storage.late import advice, compare

log = logging.getLogger("rebalance")


def counted_for_later(source: DataFrame, pipeline: Pipeline, interval: Interval) -> int | None:
    """How many events the interval has now, good or bad; None if it cannot be told."""
    try:
        return source.where(within(F.col(pipeline.source.time), interval)).count()
    except Exception as error:
        log.warning("late events of %s will not be seen: %s", interval.id, str(error).partition("\n")[0])
        return None


def late_events(spark: SparkSession, pipeline: Pipeline, interval: Interval) -> str:
    """What has come late to the intervals before this one, as the end of a sentence; empty if nothing has."""
    watched = _watched(pipeline, interval)
    if not watched:
        return ""
    try:
        found = _count(spark, pipeline, Interval(watched[0].start, watched[-1].end))
        late = compare(pipeline.tables, found, [each.id for each in watched], interval)
    except Exception as error:
        log.warning("late events were not counted: %s", str(error).partition("\n")[0])
        return ""
    if not late:
        return ""
    log.warning("%s", advice(late, pipeline.name))
    return f". WARNING: {advice(late, pipeline.name)}"


def _watched(pipeline: Pipeline, interval: Interval) -> list[Interval]:
    """The intervals before this one that are watched, oldest first."""
    back = -(-pipeline.interval.watch_late // pipeline.interval.length)
    back = min(back, (interval.start - pipeline.interval.first) // pipeline.interval.length)
    return [interval.shifted(-number) for number in range(back, 0, -1)]


def _count(spark: SparkSession, pipeline: Pipeline, span: Interval) -> dict[str, int]:
    """The number of events by interval."""
    time, length = F.col(pipeline.source.time), pipeline.interval.length
    micros = F.unix_micros(time.cast("timestamp")) - F.lit(round(span.start.timestamp() * 1_000_000))
    number = F.floor(micros / F.lit(round(length.total_seconds() * 1_000_000)))
    events = read_source(spark, pipeline, span).where(within(time, span))
    first = Interval(span.start, span.start + length)
    return {first.shifted(row[0]).id: row[1] for row in events.groupBy(number).count().collect()}
