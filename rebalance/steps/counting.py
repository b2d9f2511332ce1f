"""How an interval's keys are counted, one by one: one Spark job groups the rows by key, and all of them come to the driver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from rebalance.operators import AnyOperator, KeyedFunction
from rebalance.partition import PartitionFunction
from rebalance.pipeline.file import Pipeline
from rebalance.pipeline.intervals import Interval, parse_start
from rebalance.spark.counting import count_rows, count_state
from rebalance.spark.rows import rows_of
from rebalance.storage.epochs import Epoch
from rebalance.storage.held import added_as_counted, counted_part, held_part, is_folded, rolled, rows_processed, summed
from rebalance.storage.rates import known_rates
from rebalance.storage.rest import NOTHING
from rebalance.storage.schemas import SCHEMAS
from rebalance.storage.state import read_state
from rebalance.storage.statistics import channels_of


@dataclass(frozen=True)
class Counting:
    """One interval, to be counted on top of an epoch."""

    spark: SparkSession
    pipeline: Pipeline
    interval: Interval
    epoch: Epoch
    function: PartitionFunction

    @staticmethod
    def session(spark: SparkSession) -> SparkSession:
        """The session to count in, in which the events are read."""
        return spark

    def statistics(self, events: DataFrame) -> tuple[pa.Table, pa.Table]:
        """The rows of `key_stats` and those of `slot_stats`: none, since every key has a name."""
        return self.key_stats(events), NOTHING

    def hidden(self, stats: pa.Table, rest: pa.Table) -> dict[str, Any]:
        """The most that a key without a name may have, where a way of counting knows it, as columns of `interval_stats`."""
        return dict.fromkeys(("unnamed_tuples", "unnamed_held", "unnamed_added", "unnamed_cost"))

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
