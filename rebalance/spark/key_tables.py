"""Sorted batches cut into keys, and what a function returned put together: Arrow and pandas, without Spark.

Sent to Spark's workers by value, with `rebalance.spark.key_worker`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

#: Kinds of Arrow types among which a value may be cast without a word, if none is lost.
_FAMILIES: tuple[Callable[[pa.DataType], bool], ...] = (
    lambda kind: pa.types.is_integer(kind) or pa.types.is_floating(kind),
    lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind),
    lambda kind: pa.types.is_binary(kind) or pa.types.is_large_binary(kind),
    lambda kind: pa.types.is_timestamp(kind) and kind.tz is not None,
    lambda kind: pa.types.is_timestamp(kind) and kind.tz is None,
    pa.types.is_decimal,
)


def whole_keys(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches sorted by their first column as tables in which every key has all its rows; a key may span many batches."""
    unfinished: list[pa.RecordBatch] = []
    for batch in batches:
        if not batch.num_rows:
            continue
        starts = first_rows(batch.column(0))
        if unfinished and unfinished[0].column(0)[0] == batch.column(0)[0]:
            end = int(starts[1]) if len(starts) > 1 else batch.num_rows
            unfinished.append(batch.slice(0, end))
            starts = starts[1:]
            if not len(starts):
                continue
        if unfinished:
            yield pa.Table.from_batches(unfinished).combine_chunks()
        begin, last = int(starts[0]), int(starts[-1])
        if last > begin:
            yield pa.Table.from_batches([batch.slice(begin, last - begin)])
        unfinished = [batch.slice(last)]
    if unfinished:
        yield pa.Table.from_batches(unfinished).combine_chunks()


def first_rows(keys: Any) -> Any:
    """The index of the first row of each key in a sorted column that is not empty."""
    changes = pc.not_equal(keys.slice(1), keys.slice(0, len(keys) - 1)).to_numpy(zero_copy_only=False)
    return np.concatenate(([0], np.flatnonzero(changes) + 1))


def cast_to(declared: pa.DataType, values: Any) -> Any:
    """An array in its declared type; None if the two have nothing to do with each other. Raises if a value would be lost."""
    found = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    if found == declared and values.type == declared:
        return values
    alike = pa.types.is_null(found) or found == declared
    return values.cast(declared) if alike or any(of(found) and of(declared) for of in _FAMILIES) else None


def is_frame(given: Any) -> bool:
    """Whether it is a pandas DataFrame; pandas is only imported where it is used."""
    return type(given).__name__ == "DataFrame" and hasattr(given, "iloc")


def stacked(frames: list[Any], declared: pa.Schema) -> pa.Table | None:
    """DataFrames one after the other as a table; None if they are not alike, or not what was declared."""
    filled = [frame for frame in frames if len(frame)]
    if not filled:
        return declared.empty_table()
    columns = []
    for column in declared:
        try:
            cast = cast_to(column.type, _stacked([frame[column.name] for frame in filled]))
        except (pa.ArrowException, ValueError, TypeError):
            return None
        if cast is None:
            return None
        columns.append(cast)
    return pa.Table.from_arrays(columns, schema=declared)


def _stacked(series: list[Any]) -> Any:
    """Series of one type one after the other; those that numpy has no type for, such as nullable integers, through Arrow's own."""
    kinds = {part.dtype for part in series}
    if len(kinds) > 1:
        raise TypeError("of several types")
    if all(isinstance(kind, np.dtype) for kind in kinds):
        return pa.array(np.concatenate([part.to_numpy() for part in series]), from_pandas=True)
    return pa.concat_arrays([pa.Array.from_pandas(part) for part in series])


def frame_parts(frame: Any, bounds: list[int]) -> Iterator[Any]:
    """A DataFrame cut into pieces, each with an index of its own from 0."""
    import pandas as pd

    for begin, end in pairwise(bounds):
        part = frame.iloc[begin:end].copy(deep=False)
        part.index = pd.RangeIndex(end - begin)
        yield part


def in_pandas(table: pa.Table) -> Any:
    """A table as a DataFrame; integers and booleans with nulls in pandas' own nullable types, because floats would lose digits."""
    import pandas as pd

    with_nulls = {column.name for column, values in zip(table.schema, table.columns, strict=True) if values.null_count}
    nullable = {pa.int64(): pd.Int64Dtype(), pa.int32(): pd.Int32Dtype(), pa.bool_(): pd.BooleanDtype()}
    plain = table.select([name for name in table.column_names if name not in with_nulls]).to_pandas()
    if not with_nulls:
        return plain
    rest = table.select(sorted(with_nulls)).to_pandas(types_mapper=nullable.get)
    return pd.concat([plain, rest], axis=1)[table.column_names]
