"""The state table: a log of what each interval left behind per key, partitioned by (interval_id, channel), sorted by key.

After an interval it holds what the next one will need and nothing else: the commit that adds an interval's rows drops those of the
interval that leaves the window, so no version is half an interval behind. The state of a function per key has no window: a key's newest
rows count, and now and then all that counts is written anew, in the place of all older rows (`fold_due`). Only migration touches rows of earlier intervals.
Deletion vectors are on, so it rewrites nothing but the rows that move.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from rebalance.errors import OperatorError, RebalanceError
from rebalance.pipeline.intervals import Interval
from rebalance.storage.control import exists, open_table, table_path, version
from rebalance.storage.entries import create_table, restore
from rebalance.storage.epochs import Epoch
from rebalance.storage.files import commented, commit_files, intervals_of, write_files
from rebalance.stores.places import for_spark

PARTITIONS = ("interval_id", "channel")
#: A state log without a window is folded after this many intervals at the latest: each is a file a channel to open.
FOLD_INTERVALS = 16
#: Bytes of a value by its type; texts count their own length. Only ratios between keys matter, so headers are left out.
_WIDTHS = {"boolean": 1, "tinyint": 1, "smallint": 2, "int": 4, "date": 4, "float": 4, "bigint": 8, "double": 8}


def head_version(root: str) -> int:
    """Newest version of the state table, published or not; -1 before it exists."""
    return version(root, "state")


def roll_back(root: str, epoch: Epoch) -> bool:
    """Undo what a crashed step wrote after the active epoch. Metadata only; the caller holds the writer lock.

    What somebody else wrote is looked at before (`rebalance.storage.foreign`).
    """
    if head_version(root) == epoch.state_version or epoch.state_version < 0:
        return False
    restore(root, "state", epoch.state_version, json.dumps({"verb": "roll_back", "epoch": epoch.epoch}))
    return True


def read_state(spark: SparkSession, root: str, version: int) -> DataFrame:
    """The state at a version: channel, key, interval_id and the operator's columns.

    Of the newest version Delta has the snapshot at hand; time travel builds it anew.
    """
    reader = spark.read.format("delta")
    if version != head_version(root):
        reader = reader.option("versionAsOf", version)
    return reader.load(for_spark(table_path(root, "state")))


def check_channels(root: str, version: int, channels: int) -> None:
    """Refuse state that lies on channels the function does not know: nobody would read it there."""
    files = pa.RecordBatchReader.from_stream(
        open_table(root, "state", version).get_add_actions(flatten=True)
    ).read_all()
    strange = sorted(
        {channel for channel in files["partition.channel"].to_pylist() if not 0 <= int(channel) < channels}
    )
    if strange:
        raise RebalanceError(
            f"version {version} of the state has rows on the channels {strange}, but the active function has {channels} channels, "
            "0 and up. Somebody else has written to the table: see its history."
        )


def oldest_needed(interval: Interval, window: int) -> str:
    """Id of the first interval whose state belongs to the window that ends with `interval`."""
    return interval.shifted(1 - window).id


def fold_due(root: str, version: int) -> bool:
    """Whether a log without a window is to be folded: it is twice as long as when it was folded last, or has many intervals.

    By the table's log alone. Its oldest interval is the last fold, all of which counted then.
    """
    files = pa.RecordBatchReader.from_stream(
        open_table(root, "state", version).get_add_actions(flatten=True)
    ).read_all()
    rows: dict[str, int] = {}
    for interval_id, count in zip(
        files["partition.interval_id"].to_pylist(), files["num_records"].to_pylist(), strict=True
    ):
        rows[interval_id] = rows.get(interval_id, 0) + (count or 0)
    return len(rows) >= FOLD_INTERVALS or (len(rows) > 1 and sum(rows.values()) > 2 * rows[min(rows)])


def prepare_state(state: DataFrame, root: str, *, deletion_vectors: bool) -> None:
    """Make the table for these state rows if there is none.

    delta-rs would add features to a table with deletion vectors that other readers do not know.
    """
    if exists(root, "state"):
        return
    create_table(
        root,
        "state",
        commented("state", state_schema(state.schema)).jsonValue(),
        partition_by=PARTITIONS,
        properties={
            "delta.enableDeletionVectors": str(deletion_vectors).lower(),
            # Delta would remove entries after 30 days, whatever a rewind needs. Maintenance does, and knows.
            "delta.logRetentionDuration": "interval 3650 days",
        },
        features=["deletionVectors"] if deletion_vectors else [],
    )


def write_state(state: DataFrame, root: str, interval: Interval, *, needed: str, before: int) -> tuple[int, int]:
    """Put an interval's state rows in place and drop those of intervals before `needed`, in one commit; returns version and rows.

    `state` is placed, partition d has the rows of channel d, and sorted by (channel, key). The commit follows version `before`, or is
    not made at all. Rows of later intervals are those that a rewind has undone, where it went back to no state at all.
    """
    files = write_files(state.drop("interval_id"), root, "state", interval.id, ["channel"])
    held = intervals_of(open_table(root, "state"))
    others = [interval_id for interval_id in held if not needed <= interval_id < interval.id]
    version = commit_files(
        root,
        "state",
        state_schema(state.schema),
        files,
        partition_by=PARTITIONS,
        in_place_of=[interval.id, *others],
        after=before,
        metadata={"verb": "process_batch", "interval": interval.id},
    )
    return version, sum(file.rows for file in files)


def state_schema(rows: StructType) -> StructType:
    """The table's columns for these state rows: where they lie, and what the operator keeps, any of it null."""
    own = [field for field in rows if field.name not in (*PARTITIONS, "is_new")]
    places = [StructField("interval_id", StringType()), StructField("channel", IntegerType())]
    return StructType([*places, *(StructField(field.name, field.dataType, metadata=field.metadata) for field in own)])


def check_columns(rows: StructType, stored: StructType) -> None:
    """Refuse an operator whose state columns are no longer those of the table."""
    ours, theirs = _types(rows), _types(stored)
    if ours != theirs:
        changed = sorted(set(ours.items()) ^ set(theirs.items()))
        raise OperatorError(
            f"the operator's state columns differ from those of the state table: {changed}. "
            "Restore the operator, or start with an empty table root."
        )


def _types(columns: StructType) -> Mapping[str, str]:
    return {field.name: field.dataType.simpleString() for field in state_schema(columns)}


def fixed_bytes(df: DataFrame) -> int:
    """Bytes of a row's values whose size does not vary; never zero, a row is a row."""
    return 1 + sum(
        _WIDTHS.get(kind, 16 if kind.startswith("decimal") else 8)
        for name, kind in df.dtypes
        if name not in PARTITIONS and kind not in ("string", "binary")
    )


def varying_bytes(df: DataFrame) -> list[Column]:
    """Bytes of each of a row's values whose size varies, the key's left out."""
    return [
        F.coalesce(F.octet_length(name), F.lit(0))
        for name, kind in df.dtypes
        if name not in (*PARTITIONS, "key") and kind in ("string", "binary")
    ]
