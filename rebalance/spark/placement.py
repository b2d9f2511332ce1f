"""Rows on their channels, by one exchange, and the proof that no operator adds a second one."""

from __future__ import annotations

import re

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rebalance.errors import OperatorError
from rebalance.spark.session import own_session


def placing_session(spark: SparkSession) -> SparkSession:
    """A session of its own for placed work: adaptive execution off.

    With it on, Spark 4.2 plans on top of a cached DataFrame as if nothing were known of its placement until the cache is filled, and
    would exchange a second time. There is nothing to adapt: the number of partitions is the number of channels.
    """
    return own_session(spark, {"spark.sql.adaptive.enabled": "false"})


def place(rows: DataFrame, channels: int, interval_id: str) -> DataFrame:
    """All rows of the window, partition = channel, kept for the several tables that are written from them; adds `is_new`.

    `repartitionById` sends a null channel to 0 and wraps one out of range, both silently: the routing expression yields neither, and
    channels of state rows are checked here.
    """
    valid = F.col("channel").isNotNull() & F.col("channel").between(0, channels - 1)
    wrong = F.raise_error(
        F.concat(
            F.lit(f"a row's channel is not in 0..{channels - 1}: "),
            F.coalesce(F.col("channel").cast("string"), F.lit("null")),
        )
    )
    checked = rows.withColumn("channel", F.when(valid, F.col("channel")).otherwise(wrong.cast("int")))
    placed = checked.repartitionById(channels, F.col("channel"))
    return placed.withColumn("is_new", F.col("interval_id") == interval_id).persist(StorageLevel.MEMORY_AND_DISK)


def physical_plan(df: DataFrame) -> str:
    """Spark's physical plan as text."""
    return str(df._jdf.queryExecution().executedPlan().toString())


def exchanges(df: DataFrame) -> list[str]:
    """The exchanges of a DataFrame's plan, broadcasts left out, those below a cache included."""
    return re.findall(r"(?<![A-Za-z])Exchange [^\n,(]*", physical_plan(df))


def check_placed(df: DataFrame, operator: str, what: str, *, allowed: int = 1) -> None:
    """Refuse an operator that makes Spark move rows again after they were placed, which took the `allowed` ones."""
    found = exchanges(df)
    if len(found) > allowed:
        raise OperatorError(
            f"operator {operator!r} makes Spark exchange rows {len(found)} times for its {what}: {'; '.join(found)}. "
            'Group, window and join by ("channel", "key"), in this order, so that the placement is kept.'
        )
