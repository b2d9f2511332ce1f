"""How an interval's keys are counted where only frequent ones need a name: `planning.statistics = "frequent"`.

The rows are looked at once for the sums of every slot and for the keys that may be frequent, by lossy counting (`rebalance.spark.frequent`),
and once more for the exact numbers of these few. What the state holds is a rolling sum, of slots as of keys; of a key that was not named
before, its own rows in the state are counted.

A key has a name if it has the share `planning.frequent_error` of the interval's rows, of those that the newest interval added to the state, or
of all that are held; or if it is listed. Whatever has a large share of what is held had one of what some interval added, and was named then.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from rebalance.partition import Key
from rebalance.pipeline.intervals import Interval, parse_start
from rebalance.planning.records import weights_of
from rebalance.spark.counting import rows_by_key, state_by_key
from rebalance.spark.frequent import is_among, sketched
from rebalance.spark.routing import SALT
from rebalance.spark.rows import rows_of
from rebalance.steps.counting_compact import CompactCounting
from rebalance.storage.held import counted_part, held_part, summed
from rebalance.storage.held_frequent import (
    InState,
    added_as_named,
    are_large,
    rolled_keys,
    rolled_state,
    unnamed_bounds,
)
from rebalance.storage.held_slots import without_named
from rebalance.storage.schemas import arrow_key


@dataclass(frozen=True)
class FrequentCounting(CompactCounting):
    """One interval, to be counted on top of an epoch, with the names of frequent keys."""

    @staticmethod
    def session(spark: SparkSession) -> SparkSession:
        """The usual one: what is grouped is little."""
        return spark

    def statistics(self, events: DataFrame) -> tuple[pa.Table, pa.Table]:
        """The frequent keys and those that are listed, as rows of `key_stats`, and the rest, as rows of `slot_stats`."""
        operator = self.pipeline.make_operator()
        weights = weights_of(operator, "frequent")
        rows = rows_of(events, self.pipeline, operator, self.function.key_type).drop(SALT)
        seen, state, listed = sketched(rows, self._error), self._in_state, self._listed()
        totals = {"tuples": seen.rows, "state_bytes": seen.bytes, **state.sums}
        keys = self._exactly(rows, sorted({*seen.keys, *state.keys, *listed}))
        large = are_large(keys, {name: int(sums.sum()) for name, sums in totals.items()}, self._error)
        wanted = pc.is_in(keys["key"], value_set=pa.array(listed, keys["key"].type))
        named = keys.filter(pa.array(large | wanted.to_numpy()))
        return self._named(named, weights), self._rest(without_named(totals, named, seen.distinct), weights)

    def hidden(self, stats: pa.Table, rest: pa.Table) -> dict[str, Any]:
        """The most that a key without a name may have, as columns of `interval_stats`."""
        bounds = unnamed_bounds(stats, rest, self._in_state, self._error)
        weights = weights_of(self.pipeline.make_operator(), "frequent")
        cost = weights.of(np.array([bounds["unnamed_tuples"]]), np.array([bounds["unnamed_held"]]))
        return {**bounds, "unnamed_cost": float(cost[0])}

    @property
    def _error(self) -> float:
        return self.pipeline.planning.error(self.pipeline.channels.count)

    def _exactly(self, rows: DataFrame, keys: list[Key]) -> pa.Table:
        """What these keys have in the interval and hold, those left out that have nothing."""
        parts = [counted_part(rows_by_key(rows.where(is_among(keys, self.function))).toArrow())]
        state, left = self._in_state, keys
        rolled = rolled_keys(self.pipeline.tables, pa.array(keys, arrow_key(self.function.key_type)), state)
        if rolled is not None:
            parts.append(rolled)
            left = sorted(set(keys) - set(rolled["key"].to_pylist()))
        if left and state.sums["held_rows"].any():
            own = self._state().where(is_among(left, self.function))
            parts.append(held_part(state_by_key(own, self._newest.id).toArrow()))
        return summed(parts)

    @property
    def _newest(self) -> Interval:
        return self.pipeline.interval_at(parse_start(self.epoch.interval_id))

    @cached_property
    def _in_state(self) -> InState:
        """What the state holds: from earlier counts, or, where they do not say it, by looking at the state, once."""
        window = self.pipeline.operator.horizon
        if self.epoch.state_version < 0 or not self.epoch.interval_id or window is None or window == 1:
            return InState()
        added = self._newly_added()
        rolled = rolled_state(self.pipeline.tables, self._newest, window, added)
        if rolled is not None:
            return rolled
        whole = sketched(self._state(), self._error)
        sums = {"held_rows": whole.rows, "held_bytes": whole.bytes, **added.sums}
        return InState(sums, added.keys | {*whole.keys}, whole.least - 1, added.added)

    def _newly_added(self) -> InState:
        """What the newest interval in the state has added: as it was counted, or by looking at its rows there."""
        if self.pipeline.make_operator().keeps_rows and self._newest != self.interval:
            counted = added_as_named(self.pipeline.tables, self._newest)
            if counted is not None:
                return counted
        own = sketched(self._state().where(f"interval_id = '{self._newest.id}'"), self._error)
        sums = {"added_rows": own.rows, "added_bytes": own.bytes}
        return InState(sums, frozenset(own.keys), added=own.least - 1)
