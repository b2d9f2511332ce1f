"""The frequent keys of some rows, without an exchange of all keys: lossy counters of the partitions, merged.

    rows ─► a lossy counter and sums by ring slot in each partition ─► merged: sums of every slot, and keys that may be frequent
    rows of these keys ─► their exact numbers

Which keys a counter has hangs on how the rows lie in files and partitions. What is kept of that does not: a key with the wanted share of the
rows is always among those that may have it, and of these the rows are counted, so that in the end just the keys with that share are left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from rebalance.partition import SLOTS, Key, PartitionFunction
from rebalance.planning.model import Indices
from rebalance.spark.counting import row_bytes
from rebalance.spark.lookup import looked_up
from rebalance.spark.lossy_worker import LossyWorker
from rebalance.spark.routing import slot_of
from rebalance.storage.held_frequent import share_of

#: How far the number of distinct keys may be off, as a standard deviation.
_KEYS_OFF = 0.02


@dataclass(frozen=True, eq=False)
class Sketch:
    """What a single look at some rows has given."""

    #: Rows and bytes of every slot of the ring, exactly.
    rows: Indices
    bytes: Indices
    #: Every key that has the wanted share of the rows, and some that have less.
    keys: list[Key]
    #: The number of rows that is the wanted share.
    least: int
    #: About how many keys there are.
    distinct: int


def sketched(rows: DataFrame, error: float) -> Sketch:
    """Look at the rows once."""
    found = Observation()
    seen = rows.observe(found, F.approx_count_distinct("key", _KEYS_OFF).alias("keys"))
    merged = summaries(seen, error).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        others = merged.where(F.col("key").isNull()).drop("key").toArrow()
        by_slot = others.filter(others["slot"].is_valid())
        size, total = np.zeros(SLOTS, dtype=np.int64), np.zeros(SLOTS, dtype=np.int64)
        at = by_slot["slot"].to_numpy()
        size[at], total[at] = by_slot["rows"].to_numpy(), by_slot["bytes"].to_numpy()
        least = share_of(error, int(size.sum()))
        largest = sum(value or 0 for value in others["largest"].to_pylist())
        may_be = merged.where(F.col("key").isNotNull() & (F.col("rows") + F.col("excess") + largest >= least))
        keys = may_be.select("key").toArrow()["key"].to_pylist()
        # Of no rows at all, Spark may not even plan to look, and would say nothing.
        distinct = int(found.get["keys"]) if size.any() else 0
        return Sketch(size, total, sorted(keys), least, distinct)
    finally:
        merged.unpersist()


def summaries(rows: DataFrame, error: float) -> DataFrame:
    """The partitions' counters as one: sums of each slot (`key` is null), bounds of each key (`slot` is null), and of all others (both are)."""
    key = rows.schema["key"].dataType
    out = StructType(
        [
            StructField("slot", IntegerType()),
            StructField("key", key),
            *(StructField(name, LongType()) for name in ("rows", "bytes", "excess", "largest")),
        ]
    )
    timezone = rows.sparkSession.conf.get("spark.sql.session.timeZone") or "UTC"
    # Half the share may be forgotten: so a key with the whole of it is seen, and few others are.
    worker = LossyWorker(width=ceil(2 / error), out=to_arrow_schema(out, timezone=timezone))
    seen = rows.select("key", slot_of(F.col("key")).alias("slot"), row_bytes(rows).alias("bytes"))
    sums = [F.sum(name).alias(name) for name in ("rows", "bytes", "excess", "largest")]
    return seen.mapInArrow(worker.run, out).groupBy("slot", "key").agg(*sums)


def is_among(keys: Sequence[Key], function: PartitionFunction) -> Column:
    """Whether a row's key is one of these, BOOLEAN, without a join."""
    if not keys:
        return F.lit(False)
    nothing = np.zeros_like(function.slots)
    return looked_up(F.col("key"), function.key_type, nothing, dict.fromkeys(keys, 1)) == 1
