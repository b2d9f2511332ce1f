"""A look at somebody's table, without Spark: how it is stored, its columns, the times in it, and how its rows spread over their keys.

Of a large table only a sample is read: the first rows of files that lie evenly over all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from rebalance.errors import ConfigError
from rebalance.partition import KeyType, PartitionFunction, consistent_ring
from rebalance.storage.history import max_over_mean
from rebalance.stores.access import refusal
from rebalance.stores.places import is_remote
from rebalance.view.found_files import Files, check_place, dataset_of, files_of, format_of

#: Rows to look at, and files to take them from.
MOST_ROWS = 1_000_000
MOST_FILES = 64
#: Text files of up to so many bytes are read as a whole; they do not say how many rows they have.
MOST_TEXT = 100_000_000


@dataclass(frozen=True)
class Spread:
    """How rows spread over the values of a column."""

    column: str
    rows: int
    nulls: int
    #: Share of the rows that have the commonest value.
    heaviest: float
    distinct: int

    @property
    def repeats(self) -> bool:
        """Whether a value has more than a row or two, as the key of some state does and a row's number does not."""
        return 2 <= self.distinct <= self.rows / 1.5


@dataclass(frozen=True)
class Look:
    """What was found."""

    path: str
    format: str
    #: Names of the columns with their types, in the table's order.
    columns: pa.Schema
    sample: pa.Table
    #: All rows of the table, if it can be told without reading it.
    rows: int | None
    files: int

    @property
    def is_whole(self) -> bool:
        """Whether every row was looked at."""
        return self.rows == int(self.sample.num_rows)

    @cached_property
    def times(self) -> list[str]:
        """The columns that can be an event's time."""
        return [
            field.name for field in self.columns if pa.types.is_timestamp(field.type) or pa.types.is_date(field.type)
        ]

    @cached_property
    def keys(self) -> list[str]:
        """The columns that can be a key: text and whole numbers."""
        return [field.name for field in self.columns if _is_text(field.type) or pa.types.is_integer(field.type)]

    def span(self, column: str) -> tuple[datetime, datetime]:
        """The first and the last time that were seen."""
        seen = pc.min_max(self.sample[column].cast(pa.timestamp("us", "UTC")))
        ends = [seen["min"].as_py(), seen["max"].as_py()]
        if None in ends:
            raise ConfigError(f"the column {column!r} of {self.path} has no times in it. Name another one with --time.")
        return ends[0].astimezone(UTC), ends[1].astimezone(UTC)

    def spread(self, column: str) -> Spread:
        """How the rows spread over a column's values."""
        counts = self._counts(column).field("counts").to_numpy()
        return Spread(
            column,
            rows=self.sample.num_rows,
            nulls=self.sample[column].null_count,
            heaviest=float(counts.max() / counts.sum()) if len(counts) else 0.0,
            distinct=len(counts),
        )

    def hashed(self, column: str, channels: int) -> float:
        """Load of the fullest channel over the mean if the hash alone places a column's values."""
        counts = self._counts(column)
        keys = counts.field("values")
        kind: KeyType = "long" if pa.types.is_integer(keys.type) else "string"
        plain = PartitionFunction(0, channels, consistent_ring(channels, replicas=1000), kind)
        loads = np.bincount(
            plain.channel_of(keys.to_pylist()), weights=counts.field("counts").to_numpy(), minlength=channels
        )
        return max_over_mean(loads.tolist())

    def _counts(self, column: str) -> Any:
        values = self.sample[column]
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        return pc.value_counts(values.drop_null().combine_chunks())


def look(path: str, kind: str | None = None) -> Look:
    """Look at the table in a folder, or at a file, on a disk or an object store."""
    check_place(path)
    found = kind or ""
    try:
        found = kind or format_of(path)
        files = files_of(path, found)
        if not files.names:
            raise ConfigError(
                f"there are no {found} files in {path}. Name the format with --format, or another --source."
            )
        table = dataset_of(path, found, files)
        rows = table.count_rows() if found in ("delta", "parquet") else None
        sample = _sample(table, files, rows)
    except (OSError, pa.ArrowException) as error:
        if is_remote(path) and isinstance(error, OSError):
            raise refusal(path, error) from None
        raise ConfigError(f"{path} cannot be read as {found or 'a table'}: {str(error).splitlines()[0]}") from None
    if not sample.num_rows:
        raise ConfigError(f"there are no rows in {path} to look at.")
    whole = rows is None and files.bytes <= MOST_TEXT
    return Look(path, found, table.schema, sample, sample.num_rows if whole else rows, len(files.names))


def _sample(table: Any, files: Files, rows: int | None) -> pa.Table:
    """All rows, or the first ones of files that lie evenly over all of them, the first and the last included."""
    if rows is not None and rows <= MOST_ROWS:
        return table.to_table()
    if rows is None and files.bytes <= MOST_TEXT:
        return table.to_table()
    parts = list(table.get_fragments())
    chosen = [parts[i] for i in np.unique(np.linspace(0, len(parts) - 1, min(MOST_FILES, len(parts))).astype(int))]
    each = MOST_ROWS // len(chosen)
    return pa.concat_tables([ds.Scanner.from_fragment(part, schema=table.schema).head(each) for part in chosen])


def _is_text(kind: Any) -> bool:
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(value) or pa.types.is_large_string(value) or pa.types.is_string_view(value))
