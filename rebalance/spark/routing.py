"""The partitioning function as a Spark expression: splits, then routes, then ring, the same for every planner.

A tuple of a split key chooses among the key's channels by its salt, a number that comes from the tuple itself: the same tuple goes to
the same channel in every run and on every retry, and many tuples meet the shares as closely as many throws of a die do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rebalance.errors import SourceError
from rebalance.partition import KeyType, PartitionFunction, Share
from rebalance.spark.lookup import cell_of, looked_up, numbers

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
#: What of a type's name says that Spark cannot hash its values.
_NOT_HASHED = ("map<", "variant")
#: Between the columns of a key that has several.
_SEPARATOR = "\x1f"
#: The column by which the tuples of a split key choose their channel.
SALT = "salt"
#: Tells the rows of split keys from the others, between placement and the operator.
IS_SPLIT = "is_split"
_KEY = "_key"


def slot_of(key: Column) -> Column:
    """The ring slot of a key; `rebalance.partition.slots_of` gives the same in Python."""
    return cell_of(key)


def ring_channel(function: PartitionFunction, key: Column) -> Column:
    """h(k): one array access."""
    return looked_up(key, function.key_type, function.slots, {})


def one_channel_of(function: PartitionFunction, key: Column) -> Column:
    """F(k), INT: for a split key its first channel, where its merged state lives."""
    firsts = {split: shares[0].channel for split, shares in function.splits.items()}
    return looked_up(key, function.key_type, function.slots, {**function.routes, **firsts})


def channel_of(function: PartitionFunction, key: Column, salt: Column | None = None) -> Column:
    """The channel of a row, INT, never null: rows of a split key choose by their salt, or all take the first if there is none.

    To be used where rows are placed, `rows.repartitionById(function.channels, channel_of(...))`: the channel is then the partition's
    number and need not be carried along. The key must be of the function's key type and not null (`key_column`).
    """
    if salt is None or not function.splits:
        return one_channel_of(function, key)
    # A split answers with its own number, below zero.
    splits = {split: ~number for number, split in enumerate(function.splits)}
    found = looked_up(key, function.key_type, function.slots, {**function.routes, **splits})
    return F.when(found >= 0, found).otherwise(_share_of(function, F.bitwise_not(found), salt))


def is_split(function: PartitionFunction, key: Column) -> Column:
    """Whether the function splits the key, BOOLEAN."""
    if not function.splits:
        return F.lit(False)
    return looked_up(key, function.key_type, np.zeros_like(function.slots), dict.fromkeys(function.splits, 1)) == 1


def route(df: DataFrame, function: PartitionFunction, key: str = "key") -> DataFrame:
    """Add the column `channel` (INT) to any DataFrame: where the function sends each row by its key column.

    The column must have the function's key type (STRING, or an integer type). Rows with a null key are refused when they are met.
    Rows of a split key choose by their column `salt` if there is one, otherwise by all their columns.
    """
    salt = F.col(SALT) if SALT in df.columns else salt_of(df)
    return _with_key(df, function, key).withColumn("channel", channel_of(function, F.col(_KEY), salt)).drop(_KEY)


def to_one_channel(df: DataFrame, function: PartitionFunction) -> DataFrame:
    """Give each row its key's one channel, F(k)."""
    return _with_key(df, function).withColumn("channel", one_channel_of(function, F.col(_KEY))).drop(_KEY)


def mark_split(df: DataFrame, function: PartitionFunction) -> DataFrame:
    """Add `is_split`: whether the function splits the row's key."""
    return _with_key(df, function).withColumn(IS_SPLIT, is_split(function, F.col(_KEY))).drop(_KEY)


def salt_of(df: DataFrame) -> Column:
    """A number from all columns of a row that Spark can hash."""
    hashed = [name for name, kind in df.dtypes if not any(part in kind for part in _NOT_HASHED)]
    return F.xxhash64(*(F.col(f"`{name}`") for name in hashed))


def _with_key(df: DataFrame, function: PartitionFunction, key: str = "key") -> DataFrame:
    """The checked key as a column of its own: an expression may name it many times and Spark computes it once."""
    return df.withColumn(_KEY, key_column(df, (key,), function.key_type))


def _share_of(function: PartitionFunction, split: Column, salt: Column) -> Column:
    """The channel of a tuple of the split with this number: all alias tables, one after the other, as arrays."""
    tables = [_alias_table(shares) for shares in function.splits.values()]
    sizes = np.array([len(table) for table in tables], dtype=np.int32)
    below = numbers(np.array([entry.below for table in tables for entry in table], dtype=np.float64))
    channel = numbers(np.array([entry.channel for table in tables for entry in table], dtype=np.int32))
    other = numbers(np.array([entry.other for table in tables for entry in table], dtype=np.int32))
    # Hashed once more: a caller's own salt may be a counter. 53 bits are what a double holds.
    place = F.shiftrightunsigned(F.xxhash64(salt), 11) * F.lit(2.0**-53) * F.get(numbers(sizes), split)
    begin = F.get(numbers((np.cumsum(sizes) - sizes).astype(np.int32)), split)
    entry = begin + F.floor(place).cast("int")
    return F.when(place - F.floor(place) < F.get(below, entry), F.get(channel, entry)).otherwise(F.get(other, entry))


class _Entry(NamedTuple):
    """Stands for its own channel below `below`, and for the `other` from there to 1."""

    below: float
    channel: int
    other: int


def _alias_table(shares: Sequence[Share]) -> list[_Entry]:
    """Walker's alias method: m shares as m equally likely entries of at most two channels, so that choosing is one array access."""
    size, total = len(shares), sum(part.share for part in shares)
    weight = [part.share / total * size for part in shares]
    entries = [_Entry(1.0, part.channel, part.channel) for part in shares]
    small = [i for i in range(size) if weight[i] < 1.0]
    large = [i for i in range(size) if weight[i] >= 1.0]
    while small and large:
        poor, rich = small.pop(), large[-1]
        entries[poor] = _Entry(weight[poor], shares[poor].channel, shares[rich].channel)
        weight[rich] -= 1.0 - weight[poor]
        if weight[rich] < 1.0:
            small.append(large.pop())
    return entries


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
