"""A verified migration against rewriting the state, and what one costs when there is next to nothing to move.

    python -m tests.bench.bench_migration [--rows 10000000] [--channels 16] [--repeat 3] [--parts rewrite fixed]

One process, two cores, 6 GB of driver memory. The rewrite reads the state, exchanges it by channel and writes it, and is 1. Moves take keys
from three channels, other keys each time; a line is the median. Bytes are those of the data files written, over what the same rows take
when Spark writes them alone, one sorted file per channel; rows copied are those in new files that did not move.
"""

# ruff: noqa: T201 - a table for a person at a terminal

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rebalance.spark import session
from rebalance.spark.move import Moved, move_rows
from rebalance.storage.state import head_version

#: What a key's ten rows hold: a name, a number and a value each.
KEY_BYTES = 10 * 27
PHASES = ("find the rows, check the start", "write, hide, commit", "verify")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--channels", type=int, default=16)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--parts", choices=["rewrite", "fixed"], nargs="+", default=["rewrite", "fixed"])
    options = parser.parse_args()
    session.DEFAULTS["spark.driver.memory"] = "6g"
    session.LOCAL_DEFAULTS["spark.master"] = "local[2]"
    spark = session.spark_session()
    with tempfile.TemporaryDirectory() as folder:
        if "rewrite" in options.parts:
            against_rewrite(spark, folder, options.rows, options.channels, options.repeat)
        if "fixed" in options.parts:
            fixed_cost(spark, folder)


def against_rewrite(spark: SparkSession, folder: str, rows: int, channels: int, repeat: int) -> None:
    """Print the table of moves by size."""
    root = f"{folder}/large"
    write_state(spark, root, rows, channels)
    unmoved = Keys(spark, root, [1, channels // 3, 2 * channels // 3], channels)
    # The first of each kind is not counted: Java warms up.
    run(spark, root, unmoved.take(60))
    rewrite(spark, root, channels)
    full, found = [], {}
    for keys in (600, 1_800, 3_000, rows // 1000):
        # Between the moves, so that a machine that is busy for a while slows both.
        full.append(seconds(lambda: rewrite(spark, root, channels)))
        runs = []
        for _ in range(repeat):
            moves = unmoved.take(keys)
            alone = bytes_alone(spark, root, moves, f"{folder}/alone")
            before = head_version(root)
            moved, spent = run(spark, root, moves)
            runs.append((sum(spent), moved.rows, moved.bytes / alone, copied(spark, root, before, moved)))
        found[keys] = runs
    whole = median(full)
    print(f"full rewrite: {whole:.1f} s ({min(full):.1f} to {max(full):.1f})\n")
    print("| keys | rows | seconds | of a rewrite | bytes written, of the rows' own | rows copied |")
    print("|---|---|---|---|---|---|")
    for keys, runs in found.items():
        clock, count, ratios, copies = zip(*runs, strict=True)
        print(
            f"| {keys:,} | {median(count):,.0f} | {median(clock):.2f} | {median(clock) / whole:.3f} "
            f"| {max(ratios):.2f} | {max(copies)} |",
            flush=True,
        )


def fixed_cost(spark: SparkSession, folder: str) -> None:
    """Print what a migration of 50 keys of a tiny table takes, by phase, in a warm session."""
    root = f"{folder}/tiny"
    write_state(spark, root, 9_000, 4)
    unmoved = Keys(spark, root, [0, 1], 4)
    spent = [run(spark, root, unmoved.take(50))[1] for _ in range(8)][3:]
    print("\n| 50 keys of 9,000 rows, 4 channels | seconds |")
    print("|---|---|")
    for phase, times in zip(PHASES, zip(*spent, strict=True), strict=True):
        print(f"| {phase} | {median(times):.2f} |")
    print(f"| all | {median(map(sum, spent)):.2f} |")


class Keys:
    """Keys of some channels, each handed out once, in an order that has nothing to do with the files'."""

    def __init__(self, spark: SparkSession, root: str, origins: list[int], channels: int) -> None:
        random = np.random.default_rng(1)
        state = spark.read.format("delta").load(f"{root}/state").select("key", "channel").distinct()
        self.left = {
            c: random.permutation(state.where(F.col("channel") == c).toArrow()["key"].to_pylist()) for c in origins
        }
        self.channels = channels

    def take(self, count: int) -> pa.Table:
        """Moves of so many keys, each to the channel after the next."""
        each = count // len(self.left)
        parts = []
        for origin, keys in self.left.items():
            self.left[origin] = keys[each:]
            taken = keys[:each].tolist()
            here = pa.array([origin] * len(taken), pa.int32())
            there = pa.array([(origin + 2) % self.channels] * len(taken), pa.int32())
            parts.append(pa.table({"key": pa.array(taken, pa.string()), "from_channel": here, "to_channel": there}))
        return pa.concat_tables(parts)


def run(spark: SparkSession, root: str, moves: pa.Table) -> tuple[Moved, list[float]]:
    """One migration and its phases' seconds."""
    marks = [time.perf_counter()]
    version = head_version(root)
    moved = move_rows(
        spark,
        root,
        moves,
        key_type="string",
        version=version,
        held_bytes=moves.num_rows * KEY_BYTES,
        metadata=f"bench {version}",
        moment=lambda name: marks.append(time.perf_counter()),
    )
    marks.append(time.perf_counter())
    return moved, np.diff(marks).tolist()


def write_state(spark: SparkSession, root: str, rows: int, channels: int) -> None:
    """A state table of ten rows a key, one file per channel, sorted by key."""
    state = spark.range(rows).select(
        F.concat(F.lit("user-"), F.pmod(F.hash("id"), F.lit(rows // 10)).cast("string")).alias("key"),
        F.col("id").alias("time"),
        F.rand(2).alias("value"),
        F.lit("20260101T0000Z").alias("interval_id"),
    )
    placed = state.withColumn("channel", F.pmod(F.hash("key"), F.lit(channels)).cast("int"))
    writer = placed.repartition(channels, "channel").sortWithinPartitions("channel", "key").write.format("delta")
    writer.partitionBy("interval_id", "channel").option("delta.enableDeletionVectors", "true").save(f"{root}/state")


def rewrite(spark: SparkSession, root: str, channels: int) -> None:
    """What a migration saves: read, exchange by channel, write."""
    state = spark.read.format("delta").load(f"{root}/state").repartition(channels, "channel")
    writer = state.sortWithinPartitions("channel", "key").write.format("delta").mode("overwrite")
    writer.partitionBy("interval_id", "channel").save(f"{root}/rewritten")


def bytes_alone(spark: SparkSession, root: str, moves: pa.Table, folder: str) -> int:
    """Bytes of the moved rows when nothing else is written."""
    frame: DataFrame = spark.createDataFrame(moves)
    state = spark.read.format("delta").load(f"{root}/state").join(F.broadcast(frame.select("key", "to_channel")), "key")
    rows = state.drop("channel", "interval_id").repartition(3, "to_channel").sortWithinPartitions("to_channel", "key")
    rows.write.mode("overwrite").partitionBy("to_channel").parquet(folder)
    return sum(file.stat().st_size for file in Path(folder).rglob("*.parquet"))


def copied(spark: SparkSession, root: str, before: int, moved: Moved) -> int:
    """Rows of the new files that are not moved ones."""
    log = spark.read.json(f"{root}/state/_delta_log/{before + 1:020d}.json")
    adds = log.where("add IS NOT NULL AND add.deletionVector IS NULL")
    counts = adds.select(F.get_json_object("add.stats", "$.numRecords").cast("long").alias("n")).agg(F.sum("n")).first()
    return int(counts[0]) - moved.rows if counts else 0


def seconds(work: Callable[[], None]) -> float:
    """How long a piece of work takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
