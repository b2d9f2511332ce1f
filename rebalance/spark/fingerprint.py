"""What must be the same before and after a move: which rows each moved key has, and how many rows each channel has."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rebalance.errors import MigrationError
from rebalance.storage.control import table_path

_EXAMPLES = 3
_ROLLED_BACK = "The old epoch stays active; the next run rolls the table back."


def fingerprint(state: DataFrame, moves: DataFrame, channels: list[int]) -> pa.Table:
    """Rows and checksum of each moved key on each of the touched channels; the channel itself is not part of the checksum."""
    content = [F.col(column) for column in state.columns if column != "channel"]
    # A sum of hashes does not depend on the order of rows, and unlike xor it sees a row that is there twice.
    checksum = F.sum(F.xxhash64(*content).cast("decimal(38,0)"))
    return (
        state.where(F.col("channel").isin(channels))
        .join(F.broadcast(moves.select("key")), "key", "left_semi")
        .groupBy("key", "channel")
        .agg(F.count(F.lit(1)).alias("rows"), checksum.alias("checksum"))
        .toArrow()
    )


def check_start(before: pa.Table, moves: pa.Table) -> pa.Table:
    """Refuse moves that do not fit the state; returns the moved keys with the channels they go from and to."""
    planned = before.join(moves.select(["key", "from_channel", "to_channel"]), "key")
    stray = planned.filter(pc.field("channel") != pc.field("from_channel"))
    if stray.num_rows:
        raise MigrationError(
            f"{stray.num_rows:,} moved keys are not where the plan takes them from, for example "
            + "; ".join(
                f"{row['key']!r} on {row['channel']}, planned from {row['from_channel']}"
                for row in stray.slice(0, _EXAMPLES).to_pylist()
            )
            + ". Nothing was moved. Make the plan again."
        )
    return planned


def check_end(planned: pa.Table, after: pa.Table) -> None:
    """Refuse a result in which a moved key lost, gained or changed a row, or is not wholly on its new channel."""
    columns = ["key", "channel", "rows", "checksum"]
    expected = planned.select(["key", "to_channel", "rows", "checksum"]).rename_columns(columns)
    order = [("key", "ascending"), ("channel", "ascending")]
    found = after.select(columns).cast(expected.schema)
    if expected.sort_by(order).equals(found.sort_by(order)):
        return
    wrong = {tuple(row.values()) for row in expected.to_pylist()} ^ {tuple(row.values()) for row in found.to_pylist()}
    keys = sorted({row[0] for row in wrong})
    raise MigrationError(
        f"the state of {len(keys):,} moved keys differs after the move, for example {', '.join(map(repr, keys[:_EXAMPLES]))}. {_ROLLED_BACK}"
    )


def check_counts(spark: SparkSession, root: str, version: int, planned: pa.Table) -> None:
    """Refuse a commit that changed a channel's number of rows by anything but the planned moves, by the log's own counts."""
    expected: Counter[int] = Counter()
    for row in planned.group_by(["from_channel", "to_channel"]).aggregate([("rows", "sum")]).to_pylist():
        expected[row["from_channel"]] -= row["rows_sum"]
        expected[row["to_channel"]] += row["rows_sum"]
    changed = rows_changed(spark, root, version)
    if {c: n for c, n in changed.items() if n} != {c: n for c, n in expected.items() if n}:
        raise MigrationError(
            f"version {version} of the state changed the rows per channel by {changed}, planned was {dict(expected)}. {_ROLLED_BACK}"
        )


def rows_changed(spark: SparkSession, root: str, version: int) -> dict[int, int]:
    """By how many rows a commit changed each channel it touched: records of its files less their deleted rows."""
    path = table_path(root, "state")
    before = pa.RecordBatchReader.from_stream(DeltaTable(path, version=version - 1).get_add_actions()).read_all()
    records = dict(zip(before["path"].to_pylist(), before["num_records"].to_pylist(), strict=True))
    change: Counter[int] = Counter()
    for line in spark.read.text(f"{path}/_delta_log/{version:020d}.json").collect():
        action = json.loads(line["value"])
        if "add" in action:
            added = action["add"]
            rows = json.loads(added["stats"])["numRecords"] - _deleted(added)
            change[int(added["partitionValues"]["channel"])] += rows
        elif "remove" in action:
            # Delta keeps no statistics of removed files in every case; the version before has them.
            removed = action["remove"]
            rows = records[unquote(removed["path"])] - _deleted(removed)
            change[int(removed["partitionValues"]["channel"])] -= rows
    return dict(change)


def _deleted(file: dict[str, Any]) -> int:
    """Rows of a data file that its deletion vector hides."""
    return int((file.get("deletionVector") or {}).get("cardinality", 0))
