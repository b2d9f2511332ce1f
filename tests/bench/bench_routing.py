"""What it costs to place rows by a partition function, against Spark's own `repartition(N, key)`.

    python -m tests.bench.bench_routing [--rows 10000000] [--keys 1000000] [--channels 16] [--routes 3000] [--splits 0] [--repeat 5]

A Zipf stream (z = 1) of string keys from Parquet files, placed and given to Spark's noop sink. Routes are the stream's hottest keys,
splits the hottest of all, each over all channels. Variants take turns within each round, and the first round does not count. Throughput
is rows by second, a median of the rounds, the plain repartition's being 1; by CPU second it hardly feels what else the machine does.
Bytes are those of the rows in the exchange before compression.
"""

# ruff: noqa: T201 - a table for a person at a terminal

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from statistics import median
from unittest.mock import patch

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from rebalance.partition import PartitionFunction, Share, consistent_ring
from rebalance.spark import session
from rebalance.spark.routing import channel_of, key_column, route, salt_of
from tests.bench.bench_interval import cpu_seconds

PLAIN = "`repartition(N, key)`"
SETTINGS = {
    "spark.driver.memory": "6g",
    "spark.sql.adaptive.enabled": "false",
    "spark.ui.enabled": "false",
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--channels", type=int, default=16)
    parser.add_argument("--routes", type=int, default=3000)
    parser.add_argument("--splits", type=int, default=0)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    with patch.dict(session.DEFAULTS, SETTINGS):
        spark = session.spark_session()
    with tempfile.TemporaryDirectory() as folder:
        write_events(spark, folder, options.rows, options.keys)
        placed = variants(spark.read.parquet(folder), options)
        bytes_of = {name: exchanged_bytes(df) for name, df in placed.items()}
        clock, cpu = measure(placed, options.repeat)
    spark.stop()
    print(
        "| placed by | throughput | lowest and highest of a round | by CPU second | bytes a row |\n|---|---|---|---|---|"
    )
    for name in placed:
        rounds = sorted(plain / own for plain, own in zip(clock[PLAIN], clock[name], strict=True))
        ratio, by_cpu = (median(taken[PLAIN]) / median(taken[name]) for taken in (clock, cpu))
        size = bytes_of[name] / options.rows
        print(f"| {name} | {ratio:.2f} | {rounds[0]:.2f}..{rounds[-1]:.2f} | {by_cpu:.2f} | {size:.1f} |")


def write_events(spark: SparkSession, folder: str, rows: int, keys: int) -> None:
    """Key number k with a probability of about 1/k."""
    number = F.floor(F.pow(F.lit(float(keys)), F.rand(1))).cast("string")
    events = spark.range(rows).select(
        F.concat(F.lit("user-"), number).alias("key"), F.col("id").alias("t"), F.rand(2).alias("v")
    )
    events.write.mode("overwrite").parquet(folder)


def functions(options: argparse.Namespace) -> dict[str, PartitionFunction]:
    """The ring alone; with routes, the hottest keys; and, if asked for, with splits, which are hotter still."""
    channels, ring = options.channels, consistent_ring(options.channels)
    shares = tuple(Share(channel, 1 / channels) for channel in range(channels))
    splits = {f"user-{number}": shares for number in range(1, options.splits + 1)}
    hottest = range(options.splits + 1, options.splits + options.routes + 1)
    routes = {f"user-{number}": number % channels for number in hottest}
    made = {
        "ring": PartitionFunction(version=1, channels=channels, slots=ring),
        f"ring, {options.routes:,} routes": PartitionFunction(version=2, channels=channels, slots=ring, routes=routes),
    }
    if splits:
        name = f"ring, {options.routes:,} routes, {options.splits:,} splits"
        made[name] = PartitionFunction(version=3, channels=channels, slots=ring, routes=routes, splits=splits)
    return made


def variants(events: DataFrame, options: argparse.Namespace) -> dict[str, DataFrame]:
    """Each way to place the events, ready to run."""
    channels = options.channels
    plain_hash = F.pmod(F.hash("key"), F.lit(channels))
    found = {
        PLAIN: events.repartition(channels, "key"),
        "`pmod(hash(key), N)`": events.repartitionById(channels, plain_hash),
        "`pmod(hash(key), N)`, channel carried": carried(events.withColumn("channel", plain_hash), channels),
    }
    checked = events.withColumn("key", key_column(events, ("key",), "string"))
    for name, function in functions(options).items():
        found[name] = checked.repartitionById(channels, channel_of(function, F.col("key"), salt(events, function)))
        found[f"{name}, channel carried"] = carried(route(events, function), channels)
    return found


def salt(events: DataFrame, function: PartitionFunction) -> Column | None:
    """What split keys need to be spread."""
    return salt_of(events) if function.splits else None


def carried(routed: DataFrame, channels: int) -> DataFrame:
    """The channel as one more column of the rows."""
    return routed.repartitionById(channels, F.col("channel"))


def exchanged_bytes(placed: DataFrame) -> int:
    """Of the rows as they are written to the exchange, which is the top of the plan."""
    plan = placed._jdf.queryExecution().executedPlan()
    plan.execute().count()
    return int(plan.metrics().apply("dataSize").value())


def measure(placed: dict[str, DataFrame], repeat: int) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Seconds and CPU seconds of each variant in each round."""
    clock: dict[str, list[float]] = {name: [] for name in placed}
    cpu: dict[str, list[float]] = {name: [] for name in placed}
    jvm = next(iter(placed.values())).sparkSession.sparkContext._jvm
    pid = jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]
    for round_ in range(repeat + 1):
        for name, df in placed.items():
            started, worked = time.perf_counter(), cpu_seconds(pid)
            df.write.format("noop").mode("overwrite").save()
            if round_:
                clock[name].append(time.perf_counter() - started)
                cpu[name].append(cpu_seconds(pid) - worked)
        print(f"# round {round_} of {repeat}", file=sys.stderr)
    return clock, cpu


if __name__ == "__main__":
    main()
