"""collect_stats: what the interval told about its keys, from what process_batch left behind; the source is not read again.

Leaves `key_stats` (one row per key with traffic or state) and `channel_stats` (one per channel). Both are replaced for this interval
alone, so running it again changes nothing.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rebalance.config import Pipeline
from rebalance.errors import OrderError
from rebalance.intervals import Interval
from rebalance.partition import PartitionFunction
from rebalance.tables import control
from rebalance.tables.epochs import Epoch, epoch_of, load_function
from rebalance.tables.interval_tables import write_interval
from rebalance.tables.lock import writer_lock
from rebalance.tables.routing import ring_channel, slot_of
from rebalance.tables.session import spark_session
from rebalance.tables.state import oldest_needed, read_newest_state, row_bytes


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
        channels = _channel_stats(root, interval, function)
        control.replace(root, "channel_stats", channels, interval_id=interval.id)
    costs = pc.sum(channels["cost"]).as_py() or 0.0
    return (
        f"{pc.sum(channels['keys']).as_py():,} keys on {function.channels} channels; "
        f"fullest channel {pc.max(channels['cost']).as_py() / (costs / function.channels or 1.0):.3f}x the mean"
    )


def key_stats(
    spark: SparkSession, pipeline: Pipeline, interval: Interval, epoch: Epoch, function: PartitionFunction
) -> DataFrame:
    """g, c, s, S(k,w), current and hash channel of every key that had traffic or holds state."""
    counts = spark.read.format("delta").load(control.table_path(pipeline.tables, "key_counts"))
    counts = counts.where(F.col("interval_id") == interval.id).select("channel", "key", "tuples", "cost")
    state = read_newest_state(spark, pipeline.tables, epoch.state_version)
    state = state.where(F.col("interval_id") >= oldest_needed(interval, pipeline.operator.window))
    size = row_bytes(state)
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


def _channel_stats(root: str, interval: Interval, function: PartitionFunction) -> pa.Table:
    """Loads per channel, as they are and as the ring alone would have them, with Spark's seconds."""
    stats = control.read(root, "key_stats", interval_id=interval.id)
    batch = control.rows(root, "batches", interval_id=interval.id)[-1]
    placed = stats.group_by("channel").aggregate(
        [("key", "count"), ("tuples", "sum"), ("cost", "sum"), ("window_bytes", "sum")]
    )
    hashed = stats.group_by("hash_channel").aggregate([("cost", "sum")])
    by_channel = {row["channel"]: row for row in placed.to_pylist()}
    by_hash = {row["hash_channel"]: row["cost_sum"] for row in hashed.to_pylist()}
    return pa.Table.from_pylist(
        [
            {
                "interval_id": interval.id,
                "channel": channel,
                "keys": by_channel.get(channel, {}).get("key_count", 0),
                "tuples": by_channel.get(channel, {}).get("tuples_sum", 0),
                "cost": by_channel.get(channel, {}).get("cost_sum", 0.0),
                "hash_cost": by_hash.get(channel, 0.0),
                "state_bytes": by_channel.get(channel, {}).get("window_bytes_sum", 0),
                "task_seconds": batch["task_seconds"][channel],
            }
            for channel in range(function.channels)
        ],
        schema=control.SCHEMAS["channel_stats"],
    )
