"""The figures of all keys, made and kept by Spark: of 10^8 keys, only records, sums by slot and the keys that a plan may need come to the driver.

    rows ─► one row per key, a file of Delta's ─► records (d, d_h, v_c, v_S, #) ─► how many keys of each a plan may need ─► these keys
                                               └► sums by ring slot

What a record is, and which keys a plan may need, is in `rebalance.planning.records`. Two keys are alike whose values have the same power of two
and the same of R equal parts of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from rebalance.partition import Key, PartitionFunction
from rebalance.pipeline.intervals import Interval
from rebalance.planning.model import Ints
from rebalance.planning.records import Records, Weights
from rebalance.spark.lookup import looked_up, numbers
from rebalance.spark.routing import slot_of
from rebalance.storage.control import table_path
from rebalance.storage.files import commented, commit_files, write_files
from rebalance.storage.held import NUMBERS
from rebalance.stores.places import for_spark

#: Bits of a record's code: 12 for each channel and 19 for each value. A double's power of two has 11, so parts are at most 2^6.
_CHANNEL, _VALUE = 1 << 12, 1 << 19
MOST_R = 6
_ZERO = -(_VALUE // 2)
#: The powers of two that a double can be, and some that nothing costs.
_LEAST, _MOST = -1022, 1024


def summed_by_key(parts: Sequence[DataFrame]) -> DataFrame:
    """One row per key with tuples or state: the sum of parts that have any of `NUMBERS`."""
    if len(parts) == 1:
        found = parts[0].select("key", *_numbers(parts[0]))
    else:
        united = reduce(DataFrame.unionByName, [part.select("key", *_numbers(part)) for part in parts])
        found = united.groupBy("key").agg(*(F.sum(name).alias(name) for name in NUMBERS))
    return found.where((F.col("tuples") > 0) | (F.col("held_rows") > 0))


def _numbers(part: DataFrame) -> list[Column]:
    nothing = F.lit(0)
    return [(F.col(name) if name in part.columns else nothing).cast("bigint").alias(name) for name in NUMBERS]


def store(sums: DataFrame, root: str, interval: Interval) -> None:
    """Keep an interval's sums, in the place of any that were there, in one commit."""
    columns = [StructField("interval_id", StringType()), StructField("key", sums.schema["key"].dataType)]
    schema = StructType([*columns, *(StructField(name, LongType()) for name in NUMBERS)])
    commit_files(
        root,
        "key_sums",
        commented("key_sums", schema),
        write_files(sums, root, "key_sums", interval.id),
        partition_by=["interval_id"],
        in_place_of=[interval.id],
        metadata={"verb": "collect_stats", "interval": interval.id},
    )


def stored(spark: SparkSession, root: str, interval_id: str) -> DataFrame:
    """An interval's sums."""
    table = spark.read.format("delta").load(for_spark(table_path(root, "key_sums")))
    return table.where(F.col("interval_id") == interval_id).drop("interval_id")


@dataclass(frozen=True)
class KeySums:
    """The sums of an interval, to be looked at in the light of a function and of the ring to build on."""

    sums: DataFrame
    function: PartitionFunction
    ring: Ints
    weights: Weights
    #: Keys that are named in any case.
    listed: Sequence[Key]
    #: R = 2^r.
    r: int

    def by_slot(self) -> pa.Table:
        """Keys and sums of every slot, in ascending order of slots."""
        slots = self.sums.groupBy(slot_of(F.col("key")).alias("slot"))
        totals = slots.agg(F.count(F.lit(1)).alias("keys"), *(F.sum(name).alias(name) for name in NUMBERS))
        return totals.toArrow().sort_by("slot")

    def records(self) -> Records:
        """The records of all keys but those that are listed."""
        keys = self._described().where(F.col("code").isNotNull()).groupBy("code")
        # Whole numbers: their sums are the same in any order.
        sums = [F.sum(name).alias(name) for name in ("tuples", "held_rows", "held_bytes")]
        found = keys.agg(F.count(F.lit(1)).alias("count"), *sums).toArrow().sort_by("code")
        code, count = found["code"].to_numpy(), found["count"].to_numpy()
        channel = code // (_CHANNEL * _VALUE * _VALUE)
        return Records(
            code,
            channel,
            count,
            self.weights.of(found["tuples"].to_numpy(), found["held_rows"].to_numpy()),
            found["held_bytes"].to_numpy().astype(np.float64),
        )

    def named(self, codes: pa.Table) -> pa.Table:
        """The listed keys, and of each record `code` the `wanted` ones of its `count` first ones by γ; equal ones by key."""
        spark = self.sums.sparkSession
        keys = self._described().join(F.broadcast(spark.createDataFrame(codes)), "code", "left")
        keys = keys.where(F.col("code").isNull() | F.col("wanted").isNotNull())
        if not codes["wanted"].equals(codes["count"]):
            gamma = F.col("cost") * F.sqrt("cost") / F.greatest(F.col("held_bytes"), F.lit(1))
            place = F.row_number().over(Window.partitionBy("code").orderBy(gamma.desc(), "key"))
            keys = keys.withColumn("place", place).where(F.col("code").isNull() | (F.col("place") <= F.col("wanted")))
        return keys.select("key", slot_of(F.col("key")).alias("slot"), *NUMBERS).toArrow().sort_by("key")

    def _cost(self) -> Column:
        tuples, held = F.col("tuples"), F.col("held_rows")
        return self.weights.new_row * tuples + self.weights.window_row * (tuples + held)

    def _described(self) -> DataFrame:
        """Every key with its cost and the code of its record; null of a listed key, which is in none."""
        key, cost = F.col("key"), self._cost().cast("double")
        channel = looked_up(key, self.function.key_type, self.function.slots, {})
        home = channel
        if not np.array_equal(self.ring, self.function.slots):
            home = looked_up(key, self.function.key_type, self.ring, {})
        keys = self._parted(self._parted(self.sums.withColumn("cost", cost), "cost"), "held_bytes")
        places = channel.cast("bigint") * _CHANNEL + home
        code = (places * _VALUE + F.col("_part_cost") - _ZERO) * _VALUE + F.col("_part_held_bytes") - _ZERO
        if self.listed:
            entries: Mapping[Key, int] = dict.fromkeys(self.listed, 1)
            is_listed = looked_up(key, self.function.key_type, np.zeros_like(self.function.slots), entries) == 1
            code = F.when(~is_listed, code)
        return keys.withColumn("code", code)

    def _parted(self, keys: DataFrame, name: str) -> DataFrame:
        """The keys with `_part`: which part of which power of two a value is in, the same for all values that are alike.

        A logarithm may be off in its last bit, and on another processor in another way, so it only says where to look. Powers of two, and
        what is divided by them, are exact. Each step is a column of its own: Spark would work it out anew wherever it is named.
        """
        about, scaled = f"_about_{name}", F.col(f"_scaled_{name}")
        keys = keys.withColumn(about, F.floor(F.log2(F.col(name).cast("double"))).cast("int"))
        power = F.get(numbers(2.0 ** np.arange(_LEAST, _MOST)), F.col(about) - _LEAST)
        keys = keys.withColumn(f"_scaled_{name}", F.col(name) / power)
        off = F.when(scaled < 1, -1).when(scaled >= 2, 1).otherwise(0)
        within = F.when(scaled < 1, 2 * scaled).when(scaled >= 2, scaled / 2).otherwise(scaled)
        part = (F.col(about) + off) * 2**self.r + F.floor(within * 2**self.r)
        # Nothing has no logarithm.
        return keys.withColumn(f"_part_{name}", F.coalesce(part.cast("bigint"), F.lit(_ZERO)))
