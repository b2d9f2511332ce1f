"""The figures of all keys, made and kept by Spark: of 10^8 keys, only records, sums by slot and the keys that a plan may need come to the driver.

    rows ─► one row per key, a file of Delta's ─► records (d, d_h, v_c, v_S, #) ─► how many keys of each a plan may need
                                               └► these keys by name, the sums of all others by ring slot ◄┘

What a record is, and which keys a plan may need, is in `rebalance.planning.records`. Two keys are alike whose values have the same power of two
and the same of R equal parts of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from rebalance.partition import Key, PartitionFunction
from rebalance.pipeline.intervals import Interval
from rebalance.planning.model import Ints
from rebalance.planning.records import Records, Weights, gamma
from rebalance.spark.lookup import looked_up, numbers
from rebalance.spark.routing import slot_of
from rebalance.storage.control import table_path
from rebalance.storage.files import commented, commit_files, write_files
from rebalance.storage.held import NUMBERS
from rebalance.storage.rest import together, without
from rebalance.stores.places import for_spark

#: Bits of a record's code: 12 for each channel and 19 for each value. A double's power of two has 11, so parts are at most 2^6.
_CHANNEL, _VALUE = 1 << 12, 1 << 19
MOST_R = 6
_ZERO = -(_VALUE // 2)
#: Of records of which not all keys are wanted, up to so many others may come along: they are left out faster than Spark tells which.
MOST_LEFT = 200_000
_SUMMED = ["keys", *NUMBERS]
_NAMED = ["key", "slot", *NUMBERS]
#: The powers of two that a double can be, and some that nothing costs.
_LEAST, _MOST = -1022, 1024
#: Whole numbers below it need no logarithm: most keys have few rows.
_SMALL = 1 << 12


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

    def records(self) -> Records:
        """The records of all keys but those that are listed."""
        keys = self._described(self.sums).where(F.col("code").isNotNull()).groupBy("code")
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

    def named_and_rest(self, codes: pa.Table) -> tuple[pa.Table, pa.Table]:
        """The listed keys and of each record `code` the `wanted` ones of its `count` first ones by γ, equal ones by key; and all others by slot."""
        partly = pc.less(codes["wanted"], codes["count"])
        left = pc.sum(pc.subtract(codes["count"], codes["wanted"])).as_py() or 0
        if left <= MOST_LEFT:
            found, rest = self._told_apart(codes)
            is_first = self._are_first(found, codes)
            return found.filter(is_first).select(_NAMED), together(rest, found.filter(pc.invert(is_first)), _SUMMED)
        found, rest = self._told_apart(codes.filter(pc.invert(partly)))
        picked = self._first_ones(codes.filter(partly))
        named = pa.concat_tables([found.select(_NAMED), picked], promote_options="default").sort_by("key")
        return named, without(rest, picked, _SUMMED)

    def _told_apart(self, codes: pa.Table) -> tuple[pa.Table, pa.Table]:
        """In one pass, the listed keys and those of some records, one by one in ascending order, and the sums of all others by slot."""
        key, slot = F.col("key"), slot_of(F.col("key")).alias("slot")
        wanted = self._broadcast(codes.select(["code"])).withColumn("is_wanted", F.lit(True))
        keys = self._described(self.sums).join(wanted, "code", "left")
        name = F.when(F.col("is_wanted") | F.col("code").isNull(), key).alias("key")
        sums = [F.sum(number).alias(number) for number in NUMBERS]
        groups = keys.groupBy(slot, name)
        found = groups.agg(F.max("code").alias("code"), F.count(F.lit(1)).alias("keys"), *sums).toArrow()
        has_name = pc.is_valid(found["key"])
        rest = found.filter(pc.invert(has_name)).select(["slot", *_SUMMED])
        return found.filter(has_name).sort_by("key"), rest.sort_by("slot")

    def _are_first(self, keys: pa.Table, codes: pa.Table) -> pa.BooleanArray:
        """Which of these keys, in ascending order, are listed or among the wanted ones of their record."""
        cost = self.weights.of(keys["tuples"].to_numpy(), keys["held_rows"].to_numpy())
        worth = gamma(cost, keys["held_bytes"].to_numpy().astype(np.float64))
        code = keys["code"].fill_null(-1).to_numpy()
        order = np.lexsort((-worth, code))
        code = code[order]
        place = np.arange(len(code)) - np.searchsorted(code, code)
        sorted_codes = codes.sort_by("code")
        wanted = np.append(sorted_codes["wanted"].to_numpy(), 0)[np.searchsorted(sorted_codes["code"].to_numpy(), code)]
        first = np.empty(len(code), dtype=bool)
        first[order] = (place < wanted) | (code < 0)
        return pa.array(first)

    def _first_ones(self, codes: pa.Table) -> pa.Table:
        """Of records with very many keys of which few are wanted, those few."""
        worth = F.col("cost") * F.sqrt("cost") / F.greatest(F.col("held_bytes"), F.lit(1))
        place = F.row_number().over(Window.partitionBy("code").orderBy(worth.desc(), "key"))
        keys = self._described(self.sums).join(self._broadcast(codes), "code").withColumn("place", place)
        keys = keys.where(F.col("place") <= F.col("wanted"))
        return keys.select("key", slot_of(F.col("key")).alias("slot"), *NUMBERS).toArrow()

    def _broadcast(self, table: pa.Table) -> DataFrame:
        return F.broadcast(self.sums.sparkSession.createDataFrame(table))

    def _cost(self) -> Column:
        tuples, held = F.col("tuples"), F.col("held_rows")
        return (self.weights.new_row * tuples + self.weights.window_row * (tuples + held)).cast("double")

    def _is_listed(self) -> Column:
        if not self.listed:
            return F.lit(False)
        entries: Mapping[Key, int] = dict.fromkeys(self.listed, 1)
        return looked_up(F.col("key"), self.function.key_type, np.zeros_like(self.function.slots), entries) == 1

    def _described(self, sums: DataFrame) -> DataFrame:
        """Keys with their cost and the code of their record; null of a listed key, which is in none."""
        key = F.col("key")
        channel = looked_up(key, self.function.key_type, self.function.slots, {})
        home = channel
        if not np.array_equal(self.ring, self.function.slots):
            home = looked_up(key, self.function.key_type, self.ring, {})
        keys = self._parted(self._parted(sums.withColumn("cost", self._cost()), "cost"), "held_bytes")
        places = channel.cast("bigint") * _CHANNEL + home
        code = (places * _VALUE + F.col("_part_cost") - _ZERO) * _VALUE + F.col("_part_held_bytes") - _ZERO
        return keys.withColumn("code", F.when(~self._is_listed(), code) if self.listed else code)

    def _parted(self, keys: DataFrame, name: str) -> DataFrame:
        """The keys with `_part`: which part of which power of two a value is in, the same for all values that are alike.

        A logarithm may be off in its last bit, and on another processor in another way, so it only says where to look. Powers of two, and
        what is divided by them, are exact. Each step is a column of its own: Spark would work it out anew wherever it is named.
        """
        value, about, scaled = F.col(name), f"_about_{name}", F.col(f"_scaled_{name}")
        is_small = (value < _SMALL) & (F.floor(value) == value)
        keys = keys.withColumn(about, F.when(~is_small, F.floor(F.log2(value.cast("double"))).cast("int")))
        power = F.get(numbers(2.0 ** np.arange(_LEAST, _MOST)), F.col(about) - _LEAST)
        keys = keys.withColumn(f"_scaled_{name}", value / power)
        off = F.when(scaled < 1, -1).when(scaled >= 2, 1).otherwise(0)
        within = F.when(scaled < 1, 2 * scaled).when(scaled >= 2, scaled / 2).otherwise(scaled)
        part = (F.col(about) + off) * 2**self.r + F.floor(within * 2**self.r)
        known = F.get(numbers(self._parts_of_small()), value.cast("int"))
        return keys.withColumn(f"_part_{name}", F.coalesce(part, known).cast("bigint"))

    def _parts_of_small(self) -> NDArray[np.int32]:
        """The parts of 0, 1, 2 and so on; nothing has one of its own."""
        fraction, power = np.frexp(np.arange(_SMALL, dtype=np.float64))
        parts: NDArray[np.int32] = (power * 2**self.r + np.floor((2 * fraction - 1) * 2**self.r)).astype(np.int32)
        parts[0] = _ZERO
        return parts
