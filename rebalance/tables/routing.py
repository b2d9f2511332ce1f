"""The partitioning function as a Spark expression: splits, then routes, then ring, the same for every planner."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rebalance.errors import SourceError
from rebalance.partition import SLOT_SHIFT, KeyType, PartitionFunction

_INTEGERS = ("tinyint", "smallint", "int", "bigint")


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
    """
    column = key_column(df, (key,), function.key_type)
    hashed = ring_channel(function, column)
    if not function.routes:
        return df.withColumn("channel", hashed)
    kind = pa.int64() if function.key_type == "long" else pa.string()
    # From Arrow: a list of rows would go through a Python worker.
    table = df.sparkSession.createDataFrame(
        pa.table(
            {
                "_route_key": pa.array(function.routes.keys(), kind),
                "_route_channel": pa.array(function.routes.values(), pa.int32()),
            }
        )
    )
    joined = df.withColumn("_key", column).join(F.broadcast(table), F.col("_key") == F.col("_route_key"), "left")
    return joined.withColumn("channel", F.coalesce("_route_channel", hashed)).drop(
        "_key", "_route_key", "_route_channel"
    )


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
    return parts[0] if len(parts) == 1 else F.concat_ws("\x1f", *parts)


#: How a null key announces itself from inside a Spark job.
NULL_KEY = "null key"
