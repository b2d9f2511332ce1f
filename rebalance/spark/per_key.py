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


def frames_of(
    rows: DataFrame, operator: Operator, function: PartitionFunction, interval_id: str, *, state_stays: bool
) -> Frames:
    """The interval's tables from its rows and the window's; `state_stays`: state is kept where it was made."""
    if state_stays:
        return _all_merged(rows, operator, function, interval_id)
    if function.splits:
        return _some_merged(rows, operator, function, interval_id)
    placed = place(rows, function.channels, interval_id)
    return _frames(placed, *_whole(placed, operator), operator, interval_id)


def _all_merged(rows: DataFrame, operator: Operator, function: PartitionFunction, interval_id: str) -> Frames:
    """Every key in parts; what each channel made of the new rows is what it keeps."""
    placed = place(rows, function.channels, interval_id)
    partial = _state(placed, operator)
    check_placed(partial, operator.name, "state")
    combined = _combined(partial, placed, function, interval_id)
    return _frames(placed, _merged_results(combined, operator), partial, operator, interval_id, combined)


def _some_merged(rows: DataFrame, operator: Operator, function: PartitionFunction, interval_id: str) -> Frames:
    """Split keys in parts, the others whole."""
    placed = place(mark_split(rows, function), function.channels, interval_id)
    whole_results, whole_state = _whole(placed.where(~F.col(IS_SPLIT)).drop(IS_SPLIT), operator)
    split = placed.where(IS_SPLIT).drop(IS_SPLIT)
    combined = _combined(_state(split, operator), split, function, interval_id)
    results = whole_results.unionByName(_merged_results(combined, operator))
    state = whole_state.unionByName(_state(combined, operator))
    return _frames(placed, results, state, operator, interval_id, combined)


def _whole(placed: DataFrame, operator: Operator) -> tuple[DataFrame, DataFrame]:
    """Results and state of keys that are on one channel each."""
    results, state = operator.results(placed), _state(placed, operator)
    check_placed(results, operator.name, "results")
    check_placed(state, operator.name, "state")
    return results, state


def _state(placed: DataFrame, operator: Operator) -> DataFrame:
    """What the interval's own rows leave behind on each channel."""
    return operator.state(placed.where("is_new").drop("is_new", "interval_id"))


def _combined(partial: DataFrame, placed: DataFrame, function: PartitionFunction, interval_id: str) -> DataFrame:
    """New partial states and the window's older ones, each at its key's one channel."""
    new = partial.withColumn("interval_id", F.lit(interval_id))
    return place(
        to_one_channel(new.unionByName(placed.where("NOT is_new").drop("is_new")), function),
        function.channels,
        interval_id,
    )


def _merged_results(combined: DataFrame, operator: Operator) -> DataFrame:
    results = operator.results(combined)
    check_placed(results, operator.name, "results", allowed=len(exchanges(combined)))
    return results


def _frames(
    placed: DataFrame,
    results: DataFrame,
    state: DataFrame,
    operator: Operator,
    interval_id: str,
    combined: DataFrame | None = None,
) -> Frames:
    dated = state.withColumn("interval_id", F.lit(interval_id))
    return Frames(placed, results, dated, _counts(placed, operator), combined)


def _counts(placed: DataFrame, operator: Operator) -> DataFrame:
    """What each key brought to each of its channels and cost there, without another look at the source."""
    counted = placed.groupBy(*PLACE).agg(F.count_if("is_new").alias("tuples"), F.count(F.lit(1)).alias("window_rows"))
    cost = operator.cost(F.col("tuples"), F.col("window_rows")).cast("double")
    return counted.select(*PLACE, "tuples", cost.alias("cost"))
