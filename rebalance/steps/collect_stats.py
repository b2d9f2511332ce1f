"""collect_stats: what the interval told about its keys, from what process_batch left behind; the source is not read again.

Leaves `key_stats` (one row per key with traffic or state) and `channel_stats` (one per channel). Both are replaced for this interval
alone, so running it again changes nothing. A split key has one row in `key_stats`, at its first channel, and counts in
`channel_stats` where its tuples went.
"""

from __future__ import annotations

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
        spark = spark_session(pipeline)
        function = load_function(root, epoch.function_version)
        stats = key_stats(spark, pipeline, interval, epoch, function)
        write_interval(stats, root, "key_stats", interval.id)
        held = _held(spark, pipeline, interval, epoch) if pipeline.planning.consistency == "merge" else None
        keys, channels = _channel_stats(root, interval, function, held)
        control.replace(root, "channel_stats", channels, interval_id=interval.id)
    costs = pc.sum(channels["cost"]).as_py() or 0.0
    return (
        f"{keys:,} keys on {function.channels} channels; "
        f"fullest channel {pc.max(channels['cost']).as_py() / (costs / function.channels or 1.0):.3f}x the mean"
    )


def key_stats(
    spark: SparkSession, pipeline: Pipeline, interval: Interval, epoch: Epoch, function: PartitionFunction
) -> DataFrame:
    """g, c, s, S(k,w), current and hash channel of every key that had traffic or holds state."""
    counts = spark.read.format("delta").load(control.table_path(pipeline.tables, "key_counts"))
    counts = counts.where(F.col("interval_id") == interval.id).select("channel", "key", "tuples", "cost")
    state, size = _window(spark, pipeline, interval, epoch)
    if function.splits or pipeline.planning.consistency == "merge":
        # One row per key: what its several channels counted, at its one channel.
        counts = (
            to_one_channel(counts, function)
            .groupBy("channel", "key")
            .agg(F.sum("tuples").alias("tuples"), F.sum("cost").alias("cost"))
        )
        state = to_one_channel(state, function)
    held = state.groupBy("channel", "key").agg(
        F.sum(F.when(F.col("interval_id") == interval.id, size).otherwise(0)).alias("state_bytes"),
        F.sum(size).alias("window_bytes"),
    )
    key = F.col("key")
    return counts.join(held, ["channel", "key"], "full").select(
        "key",
        slot_of(key).alias("slot"),
        "channel",
        ring_channel(function, key).alias("hash_channel"),
        F.coalesce("tuples", F.lit(0)).cast("bigint").alias("tuples"),
        F.coalesce("cost", F.lit(0.0)).alias("cost"),
        F.coalesce("state_bytes", F.lit(0)).cast("bigint").alias("state_bytes"),
        F.coalesce("window_bytes", F.lit(0)).cast("bigint").alias("window_bytes"),
    )


def _window(spark: SparkSession, pipeline: Pipeline, interval: Interval, epoch: Epoch) -> tuple[DataFrame, Column]:
    """The state rows of the window that ends with the interval, and the bytes of a row."""
    state = read_newest_state(spark, pipeline.tables, epoch.state_version)
    state = state.where(F.col("interval_id") >= oldest_needed(interval, pipeline.operator.window))
    return state, row_bytes(state)


def _held(spark: SparkSession, pipeline: Pipeline, interval: Interval, epoch: Epoch) -> dict[int, int]:
    """Bytes of state that lie on each channel, whatever their keys' channels are."""
    state, size = _window(spark, pipeline, interval, epoch)
    found = state.groupBy("channel").agg(F.sum(size).alias("bytes")).collect()
    return {row["channel"]: row["bytes"] for row in found}


def _channel_stats(
    root: str, interval: Interval, function: PartitionFunction, held: dict[int, int] | None
) -> tuple[int, pa.Table]:
    """Number of keys, and the load of each channel as counted there and as the ring alone would have it, with Spark's seconds."""
    stats = control.read(root, "key_stats", interval_id=interval.id)
    counted = control.read(root, "key_counts", columns=["channel", "tuples", "cost"], interval_id=interval.id)
    batch = control.rows(root, "batches", interval_id=interval.id)[-1]
    placed = counted.group_by("channel").aggregate([([], "count_all"), ("tuples", "sum"), ("cost", "sum")])
    by_channel = {row["channel"]: row for row in placed.to_pylist()}
    by_hash = _sums(stats, "hash_channel", "cost")
    bytes_on = _sums(stats, "channel", "window_bytes") if held is None else held
    channels = [
        {
            "interval_id": interval.id,
            "channel": channel,
            "keys": by_channel.get(channel, {}).get("count_all", 0),
            "tuples": by_channel.get(channel, {}).get("tuples_sum", 0),
            "cost": by_channel.get(channel, {}).get("cost_sum", 0.0),
            "hash_cost": by_hash.get(channel, 0.0),
            "state_bytes": bytes_on.get(channel, 0),
            "task_seconds": batch["task_seconds"][channel],
        }
        for channel in range(function.channels)
    ]
    return stats.num_rows, pa.Table.from_pylist(channels, schema=SCHEMAS["channel_stats"])


def _sums(table: pa.Table, by: str, what: str) -> dict[int, Any]:
    found = table.group_by(by).aggregate([(what, "sum")]).to_pylist()
    return {row[by]: row[f"{what}_sum"] for row in found}
