"""collect_stats: how many rows each key of the interval has, what it will cost and what state it holds, before anything is placed.

Leaves `key_stats` (one row per key with rows or state), `channel_stats` and `interval_stats`. One Spark job groups the operator's rows by
key; what the state holds comes from earlier counts (`counting`). With planning.statistics = 'compact' all keys are in `key_sums`, which Spark
writes, a few of them in `key_stats` and the sums of the others in `slot_stats` (`counting_compact`); with 'frequent' only the frequent keys
are counted by name (`counting_frequent`). An interval that is processed or planned for is left alone; until then it is
counted anew each time, so that a corrected source is seen.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException

from rebalance.pipeline.file import Pipeline
from rebalance.pipeline.intervals import Interval
from rebalance.spark.events import events_of, explained
from rebalance.spark.routing import key_type_of
from rebalance.spark.session import spark_session
from rebalance.spark.source import read_source
from rebalance.steps import AS_USUAL, Insist
from rebalance.steps.counting import Counting
from rebalance.steps.counting_compact import CompactCounting
from rebalance.steps.counting_frequent import FrequentCounting
from rebalance.steps.faults import checkpoint
from rebalance.steps.logs import note
from rebalance.steps.start import active_epoch
from rebalance.steps.turn import its_turn
from rebalance.storage import control
from rebalance.storage.epochs import Epoch, load_function, processed
from rebalance.storage.history import max_over_mean
from rebalance.storage.plans import carried_out_for
from rebalance.storage.statistics import channel_stats

#: How each kind of statistics is counted.
_WAYS = {"exact": Counting, "frequent": FrequentCounting, "compact": CompactCounting}


def collect_stats(pipeline: Pipeline, interval: Interval, insist: Insist = AS_USUAL) -> str:
    """Count one interval; returns what was found in a sentence."""
    root = pipeline.tables
    with its_turn(pipeline, interval, insist):
        counted = control.has_rows(root, "interval_stats", interval.id)
        if counted and (processed(root, interval.id) or carried_out_for(root, interval.id)):
            return f"interval {interval.id} was counted already; nothing changed"
        began = time.perf_counter()
        way = _WAYS[pipeline.planning.statistics]
        spark = way.session(spark_session(pipeline))
        source = read_source(spark, pipeline, interval)
        events = events_of(source, pipeline, interval)
        epoch = active_epoch(pipeline, interval, key_type_of(events, pipeline.source.key))
        function = load_function(root, epoch.function_version)
        try:
            counting = way(spark, pipeline, interval, epoch, function)
            stats, rest = counting.statistics(events)
        except PySparkException as error:
            raise explained(error, source, pipeline, interval) from None
        row = {**_counted(pipeline, interval, epoch, stats, rest), **counting.hidden(stats, rest)}
        channels = channel_stats(stats, function, interval.id, rest)
        _store(pipeline.tables, {**row, "seconds": time.perf_counter() - began}, stats, rest, channels)
    rows, keys, fullest = row["rows"], row["keys"], max_over_mean(channels["cost"].to_pylist())
    note(rows=rows, keys=keys, channels=function.channels, max_over_mean=fullest)
    by_name = f", {stats.num_rows:,} of them by name," if rest.num_rows else ""
    about = "about " if row["unnamed_tuples"] else ""
    return f"{rows:,} rows of {about}{keys:,} keys{by_name} on {function.channels} channels; fullest channel {fullest:.3f}x the mean"


def _counted(pipeline: Pipeline, interval: Interval, epoch: Epoch, stats: pa.Table, rest: pa.Table) -> dict[str, Any]:
    """The row of `interval_stats`."""
    return {
        "interval_id": interval.id,
        "rows": int(np.sum(stats["tuples"].to_numpy()) + np.sum(rest["tuples"].to_numpy())),
        "keys": int(stats.num_rows + np.sum(rest["keys"].to_numpy())),
        "function_version": epoch.function_version,
        "state_newest": epoch.interval_id,
        "window": pipeline.operator.horizon or 0,
        "statistics": pipeline.planning.statistics,
    }


def _store(root: str, row: dict[str, Any], stats: pa.Table, rest: pa.Table, channels: pa.Table) -> None:
    """Store the row of `interval_stats` last: without it the others mean nothing. What was checked before counts no more."""
    interval_id = row["interval_id"]
    if control.has_rows(root, "quality_runs", interval_id):
        control.delete(root, "quality_runs", interval_id=interval_id)
    control.replace(root, "key_stats", stats, interval_id=interval_id)
    checkpoint("collect_stats: keys stored")
    if rest.num_rows or control.exists(root, "slot_stats"):
        control.replace(root, "slot_stats", rest, interval_id=interval_id)
    control.replace(root, "channel_stats", channels, interval_id=interval_id)
    checkpoint("collect_stats: channels stored")
    control.replace(root, "interval_stats", [row], interval_id=interval_id)
    checkpoint("collect_stats: interval stored")
