"""How an interval's keys are counted where there are too many for the driver: `planning.statistics = "compact"`.

All keys are counted, by Spark, which keeps the counts (`key_sums`). What a key holds in the state comes from the counts before, as it does where
all keys come to the driver (`rebalance.storage.held`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from rebalance.operators import AnyOperator
from rebalance.partition import Key, consistent_ring
from rebalance.pipeline.intervals import Interval, parse_start
from rebalance.planning.records import Weights, keys_to_name, weights_of
from rebalance.spark.counting import rows_by_key, session_for_very_many, spread, state_by_key
from rebalance.spark.key_sums import KeySums, store, stored, summed_by_key
from rebalance.spark.rows import rows_of
from rebalance.steps.counting import Counting
from rebalance.steps.faults import checkpoint
from rebalance.storage.approvals import newest_open_plan
from rebalance.storage.epochs import load_function
from rebalance.storage.held import NUMBERS, counted_as_processed, earlier_counts
from rebalance.storage.schemas import SCHEMAS
from rebalance.storage.statistics import channels_of, typed_keys


@dataclass(frozen=True)
class CompactCounting(Counting):
    """One interval, to be counted on top of an epoch, without its keys coming to the driver."""

    @staticmethod
    def session(spark: SparkSession) -> SparkSession:
        """One of its own, with settings for very many keys."""
        return session_for_very_many(spark)

    def statistics(self, events: DataFrame) -> tuple[pa.Table, pa.Table]:
        """The keys that a plan may need, as rows of `key_stats`, and the rest, as rows of `slot_stats`."""
        operator, planning = self.pipeline.make_operator(), self.pipeline.planning
        weights = weights_of(operator)
        parts = self._parts(operator, events)
        sums = summed_by_key(parts)
        spread(sums)
        store(sums, self.pipeline.tables, self.interval)
        checkpoint("collect_stats: sums stored")
        channels = self.pipeline.channels
        # Of what no part has, every key has nothing: so much less is read of all of them.
        nothing = {name: F.lit(0).cast("bigint") for name in NUMBERS if all(name not in part.columns for part in parts)}
        keys = KeySums(
            stored(self.spark, self.pipeline.tables, self.interval.id).withColumns(nothing),
            self.function,
            consistent_ring(channels.count, replicas=channels.replicas, excluded=channels.excluded),
            weights,
            self._listed(),
            planning.compact_r,
        )
        records = keys.records()
        wanted = keys_to_name(records, planning.max_routes, float(records.cost.sum()) / channels.count)
        some = wanted > 0
        codes = {"code": records.code[some], "wanted": wanted[some], "count": records.count[some]}
        named, rest = keys.named_and_rest(pa.table(codes))
        return self._named(named, weights), self._rest(rest, weights)

    def _parts(self, operator: AnyOperator, events: DataFrame) -> list[DataFrame]:
        """Parts whose sum by key is what was counted and what is held."""
        root, window = self.pipeline.tables, self.pipeline.operator.horizon
        counts = rows_by_key(rows_of(events, self.pipeline, operator, self.function.key_type))
        counted = counts.withColumnsRenamed({"rows": "tuples", "bytes": "state_bytes"})
        if self.epoch.state_version < 0 or not self.epoch.interval_id or window == 1:
            return [counted]
        newest = self.pipeline.interval_at(parse_start(self.epoch.interval_id))
        earlier = earlier_counts(root, newest, window, "compact")
        if earlier is None:
            return [counted, state_by_key(self._state(), newest.id)]
        #: What of which interval's sums is to be added: each is read once.
        terms: dict[str, list[dict[str, Column]]] = {}
        added = self._added_sums(operator, newest)
        if isinstance(added, str):
            terms[added] = [_as_added("tuples", "state_bytes")]
        if earlier.before:
            terms.setdefault(earlier.before, []).append({name: F.col(name) for name in ("held_rows", "held_bytes")})
        if earlier.leaving:
            gone = {"held_rows": -F.col("added_rows"), "held_bytes": -F.col("added_bytes")}
            terms.setdefault(earlier.leaving, []).append(gone)
        parts = [_added_up(stored(self.spark, root, interval_id), some) for interval_id, some in terms.items()]
        return [counted, *parts, *([] if isinstance(added, str) else [added])]

    def _added_sums(self, operator: AnyOperator, newest: Interval) -> str | DataFrame:
        """What the newest processed interval has added to the state: the interval whose counts say it, or the state's own rows, counted."""
        counted = counted_as_processed(self.pipeline.tables, newest, "compact")
        if operator.keeps_rows and counted and newest != self.interval:
            return newest.id
        rows = rows_by_key(self._state().where(f"interval_id = '{newest.id}'"))
        return _added_up(rows, [_as_added("rows", "bytes")])

    def _listed(self) -> list[Key]:
        """Keys that are named whatever they are like: pinned ones, and those with an entry in the function or in that of a plan that waits."""
        # Not a plan that was made on these very keys: counted again, they would be others.
        functions, waiting = [self.function], newest_open_plan(self.pipeline.tables, before=self.interval.id)
        if waiting:
            functions.append(load_function(self.pipeline.tables, waiting["function_version"]))
        listed = {key for function in functions for key in (*function.routes, *function.splits)}
        return sorted({*listed, *typed_keys(self.pipeline.planning.pinned, self.function.key_type)})

    def _named(self, keys: pa.Table, weights: Weights) -> pa.Table:
        columns = {
            "interval_id": pa.repeat(self.interval.id, keys.num_rows),
            "channel": channels_of(self.function, keys),
            "hash_channel": self.function.slots[keys["slot"].to_numpy()],
            "cost": weights.of(keys["tuples"].to_numpy(), keys["held_rows"].to_numpy()),
            "rate": np.zeros(keys.num_rows),
            **{name: keys[name] for name in keys.column_names},
        }
        return pa.table(columns).select(SCHEMAS["key_stats"].names)

    def _rest(self, rest: pa.Table, weights: Weights) -> pa.Table:
        columns = {
            "interval_id": pa.repeat(self.interval.id, rest.num_rows),
            "cost": weights.of(rest["tuples"].to_numpy(), rest["held_rows"].to_numpy()),
        }
        columns |= {name: rest[name] for name in rest.column_names}
        return pa.table(columns).select(SCHEMAS["slot_stats"].names)


def _as_added(rows: str, size: str) -> dict[str, Column]:
    """These columns as what is held since the newest interval."""
    return {
        f"{what}_{unit}": F.col(name) for what in ("held", "added") for unit, name in (("rows", rows), ("bytes", size))
    }


def _added_up(sums: DataFrame, terms: list[dict[str, Column]]) -> DataFrame:
    """Several terms of the same rows as one part."""
    columns = {}
    for name in NUMBERS:
        found = [term[name] for term in terms if name in term]
        if found:
            columns[name] = sum(found[1:], found[0])
    return sums.select("key", *(column.alias(name) for name, column in columns.items()))
