"""Placed rows through the operator: whole keys on their one channel, split keys in parts that are merged.

    whole key   placed rows, state in place ─► results; placed rows ─► state
    split key   placed rows ─► partial state per (channel, key) ─► placed at the key's one channel, with its older state ─► results, state

The second placement moves only partial states, one row or so per channel and key. Where planning.consistency is "merge", state stays on
the channel that made it: every key goes the lower way, with the older states exchanged as well, and the partial states are stored.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rebalance.errors import OperatorError
from rebalance.operators import AnyOperator, Operator
from rebalance.partition import PartitionFunction
from rebalance.pipeline.file import whole_key_planners
from rebalance.planning.interface import Planner, needs_merging
from rebalance.spark.placement import Placed, Placing, check_partitions, check_placed, exchanges
from rebalance.spark.routing import SALT, channel_of, is_split, one_channel_of

_CHANNEL = {("channel", "int")}


@dataclass(frozen=True)
class Frames:
    """What an interval is turned into; `state` is placed and sorted by key, and both hang on the same exchange."""

    results: DataFrame
    state: DataFrame
    #: Whether the older state is read where it lies.
    in_place: bool = True
    #: Of a function per key: the new rows of each key and the seconds they took.
    costs: DataFrame | None = None
    #: Kept in memory, because the others are made of it.
    kept: DataFrame | None = None

    def release(self) -> None:
        """Forget what was kept in memory."""
        if self.kept is not None:
            self.kept.unpersist()


def check_splittable(rows: DataFrame, operator: AnyOperator, planner: Planner, function: PartitionFunction) -> None:
    """Refuse rows that cannot be spread though the planner may split keys, or the active function does, before anything runs."""
    # A planner that can do without splits makes none for an operator that does not merge.
    if not function.splits and not (planner.splits_keys if operator.mergeable else needs_merging(planner)):
        return
    who = f"planner {planner.name!r}" if planner.splits_keys else f"the active function (v{function.version})"
    way_out = f"or leave keys whole, with one of the planners {whole_key_planners()}"
    if function.splits:
        way_out += " and an empty table root"
    if not operator.mergeable:
        raise OperatorError(
            f"{who} splits keys, but the states of operator {operator.name!r} cannot be merged. "
            f"Use an operator whose states merge; {way_out}."
        )
    if SALT not in rows.columns:
        raise OperatorError(
            f"{who} splits keys, but the rows of operator {operator.name!r} have no column {SALT!r}, by which a tuple of a split key "
            f'chooses its channel. Add "{SALT}" to what `rows` selects; {way_out}.'
        )


@dataclass(frozen=True)
class PerKey:
    """One interval's work: the operator on rows that the function places."""

    operator: Operator
    function: PartitionFunction
    interval_id: str
    placing: Placing

    def frames(self, rows: DataFrame, older: DataFrame | None, *, state_stays: bool = False) -> Frames:
        """Results and state of the interval from its rows and the window's older state; `state_stays`: it is kept where it was made."""
        salt = F.col(SALT) if self.function.splits else None
        rows = rows if self.function.splits else rows.drop(SALT)
        channel = channel_of(self.function, F.col("key"), salt)
        placed = self.placing.exchanged(self._dated(rows), channel, then_drop=[SALT])
        if older is not None:
            older = older.withColumn("is_new", F.lit(False))
        if state_stays:
            return self._all_merged(placed, older)
        if self.function.splits:
            return self._some_merged(placed, older)
        return self._frames(self._results(placed, older), self._state(placed))

    def _frames(self, results: DataFrame, state: DataFrame, *, in_place: bool = True) -> Frames:
        return Frames(results, self.placing.in_key_order(state), in_place and self.placing.in_place)

    def _dated(self, rows: DataFrame) -> DataFrame:
        return rows.withColumns({"interval_id": F.lit(self.interval_id), "is_new": F.lit(True)})

    def _results(self, placed: Placed, older: DataFrame | None) -> DataFrame:
        rows = placed.df if older is None else self.placing.with_state(placed, older)
        results = self.operator.results(rows)
        check_placed(results, self.operator.name, "results", allowed=len(exchanges(rows)))
        return results

    def _state(self, placed: Placed) -> DataFrame:
        """What the interval's own rows leave behind on each channel."""
        own = placed.df.drop("is_new", "interval_id")
        state = self.operator.state(own)
        check_placed(state, self.operator.name, "state", allowed=len(exchanges(own)))
        check_partitions(state, self.operator.name, self.placing.channels)
        self._check_columns(own, state)
        return state

    def _check_columns(self, rows: DataFrame, state: DataFrame) -> None:
        """Refuse a state in other columns than the rows': the next interval could not read them together."""
        ours, theirs = set(rows.dtypes) - _CHANNEL, set(state.dtypes) - _CHANNEL
        if ours != theirs:
            raise OperatorError(
                f"`state` of operator {self.operator.name!r} returns other columns than `rows`; these differ: "
                f"{sorted(ours ^ theirs)}. Return the columns of `rows` in their types (whole numbers are BIGINT, others DOUBLE)."
            )

    def _all_merged(self, placed: Placed, older: DataFrame | None) -> Frames:
        """Every key in parts; what each channel made of the new rows is what it keeps."""
        partial = self._state(placed)
        parts = self._dated(partial)
        combined = self._at_home(parts if older is None else parts.unionByName(older))
        return self._frames(self._results(combined, None), partial, in_place=False)

    def _some_merged(self, placed: Placed, older: DataFrame | None) -> Frames:
        """Split keys in parts, the others whole."""
        split = is_split(self.function, F.col("key"))
        whole = placed.where(~split)
        combined = self._at_home(self._dated(self._state(placed.where(split))))
        older_whole, older_split = (None, None) if older is None else (older.where(~split), older.where(split))
        results = self._results(whole, older_whole).unionByName(self._results(combined, older_split))
        return self._frames(results, self.placing.side_by_side(self._state(whole), self._state(combined)))

    def _at_home(self, parts: DataFrame) -> Placed:
        """Partial states at their keys' one channel."""
        return self.placing.exchanged(parts.drop("channel"), one_channel_of(self.function, F.col("key")))
