"""collect_stats: how many rows each key of the interval has, what it will cost and what state it holds, before anything is placed.

Leaves `key_stats` (one row per key with rows or state), `channel_stats` and `interval_stats`. One Spark job groups the operator's rows by
key; what the state holds comes from earlier counts. An interval that is processed or planned for is left alone; until then it is
counted anew each time, so that a corrected source is seen.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from rebalance.operators import AnyOperator, KeyedFunction
from rebalance.partition import PartitionFunction
from rebalance.pipeline.file import Pipeline
from rebalance.pipeline.intervals import Interval, parse_start
from rebalance.spark.counting import count_rows, count_state
from rebalance.spark.events import events_of, explained
from rebalance.spark.routing import key_type_of
from rebalance.spark.rows import rows_of
from rebalance.spark.session import spark_session
from rebalance.spark.source import read_source
from rebalance.steps import AS_USUAL, Insist
from rebalance.steps.faults import checkpoint
from rebalance.steps.logs import note
from rebalance.steps.start import active_epoch
from rebalance.steps.turn import its_turn
from rebalance.storage import control
from rebalance.storage.epochs import Epoch, load_function, processed
from rebalance.storage.held import added_as_counted, counted_part, held_part, is_folded, rolled, rows_processed, summed
from rebalance.storage.history import max_over_mean
from rebalance.storage.plans import carried_out_for
from rebalance.storage.rates import known_rates
from rebalance.storage.schemas import SCHEMAS
from rebalance.storage.state import read_state
from rebalance.storage.statistics import channel_stats, channels_of


def collect_stats(pipeline: Pipeline, interval: Interval, insist: Insist = AS_USUAL) -> str:
    """Count one interval; returns what was found in a sentence."""
    root = pipeline.tables
    with its_turn(pipeline, interval, insist):
        counted = control.has_rows(root, "interval_stats", interval.id)
        if counted and (processed(root, interval.id) or carried_out_for(root, interval.id)):
            return f"interval {interval.id} was counted already; nothing changed"
        began = time.perf_counter()
        spark = spark_session(pipeline)
        source = read_source(spark, pipeline, interval)
        events = events_of(source, pipeline, interval)
        epoch = active_epoch(pipeline, interval, key_type_of(events, pipeline.source.key))
        function = load_function(root, epoch.function_version)
        try:
            stats = Counting(spark, pipeline, interval, epoch, function).key_stats(events)
        except PySparkException as error:
            raise explained(error, source, pipeline, interval) from None
        channels = channel_stats(stats, function, interval.id)
        _store(pipeline, interval, epoch, stats, channels, time.perf_counter() - began)
    rows, fullest = int(np.sum(stats["tuples"].to_numpy())), max_over_mean(channels["cost"].to_pylist())
    note(rows=rows, keys=stats.num_rows, channels=function.channels, max_over_mean=fullest)
    return f"{rows:,} rows of {stats.num_rows:,} keys on {function.channels} channels; fullest channel {fullest:.3f}x the mean"


def _store(
    pipeline: Pipeline, interval: Interval, epoch: Epoch, stats: pa.Table, channels: pa.Table, seconds: float
) -> None:
    """Store the row of `interval_stats` last: without it the others mean nothing. What was checked before counts no more."""
    root = pipeline.tables
    row = {
        "interval_id": interval.id,
        "rows": int(np.sum(stats["tuples"].to_numpy())),
        "keys": stats.num_rows,
        "function_version": epoch.function_version,
        "state_newest": epoch.interval_id,
        "window": pipeline.operator.horizon or 0,
        "seconds": seconds,
    }
    if control.has_rows(root, "quality_runs", interval.id):
        control.delete(root, "quality_runs", interval_id=interval.id)
    control.replace(root, "key_stats", stats, interval_id=interval.id)
    checkpoint("collect_stats: keys stored")
    control.replace(root, "channel_stats", channels, interval_id=interval.id)
    checkpoint("collect_stats: channels stored")
    control.replace(root, "interval_stats", [row], interval_id=interval.id)
    checkpoint("collect_stats: interval stored")


@dataclass(frozen=True)
class Counting:
    """One interval, to be counted on top of an epoch."""

    spark: SparkSession
    pipeline: Pipeline
    interval: Interval
    epoch: Epoch
    function: PartitionFunction

    def key_stats(self, events: DataFrame) -> pa.Table:
        """g, c, s, S(k,w), current and hash channel of every key that has rows or holds state."""
        operator = self.pipeline.make_operator()
        counts = count_rows(rows_of(events, self.pipeline, operator, self.function.key_type))
        stats = summed([counted_part(counts), *self._held(operator, counts)])
        tuples = stats["tuples"].to_numpy().astype(np.float64)
        rate = np.zeros(len(tuples))
        if isinstance(operator, KeyedFunction):
            rates = known_rates(self.pipeline.tables, self.interval, self.epoch.interval_id, stats["key"])
            rate, cost = rates.rate, rates.cost(tuples)
        else:
            cost = operator.cost(tuples, tuples + stats["held_rows"].to_numpy())
        columns = {
            "interval_id": pa.repeat(self.interval.id, stats.num_rows),
            "channel": channels_of(self.function, stats),
            "hash_channel": self.function.slots[stats["slot"].to_numpy()],
            "cost": np.broadcast_to(np.asarray(cost, dtype=np.float64), tuples.shape),
            "rate": rate,
            **{name: stats[name] for name in stats.column_names},
        }
        return pa.table(columns).select(SCHEMAS["key_stats"].names)

    def _held(self, operator: AnyOperator, counts: pa.Table) -> list[pa.Table]:
        """What the state holds of each key: from earlier counts, or, where they have a gap, by counting the state."""
        window = self.pipeline.operator.horizon
        if self.epoch.state_version < 0 or not self.epoch.interval_id or window == 1:
            return []
        newest = self.pipeline.interval_at(parse_start(self.epoch.interval_id))
        parts = None
        if not is_folded(self.pipeline.tables, newest):
            parts = rolled(self.pipeline.tables, newest, window, self._added(operator, newest, counts))
        return [held_part(count_state(self._state(), newest.id))] if parts is None else parts

    def _added(self, operator: AnyOperator, newest: Interval, counts: pa.Table) -> pa.Table:
        """Rows and bytes of each key that the newest processed interval has added to the state."""
        root = self.pipeline.tables
        if operator.keeps_rows:
            if newest == self.interval and rows_processed(root, newest) == int(np.sum(counts["rows"].to_numpy())):
                return counts
            as_counted = added_as_counted(root, newest)
            if as_counted is not None:
                return as_counted
        return count_rows(self._state().where(f"interval_id = '{newest.id}'"))

    def _state(self) -> DataFrame:
        return read_state(self.spark, self.pipeline.tables, self.epoch.state_version)
