"""The state table: a log of what each interval left behind per key, partitioned by (interval_id, channel).

An interval's rows are written in one commit that also drops what left the window, so no version of the table is ever half an interval
behind. Only migration rewrites rows of earlier intervals. Deletion vectors are on, so it rewrites nothing but the rows that move.
"""

from __future__ import annotations

import json

from delta.tables import DeltaTable
from deltalake import DeltaTable as LightTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from rebalance.errors import OperatorError
from rebalance.pipeline.intervals import Interval
from rebalance.storage.control import exists, table_path
from rebalance.storage.epochs import Epoch

#: Bytes of a value by its type; texts count their own length. Only ratios between keys matter, so headers are left out.
_WIDTHS = {"boolean": 1, "tinyint": 1, "smallint": 2, "int": 4, "date": 4, "float": 4, "bigint": 8, "double": 8}


def head_version(root: str) -> int:
    """Newest version of the state table, published or not; -1 before it exists."""
    return LightTable(table_path(root, "state")).version() if exists(root, "state") else -1


def roll_back(spark: SparkSession, root: str, epoch: Epoch) -> bool:
    """Undo what a crashed step wrote after the active epoch. Metadata only; the caller holds the writer lock."""
    if head_version(root) == epoch.state_version or epoch.state_version < 0:
        return False
    DeltaTable.forPath(spark, table_path(root, "state")).restoreToVersion(epoch.state_version)
    return True


def read_state(spark: SparkSession, root: str, version: int) -> DataFrame:
    """The state at a version: channel, key, interval_id and the operator's columns."""
    return spark.read.format("delta").option("versionAsOf", version).load(table_path(root, "state"))


def read_newest_state(spark: SparkSession, root: str, version: int) -> DataFrame:
    """The same for a version that is likely the newest, of which Delta has the snapshot at hand; time travel builds it anew.

    Not for a DataFrame that is cached while the table is written: Spark would fill the cache again after the write.
    """
    if version != head_version(root):
        return read_state(spark, root, version)
    return spark.read.format("delta").load(table_path(root, "state"))


def oldest_needed(interval: Interval, window: int) -> str:
    """Id of the first interval whose state belongs to the window that ends with `interval`."""
    return interval.shifted(1 - window).id


def write_state(state: DataFrame, root: str, interval: Interval, *, window: int, deletion_vectors: bool) -> int:
    """Put an interval's state rows in place and drop what left its window, in one commit; returns the version."""
    writer = (
        state.write.format("delta")
        .partitionBy("interval_id", "channel")
        .option("userMetadata", json.dumps({"verb": "process_batch", "interval": interval.id}))
    )
    path = table_path(root, "state")
    if exists(root, "state"):
        mine = f"interval_id = '{interval.id}' OR interval_id < '{oldest_needed(interval, window)}'"
        writer.mode("overwrite").option("replaceWhere", mine).save(path)
    else:
        writer.option("delta.enableDeletionVectors", str(deletion_vectors).lower()).mode("errorifexists").save(path)
    return head_version(root)


def check_columns(rows: DataFrame, stored: DataFrame) -> None:
    """Refuse an operator whose state columns are no longer those of the table."""
    ours = {f.name: f.dataType.simpleString() for f in rows.schema}
    theirs = {f.name: f.dataType.simpleString() for f in stored.schema}
    if ours != theirs:
        changed = sorted(set(ours.items()) ^ set(theirs.items()))
        raise OperatorError(
            f"the operator's state columns differ from those of the state table: {changed}. "
            "Restore the operator, or start with an empty table root."
        )


def row_bytes(df: DataFrame) -> Column:
    """Bytes of state a row stands for: the width of its values, partition columns left out; never zero, a row is a row."""
    size: Column = F.lit(1)
    for name, kind in df.dtypes:
        if name in ("interval_id", "channel"):
            continue
        if kind in ("string", "binary"):
            size = size + F.coalesce(F.octet_length(name), F.lit(0))
        else:
            size = size + F.lit(_WIDTHS.get(kind, 16 if kind.startswith("decimal") else 8))
    return size.cast("bigint")
