"""Placed rows through the operator: whole keys on their one channel, split keys in parts that are merged.

    whole key   placed rows ─► results, state
    split key   placed rows ─► partial state per (channel, key) ─► placed at the key's one channel, with its older state ─► results, state

The second placement moves only partial states, one row or so per channel and key. Where planning.consistency is "merge", state stays on
the channel that made it: every key goes the lower way, and the partial states are what is stored.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rebalance.errors import OperatorError
from rebalance.operators import PLACE, Operator
from rebalance.partition import PartitionFunction
from rebalance.pipeline.file import whole_key_planners
from rebalance.planning.interface import Planner, needs_merging
from rebalance.spark.placement import check_placed, exchanges, place
from rebalance.spark.routing import IS_SPLIT, SALT, mark_split, to_one_channel


@dataclass(frozen=True)
class Frames:
    """The DataFrames of one interval: the placed rows, and the three tables made of them."""

    placed: DataFrame
    results: DataFrame
    state: DataFrame
    counts: DataFrame
    #: Partial states at their keys' channels; None where every key is whole.
    combined: DataFrame | None = None

    def release(self) -> None:
        """Give back what was kept for the several tables."""
        for kept in (self.placed, self.combined):
            if kept is not None:
                kept.unpersist()


def check_splittable(rows: DataFrame, operator: Operator, planner: Planner, function: PartitionFunction) -> None:
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

    def frames(self, rows: DataFrame, *, state_stays: bool) -> Frames:
        """The interval's tables from its rows and the window's; `state_stays`: state is kept where it was made."""
        if state_stays:
            return self._all_merged(rows)
        if self.function.splits:
            return self._some_merged(rows)
        placed = self._place(rows)
        results, state = self._whole(placed)
        return self._frames(placed, results=results, state=state)

    def _all_merged(self, rows: DataFrame) -> Frames:
        """Every key in parts; what each channel made of the new rows is what it keeps."""
        placed = self._place(rows)
        partial = self._state(placed)
        check_placed(partial, self.operator.name, "state")
        combined = self._combined(partial, placed)
        return self._frames(placed, results=self._merged_results(combined), state=partial, combined=combined)

    def _some_merged(self, rows: DataFrame) -> Frames:
        """Split keys in parts, the others whole."""
        placed = self._place(mark_split(rows, self.function))
        whole_results, whole_state = self._whole(placed.where(~F.col(IS_SPLIT)).drop(IS_SPLIT))
        split = placed.where(IS_SPLIT).drop(IS_SPLIT)
        combined = self._combined(self._state(split), split)
        results = whole_results.unionByName(self._merged_results(combined))
        state = whole_state.unionByName(self._state(combined))
        return self._frames(placed, results=results, state=state, combined=combined)

    def _place(self, rows: DataFrame) -> DataFrame:
        return place(rows, self.function.channels, self.interval_id)

    def _whole(self, placed: DataFrame) -> tuple[DataFrame, DataFrame]:
        """Results and state of keys that are on one channel each."""
        results, state = self.operator.results(placed), self._state(placed)
        check_placed(results, self.operator.name, "results")
        check_placed(state, self.operator.name, "state")
        return results, state

    def _state(self, placed: DataFrame) -> DataFrame:
        """What the interval's own rows leave behind on each channel."""
        return self.operator.state(placed.where("is_new").drop("is_new", "interval_id"))

    def _combined(self, partial: DataFrame, placed: DataFrame) -> DataFrame:
        """New partial states and the window's older ones, each at its key's one channel."""
        new = partial.withColumn("interval_id", F.lit(self.interval_id))
        older = placed.where("NOT is_new").drop("is_new")
        return self._place(to_one_channel(new.unionByName(older), self.function))

    def _merged_results(self, combined: DataFrame) -> DataFrame:
        results = self.operator.results(combined)
        check_placed(results, self.operator.name, "results", allowed=len(exchanges(combined)))
        return results

    def _frames(
        self, placed: DataFrame, *, results: DataFrame, state: DataFrame, combined: DataFrame | None = None
    ) -> Frames:
        dated = state.withColumn("interval_id", F.lit(self.interval_id))
        return Frames(placed, results, dated, self._counts(placed), combined)

    def _counts(self, placed: DataFrame) -> DataFrame:
        """What each key brought to each of its channels and cost there, without another look at the source."""
        counted = placed.groupBy(*PLACE).agg(
            F.count_if("is_new").alias("tuples"), F.count(F.lit(1)).alias("window_rows")
        )
        cost = self.operator.cost(F.col("tuples"), F.col("window_rows")).cast("double")
        return counted.select(*PLACE, "tuples", cost.alias("cost"))
