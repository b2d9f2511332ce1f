"""Rows and bytes per key, by one aggregation that Spark combines before its exchange."""

from __future__ import annotations

from functools import reduce
from operator import add

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from rebalance.spark.routing import SALT, slot_of
from rebalance.spark.session import own_session
from rebalance.storage.state import fixed_bytes, varying_bytes

#: How very many keys are counted fastest: a task's keys all fit into the first of Spark's two hash maps, 2^22 cells of 4 bytes and one page of
#: rows. As Spark has them, it would count 2^16 keys there, none of them behind an exchange, and join the keys of several tasks.
_VERY_MANY = {
    "spark.sql.codegen.aggregate.fastHashMap.capacityBit": "22",
    "spark.sql.codegen.aggregate.map.twolevel.partialOnly": "false",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "8m",
}
#: Into how many parts Spark cuts an exchange at first, before adaptive execution joins small ones.
PARTS = "spark.sql.adaptive.coalescePartitions.initialPartitionNum"
#: About so many bytes of rows, as Spark estimates them, for a part: its keys fit in the memory of a task.
_PART_BYTES = 8 << 20
#: Spark takes a source whose size it does not know for endless.
_MOST_PARTS = 2000


def session_for_very_many(spark: SparkSession) -> SparkSession:
    """A session of its own to group very many keys in; what the team has set stays as it is."""
    ours = {name: value for name, value in _VERY_MANY.items() if spark.conf.get(name, None) is None}
    return own_session(spark, ours)


def spread(rows: DataFrame) -> None:
    """Tell the session of the rows, which must be theirs alone, to exchange them in parts that fit in memory, however many there are."""
    conf = rows.sparkSession.conf
    if conf.get(PARTS, None) is None:
        size = int(str(rows._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))
        least = int(conf.get("spark.sql.shuffle.partitions") or 1)
        conf.set(PARTS, str(max(least, min(size // _PART_BYTES, _MOST_PARTS))))


def count_rows(rows: DataFrame) -> pa.Table:
    """Of each key of an operator's rows: slot, rows, bytes."""
    return rows_by_key(rows).toArrow()


def count_state(state: DataFrame, newest: str) -> pa.Table:
    """Of each key of the state: slot, rows and bytes held, and what of them the newest interval has added."""
    return state_by_key(state, newest).toArrow()


def rows_by_key(rows: DataFrame) -> DataFrame:
    """What `count_rows` counts, left in Spark."""
    return _by_key(rows.drop(SALT), {"": F.lit(True)})


def state_by_key(state: DataFrame, newest: str) -> DataFrame:
    """What `count_state` counts, left in Spark."""
    return _by_key(state, {"held_": F.lit(True), "added_": F.col("interval_id") == newest})


def row_bytes(rows: DataFrame) -> Column:
    """Bytes of a row, BIGINT; what `_by_key` has of a key is their sum."""
    sizes = varying_bytes(rows)
    if dict(rows.dtypes)["key"] == "string":
        sizes.append(F.octet_length("key"))
    return reduce(add, sizes, F.lit(fixed_bytes(rows))).cast("bigint")


def _by_key(rows: DataFrame, counted: dict[str, Column]) -> DataFrame:
    """Rows and bytes of each key, for each condition under its own prefix."""
    varying = varying_bytes(rows)
    aggregates = []
    for prefix, condition in counted.items():
        aggregates.append(F.count_if(condition).alias(f"{prefix}rows"))
        if varying:
            size = F.when(condition, reduce(add, varying)).otherwise(0).cast("bigint")
            aggregates.append(F.sum(size).alias(f"{prefix}varying"))
    key = F.col("key")
    # The same for every row of a key, so it is asked once a key.
    width = F.lit(fixed_bytes(rows)) + (F.octet_length(key) if dict(rows.dtypes)["key"] == "string" else F.lit(0))
    columns = [key, slot_of(key).alias("slot")]
    for prefix in counted:
        size = F.col(f"{prefix}rows") * width
        columns.append(F.col(f"{prefix}rows"))
        columns.append((size + F.col(f"{prefix}varying") if varying else size).cast("bigint").alias(f"{prefix}bytes"))
    return rows.groupBy("key").agg(*aggregates).select(*columns)
