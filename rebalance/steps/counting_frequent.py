"""How an interval's keys are counted where only frequent ones need a name: `planning.statistics = "frequent"`.

The rows are looked at once for the sums of every slot and for the keys that may be frequent, by lossy counting (`rebalance.spark.frequent`),
and once more for the exact numbers of these few. What the state holds is a rolling sum, of slots as of keys; of a key that was not named
before, its own rows in the state are counted.

A key has a name if it has the share `planning.frequent_error` of the interval's rows, of those that the newest interval added to the state, or
of all that are held; or if it is listed. Whatever has a large share of what is held had one of what some interval added, and was named then.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from rebalance.partition import SLOTS, Key
from rebalance.pipeline.intervals import Interval, parse_start
from rebalance.planning.model import Mask
from rebalance.planning.records import weights_of
from rebalance.spark.counting import rows_by_key, state_by_key
from rebalance.spark.frequent import is_among, share_of, sketched
from rebalance.spark.routing import SALT
from rebalance.spark.rows import rows_of
from rebalance.steps.counting_compact import CompactCounting
from rebalance.storage.held import (
    Earlier,
    counted_as_processed,
    counted_part,
    earlier_counts,
    held_part,
    summed,
)
from rebalance.storage.held_slots import (
    EVERY_WAY,
    Hidden,
    Sums,
    counted_by_slot,
    hidden_in,
    named_in,
    of_window,
    rolled_keys,
    without_named,
)
from rebalance.storage.schemas import arrow_key

_COUNTED, _HELD, _ADDED = ("tuples", "state_bytes"), ("held_rows", "held_bytes"), ("added_rows", "added_bytes")
#: Of what a key with a name has a large share.
_SHARED = ("tuples", "held_rows", "added_rows")


@dataclass(frozen=True, eq=False)
class _InState:
    """What is known of the state before any key is looked for in it."""

    #: What is held and was added, by slot.
    sums: Sums
    #: Keys that may have a large share of it.
    keys: set[Key] = field(default_factory=set)
    #: The most rows that any other key may hold, and of those the most that the newest interval may have added.
    held: int = 0
    added: int = 0
    #: The counts that say what keys hold, so far as they name them: the newest interval's own, and those before it.
    told: tuple[str, Earlier] | None = None


@dataclass(frozen=True)
class FrequentCounting(CompactCounting):
    """One interval, to be counted on top of an epoch, with the names of frequent keys."""

    def statistics(self, events: DataFrame) -> tuple[pa.Table, pa.Table]:
        """The frequent keys and those that are listed, as rows of `key_stats`, and the rest, as rows of `slot_stats`."""
        operator = self.pipeline.make_operator()
        weights = weights_of(operator, "frequent")
        rows = rows_of(events, self.pipeline, operator, self.function.key_type).drop(SALT)
        seen, listed = sketched(rows, self._error), self._listed()
        totals = {"tuples": seen.rows, "state_bytes": seen.bytes, **self._in_state.sums}
        keys = self._exactly(rows, sorted({*seen.keys, *self._in_state.keys, *listed}))
        wanted = pc.is_in(keys["key"], value_set=pa.array(listed, keys["key"].type))
        named = keys.filter(pa.array(self._are_large(keys, totals) | wanted.to_numpy()))
        return self._named(named, weights), self._rest(without_named(totals, named, seen.distinct), weights)

    def hidden(self, stats: pa.Table, rest: pa.Table) -> dict[str, Any]:
        """The most that a key without a name may have, as columns of `interval_stats`."""
        known = {"tuples": 0, "held_rows": self._in_state.held, "added_rows": self._in_state.added}
        most = {}
        for name in _SHARED:
            left = rest[name].to_numpy()
            least = share_of(self._error, int(np.sum(stats[name].to_numpy()) + np.sum(left)))
            # No key has more than its slot.
            most[name] = min(max(least - 1, known[name]), int(left.max(initial=0)))
        weights = weights_of(self.pipeline.make_operator(), "frequent")
        cost = weights.of(np.array([most["tuples"]]), np.array([most["held_rows"]]))
        return {
            "unnamed_tuples": most["tuples"],
            "unnamed_held": most["held_rows"],
            "unnamed_added": most["added_rows"],
            "unnamed_cost": float(cost[0]),
        }

    @property
    def _error(self) -> float:
        return self.pipeline.planning.error(self.pipeline.channels.count)

    def _are_large(self, keys: pa.Table, totals: Sums) -> Mask:
        """Which keys have the wanted share of anything."""
        large: Mask = np.zeros(keys.num_rows, dtype=np.bool_)
        for name in _SHARED:
            large |= keys[name].to_numpy() >= share_of(self._error, int(totals[name].sum()))
        return large

    def _exactly(self, rows: DataFrame, keys: list[Key]) -> pa.Table:
        """What these keys have in the interval and hold, those left out that have nothing."""
        parts = [counted_part(rows_by_key(rows.where(is_among(keys, self.function))).toArrow())]
        left, told = keys, self._in_state.told
        if told:
            rolled = rolled_keys(self.pipeline.tables, pa.array(keys, arrow_key(self.function.key_type)), *told)
            parts.append(rolled)
            left = sorted(set(keys) - set(rolled["key"].to_pylist()))
        if left and self._in_state.sums["held_rows"].any():
            newest = self.pipeline.interval_at(parse_start(self.epoch.interval_id))
            own = self._state().where(is_among(left, self.function))
            parts.append(held_part(state_by_key(own, newest.id).toArrow()))
        return summed(parts)

    @cached_property
    def _in_state(self) -> _InState:
        """What the state holds: from earlier counts, or, where they do not say it, by looking at the state."""
        root, window = self.pipeline.tables, self.pipeline.operator.horizon
        nothing = {name: np.zeros(SLOTS, dtype=np.int64) for name in (*_HELD, *_ADDED)}
        if self.epoch.state_version < 0 or not self.epoch.interval_id or window is None or window == 1:
            return _InState(nothing)
        newest = self.pipeline.interval_at(parse_start(self.epoch.interval_id))
        earlier = earlier_counts(root, newest, window, EVERY_WAY)
        before = Hidden(0, 0, 0) if earlier and not earlier.before else None
        if earlier and earlier.before:
            before = hidden_in(root, earlier.before)
        if earlier is None or before is None:
            return self._looked_at(newest)
        added = self._newly_added(newest)
        held = {name: added.sums[as_added] for name, as_added in zip(_HELD, _ADDED, strict=True)}
        for interval_id, names, sign in ((earlier.before, _HELD, 1), (earlier.leaving, _ADDED, -1)):
            if interval_id:
                sums = counted_by_slot(root, interval_id, names)
                held = {to: held[to] + sign * sums[name] for to, name in zip(_HELD, names, strict=True)}
        past = of_window(root, newest, window)
        most = before.held if past.hidden is None else min(before.held, past.hidden)
        named = named_in(root, [*past.intervals, *([earlier.before] if earlier.before else [])])
        told = added.told and (added.told[0], earlier)
        return _InState({**held, **added.sums}, added.keys | named, most + added.added, added.added, told)

    def _newly_added(self, newest: Interval) -> _InState:
        """What the newest interval in the state has added: as it was counted, or by looking at its rows there."""
        root, keeps_rows = self.pipeline.tables, self.pipeline.make_operator().keeps_rows
        counted = hidden_in(root, newest.id)
        if keeps_rows and newest != self.interval and counted and counted_as_processed(root, newest, "frequent"):
            sums = counted_by_slot(root, newest.id, _COUNTED)
            as_added = {to: sums[name] for to, name in zip(_ADDED, _COUNTED, strict=True)}
            told = newest.id, Earlier(None, None)
            return _InState(as_added, named_in(root, [newest.id]), added=counted.tuples, told=told)
        own = sketched(self._state().where(f"interval_id = '{newest.id}'"), self._error)
        sums = {"added_rows": own.rows, "added_bytes": own.bytes}
        return _InState(sums, set(own.keys), added=own.least - 1)

    def _looked_at(self, newest: Interval) -> _InState:
        """The state by looking at all of it, once: the next count builds on this one."""
        whole, added = sketched(self._state(), self._error), self._newly_added(newest)
        sums = {"held_rows": whole.rows, "held_bytes": whole.bytes, **added.sums}
        return _InState(sums, added.keys | set(whole.keys), whole.least - 1, added.added)
