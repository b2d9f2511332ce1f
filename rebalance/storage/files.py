"""Tables that grow by an interval at a time, results and state: Spark writes plain Parquet files, delta-rs commits them.

Spark's own Delta writer would read the table's log again and sort by the partition columns; a commit by delta-rs takes 10 to 40 ms.
Files nobody has committed mean nothing: a killed write leaves some behind, in a folder that no later one uses.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

import pyarrow as pa
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, create_table_with_add_actions
from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from rebalance.errors import OvertakenError
from rebalance.storage.control import exists, open_table, table_path
from rebalance.storage.lock import require_lock
from rebalance.storage.schemas import OWN_COLUMN, about, comments
from rebalance.stores.access import filesystem
from rebalance.stores.places import for_spark, options_of

_FOLDER = re.compile(r"(\w+)=([^/]*)/")


@dataclass(frozen=True)
class DataFile:
    """A Parquet file under a table's folder, committed or not."""

    #: Relative to the table.
    path: str
    size: int
    rows: int

    @property
    def partition(self) -> dict[str, str]:
        """Column and value of each partition it belongs to, by the folders it lies in, as other readers have it."""
        return dict(_FOLDER.findall(self.path))


def write_files(
    df: DataFrame, root: str, table: str, interval_id: str, partition_by: Sequence[str] = ()
) -> list[DataFile]:
    """Write an interval's rows as Parquet files; those without rows are left out."""
    folder = f"interval_id={interval_id}/{uuid4().hex}"
    df.write.partitionBy(*partition_by).parquet(for_spark(f"{table_path(root, table)}/{folder}"))
    return written_files(root, table, folder)


def written_files(root: str, table: str, folder: str) -> list[DataFile]:
    """The Parquet files with rows in a folder of the table, as they are on disk: Spark's own counts include tasks that were run twice.

    Not those in folders for a moment, which begin with an underscore: a task that Spark has given up, and that does not know it yet, may
    still write there what another has written in its place.
    """
    store = filesystem(table_path(root, table))
    found = []
    for info in store.get_file_info(pa_fs.FileSelector(folder, recursive=True)):
        passing = any(part.startswith(("_", ".")) for part in info.path.removeprefix(folder).split("/"))
        if info.base_name.endswith(".parquet") and not passing:
            rows = pq.read_metadata(info.path, filesystem=store).num_rows
            found.append(DataFile(info.path, info.size, rows))
    return sorted((file for file in found if file.rows), key=lambda file: file.path)


def commit_files(
    root: str,
    table: str,
    schema: StructType,
    files: Sequence[DataFile],
    *,
    partition_by: Sequence[str],
    in_place_of: Sequence[str],
    metadata: Mapping[str, str],
    after: int | None = None,
) -> int:
    """Make files part of the table, and those of the intervals `in_place_of` no longer, in one commit; returns its version.

    With `after`, the commit is the very next version after it, or is not made: OvertakenError.
    """
    path, now = table_path(root, table), round(time.time() * 1000)
    actions = [
        AddAction(file.path, file.size, file.partition, now, True, json.dumps({"numRecords": file.rows}))
        for file in files
    ]
    properties = CommitProperties(custom_metadata=dict(metadata), max_commit_retries=None if after is None else 0)
    require_lock(root)
    if not exists(root, table):
        try:
            create_table_with_add_actions(
                path,
                Schema.from_json(commented(table, schema).json()),
                actions,
                partition_by=list(partition_by),
                description=about(table),
                commit_properties=properties,
                storage_options=options_of(path),
            )
        except DeltaError:
            if not exists(root, table):
                raise
            raise _overtaken(f"the table {table} was to be made, but another process has made it since.") from None
        return 0
    delta = open_table(root, table, after)
    filters: list[tuple[str, str, list[str]]] = [("interval_id", "in", list(in_place_of))]
    replaces = bool(in_place_of) and bool(delta.file_uris(file_pruning_predicate=filters))
    how: dict[str, Any] = {"mode": "overwrite", "partition_filters": filters} if replaces else {"mode": "append"}
    try:
        delta.create_write_transaction(
            # The table's own columns: others, if only by a comment, would change the table.
            [*actions],
            schema=delta.schema(),
            partition_by=list(partition_by),
            commit_properties=properties,
            **how,
        )
    except CommitFailedError:
        if after is None:
            raise
        raise _overtaken(
            f"version {after} of the table {table} was to be followed, but another process has written to it since."
        ) from None
    return open_table(root, table).version() if after is None else after + 1


def _overtaken(how: str) -> OvertakenError:
    return OvertakenError(f"{how} Nothing was committed here. Run the step again.")


def commented(table: str, schema: StructType) -> StructType:
    """The columns with what each of them is; those of the operator say what it has said of them."""
    ours = comments(table)
    return StructType(
        [
            StructField(
                field.name,
                field.dataType,
                field.nullable,
                {"comment": ours.get(field.name) or field.metadata.get("comment") or OWN_COLUMN},
            )
            for field in schema
        ]
    )


def missing_files(root: str, table: str, version: int) -> list[str]:
    """The data files that a version of the table names and that are no longer there."""
    actions = pa.RecordBatchReader.from_stream(
        open_table(root, table, version).get_add_actions(flatten=True)
    ).read_all()
    named = [unquote(file) for file in actions["path"].to_pylist()]
    found = filesystem(table_path(root, table)).get_file_info(named) if named else []
    return [info.path for info in found if info.type == pa_fs.FileType.NotFound]


def intervals_of(delta: DeltaTable) -> list[str]:
    """The intervals that a table partitioned by them holds, by its log alone."""
    actions = pa.RecordBatchReader.from_stream(delta.get_add_actions(flatten=True)).read_all()
    return sorted(set(actions["partition.interval_id"].to_pylist()))
