"""Operators over a few intervals in memory: the same placement and merging as in a pipeline, without tables or plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rebalance.operators import Operator
from rebalance.partition import PartitionFunction, Share, consistent_ring
from rebalance.pipeline.file import Pipeline
from rebalance.spark.per_key import Frames, PerKey
from rebalance.spark.placement import Placing, placing_session
from rebalance.spark.routing import salt_of, to_one_channel
from tests.support.world import first_interval

WINDOW = 2


def plain(channels: int, **more: Any) -> PartitionFunction:
    return PartitionFunction(version=0, channels=channels, slots=consistent_ring(channels), **more)


def splitting(hot: Sequence[str], turn: int) -> PartitionFunction:
    """Splits the given keys over three of four channels, other ones every turn, and routes nothing else."""
    first, second, third = turn % 4, (turn + 1) % 4, (turn + 3) % 4
    shares = (Share(first, 0.5), Share(second, 0.3), Share(third, 0.2))
    return plain(4, splits=dict.fromkeys(hot, shares))


@dataclass
class SmallRun:
    """Intervals one after the other; the state of earlier ones is carried along."""

    spark: SparkSession
    operator: Operator
    state_stays: bool = False
    state: list[DataFrame] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.spark = placing_session(self.spark)

    def frames(self, source: Path, interval_id: str, function: PartitionFunction, *, in_place: bool = False) -> Frames:
        """An interval's tables, unread. State is not in a table here, so it cannot be read in place."""
        events = self.spark.read.parquet(str(source / f"{interval_id}.parquet"))
        keyed = events.withColumns({"key": F.col("symbol"), "time": F.col("ts"), "salt": salt_of(events)})
        older = None
        for state in self.state[1 - WINDOW :]:
            # A migration puts state where the function says.
            state = state if self.state_stays else to_one_channel(state, function)
            older = state if older is None else older.unionByName(state)
        work = PerKey(self.operator, function, interval_id, Placing(function.channels, in_place))
        return work.frames(self.operator.rows(keyed), older, state_stays=self.state_stays)

    def process(self, source: Path, interval_id: str, function: PartitionFunction) -> pl.DataFrame:
        """An interval's results in a fixed order; its state is remembered."""
        frames = self.frames(source, interval_id, function)
        found = pl.from_arrow(frames.results.toArrow())
        self.state.append(frames.state.withColumn("interval_id", F.lit(interval_id)).localCheckpoint())
        assert isinstance(found, pl.DataFrame)
        return found.sort(found.columns)


def interval_ids(pipeline: Pipeline, count: int) -> list[str]:
    return [first_interval(pipeline).shifted(number).id for number in range(count)]
