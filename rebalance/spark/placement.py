"""Rows on their channels: the interval's own by one exchange, the window's state where it lies.

`Placing` is the two ways to do it. In place, the exchanged rows and the state's files meet partition by partition. Where this Spark
has not what that needs (`rebalance.spark.in_place`), the state is exchanged along with the rows: slower, with the same results.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from rebalance.errors import OperatorError
from rebalance.spark.clauses import clause_of
from rebalance.spark.in_place import CHANNEL, placed_frame, rdd_of, scanned_in_place, united
from rebalance.spark.session import own_session

#: How Spark names the exchange that places rows.
_BY_ID = "shufflepartitionidpassthrough"


def placing_session(spark: SparkSession) -> SparkSession:
    """A session of its own for placed work: adaptive execution off.

    There is nothing to adapt: the number of partitions is the number of channels. With it on, Spark would put its final plan together
    only while it runs, and there would be no telling beforehand whether rows are exchanged again.
    """
    return own_session(spark, {"spark.sql.adaptive.enabled": "false"})


@dataclass(frozen=True)
class Placed:
    """Rows on their channels, with the column `channel`; and what they are made of, to be put together with others."""

    df: DataFrame
    #: In place: the rows behind the exchange.
    rdd: Any = None
    #: Otherwise: the rows before it.
    routed: DataFrame | None = None

    def where(self, condition: Column) -> Placed:
        """Those rows that meet a condition, where they are."""
        kept = self.df.where(condition)
        if self.routed is not None:
            return Placed(kept, routed=self.routed.where(condition))
        return Placed(kept, rdd_of(kept))


@dataclass(frozen=True)
class Placing:
    """How rows come to their channels, and stay there."""

    channels: int
    in_place: bool = True

    def exchanged(self, rows: DataFrame, channel: Column, *, then_drop: Sequence[str] = ()) -> Placed:
        """Rows by one exchange, each on the channel that the expression gives, which must be one of 0..N-1.

        In place, the channel is not carried along: behind the exchange it is the number of the partition.
        """
        if not self.in_place:
            routed = rows.withColumn(CHANNEL, channel).drop(*then_drop)
            return Placed(self._by_channel(routed), routed=routed)
        moved = rows.repartitionById(self.channels, channel).drop(*then_drop)
        moved = moved.withColumn(CHANNEL, F.spark_partition_id())
        rdd = rdd_of(moved)
        return Placed(placed_frame(rdd, moved, self.channels), rdd)

    def with_state(self, placed: Placed, state: DataFrame) -> DataFrame:
        """Placed rows and the rows of a selection from the state table, which has the same columns, on their channels."""
        state = state.select(*placed.df.columns)
        if placed.routed is not None:
            return self._by_channel(placed.routed.unionByName(state))
        rdd = united(state.sparkSession, [placed.rdd, scanned_in_place(state, self.channels)], self.channels)
        # Whatever may be null in one of them may be null in the whole.
        return placed_frame(rdd, placed.df.union(state), self.channels)

    def stored(self, state: DataFrame) -> DataFrame:
        """The rows of a selection from the state table, on their channels."""
        if not self.in_place:
            return self._by_channel(state)
        return placed_frame(scanned_in_place(state, self.channels), state, self.channels)

    def side_by_side(self, one: DataFrame, other: DataFrame) -> DataFrame:
        """Two placed DataFrames with the same columns as one, placed."""
        both = one.unionByName(other)
        if not self.in_place:
            return self._by_channel(both)
        rdds = [rdd_of(one), rdd_of(other.select(*one.columns))]
        return placed_frame(united(one.sparkSession, rdds, self.channels), both, self.channels)

    def in_key_order(self, rows: DataFrame) -> DataFrame:
        """Placed rows, to be written as one file a channel, sorted by key; their partition is their channel, whatever they say."""
        rows = rows.withColumn(CHANNEL, F.spark_partition_id())
        if not self.in_place:
            return rows.sortWithinPartitions(CHANNEL, "key")
        # A file a channel wants rows sorted by channel, of which a partition has only one; sorted by the key first is much faster.
        by_key = rows.sortWithinPartitions("key")
        return placed_frame(rdd_of(by_key), by_key, self.channels, sorted_by=(CHANNEL, "key"))

    def _by_channel(self, rows: DataFrame) -> DataFrame:
        return rows.repartitionById(self.channels, F.col(CHANNEL))


def physical_plan(df: DataFrame) -> str:
    """Spark's physical plan as text."""
    return str(df._jdf.queryExecution().executedPlan().toString())


def exchanges(df: DataFrame) -> list[str]:
    """The exchanges of a DataFrame's plan, broadcasts left out, and what does their work; each with the step above it, for which it is made."""
    found, above = [], ""
    for line in physical_plan(df).splitlines():
        step = re.sub(r"^[\s:+|*-]*(\(\d+\) )?", "", line)
        if re.match(r"Exchange\b", step):
            found.append(f"{step.split(', [plan_id')[0].split(', REPARTITION')[0]} for {above or 'the result'}")
        elif re.match(r"(CollectLimit|TakeOrderedAndProject)\b", step):
            # They bring rows of all partitions together without an exchange.
            found.append(f"{step} for the result")
        elif step and not step.startswith("Sort "):
            above = step
    return found


def check_placed(df: DataFrame, operator: str, what: str, *, allowed: int = 0) -> None:
    """Refuse an operator that makes Spark move rows again after they were placed, which took the `allowed` exchanges."""
    found = exchanges(df)
    if len(found) > allowed:
        clauses = [clause_of(exchange) for exchange in found if _BY_ID not in exchange]
        said = "; ".join(f"{clause} in {operator}.{what}: {advice}" for clause, advice in clauses)
        raise OperatorError(
            f"operator {operator!r} makes Spark exchange rows {len(found) - allowed} times more for its {what}. {said}. "
            f"Group, window and join by key and channel, so that the placement is kept. Spark's plan has: {'; '.join(found)}."
        )


def check_partitions(df: DataFrame, operator: str, channels: int) -> None:
    """Refuse an operator that changes the number of partitions of its state: each is written as a channel."""
    found = df._jdf.queryExecution().executedPlan().outputPartitioning().numPartitions()
    if found != channels:
        raise OperatorError(
            f"operator {operator!r} puts its state into {found} partitions, but there are {channels} channels, one partition each. "
            "Leave out coalesce() and the like."
        )
