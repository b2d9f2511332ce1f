"""The partitioning function as a Spark expression: splits, then routes, then ring, the same for every planner.

A tuple of a split key chooses among the key's channels by its salt, a number that comes from the tuple itself: the same tuple goes to
the same channel in every run and on every retry, and many tuples meet the shares as closely as many throws of a die do.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rebalance.errors import SourceError
from rebalance.partition import SLOT_SHIFT, KeyType, PartitionFunction, Share
from rebalance.storage.schemas import arrow_key

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
#: What of a type's name says that Spark cannot hash its values.
_NOT_HASHED = ("map<", "variant")
#: Between the columns of a key that has several.
_SEPARATOR = "\x1f"
#: The column by which the tuples of a split key choose their channel.
SALT = "salt"
#: Tells the rows of split keys from the others, between placement and the operator.
IS_SPLIT = "is_split"
_LOOKED_UP = ("_key", "_channel", "_shares")


def slot_of(key: Column) -> Column:
    """The ring slot of a key; `rebalance.partition.slots_of` gives the same in Python."""
    return F.shiftrightunsigned(F.hash(key), SLOT_SHIFT)


def ring_channel(function: PartitionFunction, key: Column) -> Column:
    """h(k): one array access. The table is a constant of the plan: Spark folds the text into an array once."""
    table = F.split(F.lit(",".join(map(str, function.slots.tolist()))), ",").cast("array<int>")
    return F.get(table, slot_of(key))


def route(df: DataFrame, function: PartitionFunction, key: str = "key") -> DataFrame:
    """Add the column `channel` (INT) to any DataFrame: where the function sends each row by its key column.

    The column must have the function's key type (STRING, or an integer type). Rows with a null key are refused when they are met.
    Rows of a split key choose by their column `salt` if there is one, otherwise by all their columns.
    """
    found = _looked_up(df, function, key)
    whole = F.coalesce("_channel", ring_channel(function, F.col("_key")))
    if function.splits:
        salt = F.col(SALT) if SALT in df.columns else salt_of(df)
        whole = F.when(F.col("_shares").isNotNull(), _share_of(salt)).otherwise(whole)
    return found.withColumn("channel", whole).drop(*_LOOKED_UP)


def to_one_channel(df: DataFrame, function: PartitionFunction) -> DataFrame:
    """Give each row its key's one channel, F(k): for a split key the first, where its merged state lives."""
    found = _looked_up(df, function, "key")
    channel = F.coalesce("_channel", ring_channel(function, F.col("_key")))
    return found.withColumn("channel", channel).drop(*_LOOKED_UP)


def mark_split(df: DataFrame, function: PartitionFunction) -> DataFrame:
    """Add `is_split`: whether the function splits the row's key."""
    found = _looked_up(df, function, "key")
    return found.withColumn(IS_SPLIT, F.col("_shares").isNotNull()).drop(*_LOOKED_UP)


def salt_of(df: DataFrame) -> Column:
    """A number from all columns of a row that Spark can hash."""
    hashed = [name for name, kind in df.dtypes if not any(part in kind for part in _NOT_HASHED)]
    return F.xxhash64(*(F.col(f"`{name}`") for name in hashed))


def _looked_up(df: DataFrame, function: PartitionFunction, key: str) -> DataFrame:
    """Add `_key`, `_channel` (by route, or the first of a split; null for the ring's keys) and `_shares` (null for whole keys)."""
    keyed = df.withColumn("_key", key_column(df, (key,), function.key_type))
    if not (function.routes or function.splits):
        return keyed.withColumns({"_channel": F.lit(None).cast("int"), "_shares": F.lit(None)})
    # From Arrow: a list of rows would go through a Python worker.
    table = df.sparkSession.createDataFrame(_entries(function))
    return keyed.join(F.broadcast(table), F.col("_key") == F.col("_known"), "left").drop("_known")


def _entries(function: PartitionFunction) -> pa.Table:
    """Routes and splits as one table, so that one join finds either."""
    part = pa.struct([("below", pa.float64()), ("channel", pa.int32()), ("other", pa.int32())])
    firsts = [shares[0].channel for shares in function.splits.values()]
    shares = [None] * len(function.routes) + [_alias_table(shares) for shares in function.splits.values()]
    return pa.table(
        {
            "_known": pa.array([*function.routes, *function.splits], arrow_key(function.key_type)),
            "_channel": pa.array([*function.routes.values(), *firsts], pa.int32()),
            "_shares": pa.array(shares, pa.list_(part)),
        }
    )


def _alias_table(shares: Sequence[Share]) -> list[dict[str, float | int]]:
    """Walker's alias method: m shares as m equally likely entries of at most two channels, so that choosing is one array access.

    Entry i stands for its own channel below `below`, and for the `other` from there to 1.
    """
    size, total = len(shares), sum(part.share for part in shares)
    weight = [part.share / total * size for part in shares]
    entries: list[dict[str, float | int]] = [
        {"below": 1.0, "channel": part.channel, "other": part.channel} for part in shares
    ]
    small = [i for i in range(size) if weight[i] < 1.0]
    large = [i for i in range(size) if weight[i] >= 1.0]
    while small and large:
        poor, rich = small.pop(), large[-1]
        entries[poor].update(below=weight[poor], other=shares[rich].channel)
        weight[rich] -= 1.0 - weight[poor]
        if weight[rich] < 1.0:
            small.append(large.pop())
    return entries


def _share_of(salt: Column) -> Column:
    """The channel of a tuple of a split key."""
    # Hashed once more: a caller's own salt may be a counter. 53 bits are what a double holds.
    place = F.shiftrightunsigned(F.xxhash64(salt), 11) * F.lit(2.0**-53) * F.size("_shares")
    entry = F.get(F.col("_shares"), F.floor(place).cast("int"))
    below = place - F.floor(place) < entry["below"]
    return F.when(below, entry["channel"]).otherwise(entry["other"])


def key_type_of(df: DataFrame, columns: tuple[str, ...]) -> KeyType:
    """Integer columns are hashed as BIGINT, everything else as text."""
    types = dict(df.dtypes)
    missing = [column for column in columns if column not in types]
    if missing:
        raise SourceError(f"there is no key column {missing[0]!r}. The columns are: {', '.join(df.columns)}.")
    return "long" if len(columns) == 1 and types[columns[0]] in _INTEGERS else "string"


def key_column(df: DataFrame, columns: tuple[str, ...], key_type: KeyType) -> Column:
    """The key as one column of the function's key type; a null key fails the job rather than going anywhere."""
    found = key_type_of(df, columns)
    if found != key_type:
        raise SourceError(
            f"key column {' + '.join(columns)} is {found} but the function was made for {key_type} keys. "
            "Cast the column, or start with an empty table root."
        )
    null = F.raise_error(F.lit(f"{NULL_KEY} in {' + '.join(columns)}"))
    if key_type == "long":
        return F.coalesce(F.col(columns[0]).cast("bigint"), null.cast("bigint"))
    parts = [F.coalesce(F.col(column).cast("string"), null.cast("string")) for column in columns]
    return parts[0] if len(parts) == 1 else F.concat_ws(_SEPARATOR, *map(_escaped, parts))


def _escaped(part: Column) -> Column:
    """One of several key columns without the separator, so that no two keys are written alike."""
    doubled = F.replace(part, F.lit("\\"), F.lit("\\\\"))
    return F.replace(doubled, F.lit(_SEPARATOR), F.lit("\\s"))


#: How a null key announces itself from inside a Spark job.
NULL_KEY = "null key"
