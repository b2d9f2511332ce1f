"""Somebody's table of keys as the arrays that planning works on: pandas, polars, Arrow, or a dict of columns.

pandas, polars and others hand their tables over in Arrow's own form, so none of them is imported here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rebalance.errors import ConfigError, SourceError
from rebalance.partition import KeyType
from rebalance.planning.model import Floats, Ints

#: As many channels as a pipeline may have.
MOST_CHANNELS = 4096


@dataclass(frozen=True, eq=False)
class Keys:
    """The keys in ascending order, what each costs and holds, and where each is now (None = not said)."""

    key_type: KeyType
    keys: NDArray[Any]
    cost: Floats
    state: Floats
    channel: Ints | None


@dataclass(frozen=True)
class Columns:
    """How the columns are called; None = by the usual name, if there is such a column."""

    key: str = "key"
    cost: str = "cost"
    state: str | None = None
    channel: str | None = None


def read_keys(table: object, names: Columns) -> Keys:
    """The keys of a table, checked: whole numbers or texts, each once, with numbers that can be planned on."""
    found = _arrow(table)
    if not found.num_rows:
        raise SourceError("the table has no rows. Give one row per key.")
    keys, key_type = _key_column(_column(found, names.key), names.key)
    order = pc.sort_indices(keys)
    keys = keys.take(order)
    _refuse_twice(keys, names.key)
    state, channel = _optional(found, names.state, "state"), _optional(found, names.channel, "channel")
    return Keys(
        key_type,
        keys.to_numpy(zero_copy_only=False),
        _numbers(found, names.cost).take(order).to_numpy(zero_copy_only=False),
        _numbers(found, state).take(order).to_numpy(zero_copy_only=False) if state else np.zeros(len(keys)),
        _channels(found, channel).take(order).to_numpy(zero_copy_only=False) if channel else None,
    )


def _arrow(table: object) -> pa.Table:
    """Any table as Arrow's."""
    if isinstance(table, Mapping) or hasattr(table, "__arrow_c_stream__") or isinstance(table, pa.RecordBatch):
        try:
            return pa.table(table)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise SourceError(f"the table cannot be read: {str(error).splitlines()[0]}") from None
    raise SourceError(
        f"this is a {type(table).__name__}, not a table. Give one of pandas, polars or Arrow, or a dict of columns; "
        "of a Spark DataFrame its toArrow()."
    )


def _column(table: pa.Table, name: str) -> pa.Array:
    if table.column_names.count(name) != 1:
        number = table.column_names.count(name)
        raise ConfigError(
            f"there {'is no column' if not number else f'are {number} columns'} {name!r}. The table has: {', '.join(map(repr, table.column_names))}. "
            f"Name the columns with key=, cost=, state= and now=."
        )
    column = table[name].combine_chunks()
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _optional(table: pa.Table, name: str | None, usual: str) -> str | None:
    """The name of a column that may be left out."""
    return name or (usual if usual in table.column_names else None)


def _key_column(column: pa.Array, name: str) -> tuple[pa.Array, KeyType]:
    """Keys are hashed as Spark does, so what a key may be is what Spark's hash knows without doubt."""
    if column.null_count:
        raise SourceError(
            f"{column.null_count:,} of {len(column):,} keys in {name!r} are null. Leave these rows out, or give them a key."
        )
    kind = column.type
    if pa.types.is_integer(kind):
        try:
            return column.cast(pa.int64()), "long"
        except pa.ArrowInvalid:
            raise SourceError(
                f"{name!r} has keys beyond 2^63, which Spark's BIGINT cannot hold. Cast them to text."
            ) from None
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return column.cast(pa.large_string()), "string"
    raise SourceError(f"{name!r} is of type {kind}. Keys are whole numbers or texts: cast it to one of them.")


def _refuse_twice(keys: pa.Array, name: str) -> None:
    """Refuse a key that has several rows, told from sorted keys."""
    same = pc.equal(keys[1:], keys[:-1])
    if more := pc.sum(same).as_py():
        example = keys[1:].filter(same)[0].as_py()
        raise SourceError(
            f"{more:,} of {len(keys):,} rows repeat a key in {name!r}, for example {example!r}. Give one row per key: sum cost and state first."
        )


def _numbers(table: pa.Table, name: str) -> pa.Array:
    """A column of costs or bytes: finite and not negative."""
    column = _column(table, name)
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_decimal(column.type)):
        raise SourceError(f"{name!r} is of type {column.type}. It must be numbers.")
    values = column.cast(pa.float64(), safe=False)
    # pandas' missing numbers are nulls here.
    missing = pc.sum(pc.is_null(values, nan_is_null=True)).as_py()
    negative = pc.sum(pc.less(values, 0.0)).as_py() or 0
    endless = pc.sum(pc.is_inf(values)).as_py() or 0
    if missing or negative or endless:
        wrong = ((missing, "null or not a number"), (negative, "negative"), (endless, "infinite"))
        said = ", ".join(f"{number:,} {what}" for number, what in wrong if number)
        raise SourceError(
            f"of {len(values):,} numbers in {name!r}, these cannot be planned on: {said}. Fill or leave out their rows; "
            "a key that costs nothing has a 0."
        )
    return values


def _channels(table: pa.Table, name: str) -> pa.Array:
    """Where the keys are now; channels beyond those that are planned for may be among them."""
    column = _column(table, name)
    if not pa.types.is_integer(column.type):
        raise SourceError(f"{name!r} is of type {column.type}. Channels are whole numbers from 0 on.")
    if column.null_count:
        raise SourceError(
            f"{column.null_count:,} of {len(column):,} channels in {name!r} are null. Say where every key is, or leave the column out."
        )
    ends = pc.min_max(column).as_py()
    if ends["min"] < 0 or ends["max"] >= MOST_CHANNELS:
        raise SourceError(
            f"{name!r} has channels from {ends['min']} to {ends['max']}. They go from 0 to {MOST_CHANNELS - 1}."
        )
    return column.cast(pa.int32())
