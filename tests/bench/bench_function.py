"""A function per key against Spark's own way to call one per group: `python -m tests.bench.bench_function`.

Both call a function that does nothing on the same placed rows, once per key.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rebalance.operators import KeyedFunction
from rebalance.partition import PartitionFunction, consistent_ring
from rebalance.pipeline.intervals import Interval
from rebalance.spark.keyed import Columns, KeyedWork
from rebalance.spark.placement import Placing, placing_session
from rebalance.spark.session import spark_session

CHANNELS = 4
RESULTS, KEPT = pa.table({"n": [1]}), pa.table({"v": [1]})
FRAMES = RESULTS.to_pandas(), KEPT.to_pandas()


def nothing(key: str, rows: Any, state: Any) -> tuple[Any, Any]:
    """The least a function can do."""
    return RESULTS, KEPT


def nothing_in_pandas(key: str, rows: Any, state: Any) -> tuple[Any, Any]:
    """The same with DataFrames."""
    return FRAMES


def nothing_per_group(key: Any, rows: pa.Table) -> pa.Table:
    """The same for applyInArrow, which returns one table."""
    return RESULTS


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=20_000)
    parser.add_argument("--rows", type=int, default=3, help="rows of a key")
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    spark = placing_session(spark_session())
    count = given.keys * given.rows
    rows = spark.range(0, count, 1, 2).select(
        F.format_string("k%07d", F.col("id") % given.keys).alias("key"),
        F.timestamp_seconds("id").alias("time"),
        F.rand(7).alias("price"),
    )
    rows = rows.persist()
    rows.count()
    function = PartitionFunction(version=0, channels=CHANNELS, slots=consistent_ring(CHANNELS))
    operator = KeyedFunction("bench.py", nothing, "n BIGINT", "v BIGINT", None, False, {}, None)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    work = KeyedWork(operator, function, Interval(start, start + timedelta(hours=1)), Placing(CHANNELS))

    def ours() -> DataFrame:
        frames = work.frames(rows, None, fold=False)
        frames.release()
        return frames.state

    def groups() -> DataFrame:
        placed = work.placing.exchanged(rows, F.pmod(F.hash("key"), F.lit(CHANNELS)).cast("int")).df
        return placed.groupBy("key", "channel").applyInArrow(nothing_per_group, "n bigint")

    seconds = {name: _median(made, given.runs) for name, made in (("ours", ours), ("applyInArrow", groups))}
    in_pandas = replace(work, operator=replace(operator, process=nothing_in_pandas, in_pandas=True))
    for name, tried in (("Arrow tables", work), ("DataFrames", in_pandas)):
        took = _call(tried, rows) * 1e6
        sys.stdout.write(f"a call of ours, {name}: {took:.1f} µs of processor time besides the function itself\n")
    sys.stdout.write(f"the whole job, ours / applyInArrow: {seconds['ours'] / seconds['applyInArrow']:.2f}\n")
    return 0


def _call(work: KeyedWork, rows: DataFrame) -> float:
    """Processor seconds a key takes in a worker, without Spark."""
    table = rows.sort("key", "time").toArrow()
    empty = pa.nulls(table.num_rows, pa.int64())
    columns = [table["key"], pa.repeat(True, table.num_rows), table["time"], table["price"], empty]
    sent = pa.table(columns, ["key", "is_new", "r0", "r1", "s0"]).to_batches(max_chunksize=10_000)
    worker = Columns.of(work.operator, rows).worker(work.operator, "UTC")
    took = []
    for _ in range(3):
        began = time.process_time()
        for _batch in worker.run(iter(sent)):
            pass
        took.append(time.process_time() - began)
    return min(took) / len(table["key"].unique())


def _median(made: Callable[[], DataFrame], runs: int) -> float:
    """Seconds to run a DataFrame, the first run left out."""
    took = []
    for _ in range(runs + 1):
        frame = made()
        began = time.perf_counter()
        frame.write.format("noop").mode("overwrite").save()
        took.append(time.perf_counter() - began)
    return statistics.median(took[1:])


if __name__ == "__main__":
    sys.exit(main())
