"""collect_stats: what the interval told about its keys, from what process_batch left behind; the source is not read again.

Leaves `key_stats` (one row per key with traffic or state) and `channel_stats` (one per channel). Both are replaced for this interval
alone, so running it again changes nothing. A split key has one row in `key_stats`, at its first channel, and counts in
`channel_stats` where its tuples went.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from rebalance.errors import OrderError
from rebalance.partition import PartitionFunction
from rebalance.pipeline.file import Pipeline
from rebalance.pipeline.intervals import Interval
from rebalance.spark.routing import ring_channel, slot_of, to_one_channel
from rebalance.spark.session import spark_session
from rebalance.storage import control
from rebalance.storage.epochs import Epoch, epoch_of, load_function
from rebalance.storage.interval_tables import write_interval
from rebalance.storage.lock import writer_lock
from rebalance.storage.schemas import SCHEMAS
from rebalance.storage.state import oldest_needed, read_newest_state, row_bytes


def collect_stats(pipeline: Pipeline, interval: Interval) -> str:
    """Collect one interval's statistics; returns what was done in a sentence."""
    root = pipeline.tables
    with writer_lock(root):
        epoch = epoch_of(root, interval.id, "process")
        if epoch is None:
            raise OrderError(f"interval {interval.id} is not processed yet. Run process_batch first.")
        if control.has_rows(root, "channel_stats", interval.id):
            return f"statistics of interval {interval.id} were collected already; nothing changed"
        function = load_function(root, epoch.function_version)
        counting = Counting(spark_session(pipeline), pipeline, interval, epoch, function)
        write_interval(counting.key_stats(), root, "key_stats", interval.id)
        keys, channels = counting.channel_stats()
        control.replace(root, "channel_stats", channels, interval_id=interval.id)
    costs = pc.sum(channels["cost"]).as_py() or 0.0
    return (
        f"{keys:,} keys on {function.channels} channels; "
        f"fullest channel {pc.max(channels['cost']).as_py() / (costs / function.channels or 1.0):.3f}x the mean"
    )


@dataclass(frozen=True)
class Counting:
    """What process_batch left of one interval, to be counted."""

    spark: SparkSession
    pipeline: Pipeline
    interval: Interval
    epoch: Epoch
    function: PartitionFunction

    def key_stats(self) -> DataFrame:
        """g, c, s, S(k,w), current and hash channel of every key that had traffic or holds state."""
        counts = self.spark.read.format("delta").load(control.table_path(self.pipeline.tables, "key_counts"))
        counts = counts.where(F.col("interval_id") == self.interval.id).select("channel", "key", "tuples", "cost")
        state, size = self._window()
        if self.function.splits or self._state_stays:
            # One row per key: what its several channels counted, at its one channel.
            counts = (
                to_one_channel(counts, self.function)
                .groupBy("channel", "key")
                .agg(F.sum("tuples").alias("tuples"), F.sum("cost").alias("cost"))
            )
            state = to_one_channel(state, self.function)
        held = state.groupBy("channel", "key").agg(
            F.sum(F.when(F.col("interval_id") == self.interval.id, size).otherwise(0)).alias("state_bytes"),
            F.sum(size).alias("window_bytes"),
        )
        key = F.col("key")
        return counts.join(held, ["channel", "key"], "full").select(
            "key",
            slot_of(key).alias("slot"),
            "channel",
            ring_channel(self.function, key).alias("hash_channel"),
            F.coalesce("tuples", F.lit(0)).cast("bigint").alias("tuples"),
            F.coalesce("cost", F.lit(0.0)).alias("cost"),
            F.coalesce("state_bytes", F.lit(0)).cast("bigint").alias("state_bytes"),
            F.coalesce("window_bytes", F.lit(0)).cast("bigint").alias("window_bytes"),
        )

    def channel_stats(self) -> tuple[int, pa.Table]:
        """Number of keys, and the load of each channel as counted there and as the ring alone would have it, with Spark's seconds."""
        root, interval_id = self.pipeline.tables, self.interval.id
        stats = control.read(root, "key_stats", interval_id=interval_id)
        counted = control.read(root, "key_counts", columns=["channel", "tuples", "cost"], interval_id=interval_id)
        batch = control.rows(root, "batches", interval_id=interval_id)[-1]
        placed = counted.group_by("channel").aggregate([([], "count_all"), ("tuples", "sum"), ("cost", "sum")])
        by_channel = {row["channel"]: row for row in placed.to_pylist()}
        by_hash = _sums(stats, "hash_channel", "cost")
        bytes_on = self._held() if self._state_stays else _sums(stats, "channel", "window_bytes")
        channels = [
            {
                "interval_id": interval_id,
                "channel": channel,
                "keys": by_channel.get(channel, {}).get("count_all", 0),
                "tuples": by_channel.get(channel, {}).get("tuples_sum", 0),
                "cost": by_channel.get(channel, {}).get("cost_sum", 0.0),
                "hash_cost": by_hash.get(channel, 0.0),
                "state_bytes": bytes_on.get(channel, 0),
                "task_seconds": batch["task_seconds"][channel],
            }
            for channel in range(self.function.channels)
        ]
        return stats.num_rows, pa.Table.from_pylist(channels, schema=SCHEMAS["channel_stats"])

    @property
    def _state_stays(self) -> bool:
        return self.pipeline.planning.consistency == "merge"

    def _window(self) -> tuple[DataFrame, Column]:
        """The state rows of the window that ends with the interval, and the bytes of a row."""
        state = read_newest_state(self.spark, self.pipeline.tables, self.epoch.state_version)
        state = state.where(F.col("interval_id") >= oldest_needed(self.interval, self.pipeline.operator.window))
        return state, row_bytes(state)

    def _held(self) -> dict[int, int]:
        """Bytes of state that lie on each channel, whatever their keys' channels are."""
        state, size = self._window()
        found = state.groupBy("channel").agg(F.sum(size).alias("bytes")).collect()
        return {row["channel"]: row["bytes"] for row in found}


def _sums(table: pa.Table, by: str, what: str) -> dict[int, Any]:
    found = table.group_by(by).aggregate([(what, "sum")]).to_pylist()
    return {row[by]: row[f"{what}_sum"] for row in found}
