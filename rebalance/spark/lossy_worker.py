"""Lossy counting inside Spark's Python workers: of a partition's rows, exact sums by ring slot and the keys that are frequent in it.

Reference: Manku and Motwani, "Approximate frequency counts over data streams", VLDB 2002 (`rebalance.planners.gedik.lossy` has it tuple by tuple).

This module is sent with the job by value and imports nothing else of the package. Here rows are counted in whole pieces, grouped by Arrow:
a key that is new in a piece gets the largest count that may have been forgotten of it as its error, and keys are forgotten at the end of a piece.
A piece may be cut anywhere; the rules hold for any cut.

- count ≤ true count ≤ count + error, and error ≤ n // width, n being the rows so far;
- a key without an entry has a true count of at most n // width.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

#: Rows that are grouped at once, at least: grouping goes through all entries again.
PIECE = 1 << 17
SLOTS = 1 << 16
#: What leaves a worker: sums of a slot, whose key is null, and entries of keys, whose slot is null. `excess` is an entry's error less the
#: partition's largest one, so that counts of partitions merge by adding up: a partition without the key then adds its largest error.
COLUMNS = ("slot", "key", "rows", "bytes", "excess", "largest")


class LossyTable:
    """Counts the keys of one partition.

    >>> table = LossyTable(width=10, key=pa.int64())
    >>> table.add(pa.chunked_array([[7, 7, 1, 7, 2, 7, 3, 7, 4, 7]]))
    >>> table.entries.to_pydict()
    {'key': [7], 'count': [6], 'error': [0]}
    """

    def __init__(self, width: int, key: pa.DataType) -> None:
        #: Rows for each of which one may be forgotten of every key.
        self.width = width
        #: Rows so far.
        self.rows = 0
        #: The most that may have been forgotten of a key without an entry.
        self.largest = 0
        self.entries = pa.schema({"key": key, "count": pa.int64(), "error": pa.int64()}).empty_table()

    def add(self, keys: pa.ChunkedArray) -> None:
        """Count these rows' keys."""
        size = len(keys)
        new = pa.table(
            {
                "key": keys,
                "count": pa.repeat(pa.scalar(1, pa.int64()), size),
                "error": pa.nulls(size, pa.int64()),
            }
        )
        both = pa.concat_tables([self.entries, new])
        sums = both.group_by("key", use_threads=False).aggregate([("count", "sum"), ("error", "max")])
        error = pc.fill_null(sums["error_max"], self.largest)
        self.rows += size
        closed = self.rows // self.width
        found = pa.table({"key": sums["key"], "count": sums["count_sum"], "error": error})
        if closed > self.largest:
            found = found.filter(pc.greater(pc.add(found["count"], found["error"]), closed))
            self.largest = closed
        self.entries = found.combine_chunks()


@dataclass(frozen=True)
class LossyWorker:
    """What Spark calls with a partition's rows: `key`, `slot` and `bytes`."""

    #: Of all rows of a partition, one in so many may be forgotten of a key.
    width: int
    #: The columns that leave the worker.
    out: pa.Schema
    #: Rows that are grouped at once, at least.
    piece: int = PIECE

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The sums of the partition's slots, then its entries."""
        table = LossyTable(self.width, self.out.field("key").type)
        rows, size = np.zeros(SLOTS, dtype=np.int64), np.zeros(SLOTS, dtype=np.int64)
        for piece in self._pieces(batches, table):
            slot = piece["slot"].to_numpy()
            rows += np.bincount(slot, minlength=SLOTS)
            # Sums of a piece are far below the 2^53 up to which a double is a whole number.
            size += np.bincount(slot, piece["bytes"].to_numpy(), SLOTS).astype(np.int64)
            table.add(piece["key"].cast(table.entries.schema.field("key").type))
        if not table.rows:
            return
        used = np.flatnonzero(rows)
        # One row says what a key without an entry may have in this partition.
        yield from self._filled(1, largest=np.array([table.largest]))
        yield from self._filled(len(used), slot=used, rows=rows[used], bytes=size[used])
        entries = table.entries
        excess = pc.subtract(entries["error"], table.largest)
        yield from self._filled(entries.num_rows, key=entries["key"], rows=entries["count"], excess=excess)

    def _filled(self, size: int, **columns: Any) -> Iterator[pa.RecordBatch]:
        """Rows with these columns, and nothing in the others."""
        arrays = []
        for column in self.out:
            values = columns.get(column.name)
            if values is None:
                values = pa.nulls(size, column.type)
            elif not isinstance(values, pa.Array | pa.ChunkedArray):
                values = pa.array(values)
            arrays.append(values.cast(column.type))
        yield from pa.Table.from_arrays(arrays, schema=self.out).to_batches(max_chunksize=PIECE)

    def _pieces(self, batches: Iterator[pa.RecordBatch], table: LossyTable) -> Iterator[pa.Table]:
        """Batches put together until grouping them is worth going through the entries."""
        held: list[pa.RecordBatch] = []
        for batch in batches:
            held.append(batch)
            if sum(each.num_rows for each in held) >= max(self.piece, table.entries.num_rows):
                yield pa.Table.from_batches(held)
                held = []
        if any(each.num_rows for each in held):
            yield pa.Table.from_batches(held)
