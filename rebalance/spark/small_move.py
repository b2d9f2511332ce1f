"""Moved rows that fit into the driver: found by one Spark job, then written and read back without Spark.

Most migrations move a few megabytes, for which Spark's jobs to sum up, exchange, write and read again take longer than the rows
themselves. New files are compared with the rows that were found, value by value.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, MapType, StructType

from rebalance.errors import MigrationError
from rebalance.spark.fingerprint import ROLLED_BACK, halves, row_hash
from rebalance.stores.access import filesystem

#: Of the moved rows, by the statistics.
MOST_BYTES = 32 << 20
_HASH = "_moved_hash"
_PLACE = ("interval_id", "channel")


def fits(state: DataFrame, held_bytes: int | None) -> bool:
    """Whether rows of this state may come to the driver; values that have parts cannot be compared there one by one."""
    nested = any(isinstance(field.dataType, ArrayType | MapType | StructType) for field in state.schema)
    return held_bytes is not None and held_bytes <= MOST_BYTES and not nested


class SmallRows:
    """Rows found by `find_rows`, in the driver."""

    def __init__(self, found: DataFrame, file: str, position: str, target: str) -> None:
        own = found.drop(file, position, target)
        table = found.withColumn(_HASH, row_hash(own)).toArrow()
        high, low = halves(table[_HASH])
        ones = pa.repeat(pa.scalar(1, pa.int64()), table.num_rows)
        #: Each row is a run of its own.
        self.runs = pa.table(
            {
                "key": table["key"],
                "channel": table["channel"],
                "file": table[file],
                "rows": ones,
                "high": high,
                "low": low,
                "first": table[position],
                "last": table[position],
            }
        )
        moved = table.set_column(table.column_names.index("channel"), "channel", table[target])
        self._moved = moved.select(own.columns)
        self._written: dict[str, pa.Table] = {}

    def write(self, table_path: str) -> list[dict[str, Any]]:
        """Write one file for each partition of the table, sorted by key; returns their entries in the log."""
        files, entries = filesystem(table_path), []
        places = self._moved.group_by(list(_PLACE)).aggregate([]).sort_by([(name, "ascending") for name in _PLACE])
        for place in places.to_pylist():
            here = pc.and_(*(pc.equal(self._moved[name], value) for name, value in place.items()))
            rows = self._moved.filter(here).drop_columns(list(_PLACE)).sort_by("key")
            path = f"{_folder(place)}/part-{uuid4().hex}.parquet"
            files.create_dir(_folder(place), recursive=True)
            # Numbers hardly repeat, and a dictionary of them only adds to their bytes; Spark's writer finds that out by itself.
            texts = [field.name for field in rows.schema if not pa.types.is_primitive(field.type)]
            pq.write_table(rows, path, filesystem=files, use_dictionary=texts)
            self._written[path] = rows
            entries.append(
                {
                    "path": path,
                    "partitionValues": {name: str(value) for name, value in place.items()},
                    "size": files.get_file_info(path).size,
                    "modificationTime": round(time.time() * 1000),
                    "dataChange": True,
                    "stats": json.dumps({"numRecords": rows.num_rows}),
                }
            )
        return entries

    def check(self, table_path: str, new: list[dict[str, Any]]) -> None:
        """Refuse new files in which a row is missing, doubled, changed or in another partition of the table."""
        files = filesystem(table_path)
        wrong = self._written.keys() - {add["path"] for add in new}
        for add in new:
            path, written = add["path"], self._written.get(add["path"])
            right_place = path.startswith(f"{_folder(add['partitionValues'])}/")
            if not (
                right_place and written and _same(pq.read_table(path, filesystem=files, partitioning=None), written)
            ):
                wrong.add(path)
        if wrong:
            raise MigrationError(
                f"the rows in {len(wrong)} of {len(new)} new files are not those that were to move, for example in {min(wrong)}. {ROLLED_BACK}"
            )


def _folder(place: Mapping[str, Any]) -> str:
    return "/".join(f"{name}={place[name]}" for name in _PLACE)


def _same(found: pa.Table, written: pa.Table) -> bool:
    if (found.num_rows, found.column_names) != (written.num_rows, written.column_names):
        return False
    return all(
        _bits(found[name].cast(written[name].type)).equals(_bits(written[name])) for name in written.column_names
    )


def _bits(column: pa.ChunkedArray) -> pa.Array:
    """Numbers as they are stored: a NaN is not equal to itself."""
    whole = column.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        whole = pa.concat_arrays(whole.chunks)
    return whole.view(f"int{whole.type.bit_width}") if pa.types.is_floating(whole.type) else whole
