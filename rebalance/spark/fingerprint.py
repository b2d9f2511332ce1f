"""What must be the same before and after a move: each moved key's rows, and every other row."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rebalance.errors import MigrationError

_EXAMPLES = 3
ROLLED_BACK = "The old epoch stays active; the next run rolls the table back."


def row_hash(state: DataFrame) -> Column:
    """A hash of a row's whole content but its channel."""
    # By name: a join puts its columns first, and the hash depends on their order.
    return F.xxhash64(*(F.col(column) for column in sorted(state.columns) if column != "channel"))


def halves(hashes: pa.ChunkedArray) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """The upper and the lower half of each hash, as `fingerprint` sums them."""
    return pc.shift_right(hashes, 32), pc.bit_wise_and(hashes, 0xFFFFFFFF)


def fingerprint(row: Column) -> list[Column]:
    """Rows and the sum of their hashes, whose halves are summed apart: whole ones would leave BIGINT.

    A sum does not depend on the order of rows, and unlike xor it sees a row that is there twice.
    """
    return [
        F.count(F.lit(1)).alias("rows"),
        F.sum(F.shiftright(row, 32)).alias("high"),
        F.sum(row.bitwiseAND(F.lit(0xFFFFFFFF))).alias("low"),
    ]


def per_key(parts: pa.Table) -> pa.Table:
    """Rows and checksum of each key on each channel, from the fingerprints of parts of its rows."""
    summed = parts.group_by(["key", "channel"]).aggregate([("rows", "sum"), ("high", "sum"), ("low", "sum")])
    # It wraps around.
    checksum = pc.add(pc.multiply(summed["high_sum"], 1 << 32), summed["low_sum"])
    return pa.table(
        {"key": summed["key"], "channel": summed["channel"], "rows": summed["rows_sum"], "checksum": checksum}
    )


def per_partition(rows: DataFrame) -> pa.Table:
    """The same of all rows by interval and channel, summed by Spark: for rows of keys that do not move."""
    checksum = F.sum(row_hash(rows).cast("decimal(38,0)"))
    return (
        rows.groupBy("interval_id", "channel")
        .agg(F.count(F.lit(1)).alias("rows"), checksum.alias("checksum"))
        .toArrow()
        .sort_by([("interval_id", "ascending"), ("channel", "ascending")])
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
        f"the state of {len(keys):,} moved keys differs after the move, for example {', '.join(map(repr, keys[:_EXAMPLES]))}. {ROLLED_BACK}"
    )


def check_kept(before: pa.Table, after: pa.Table) -> None:
    """Refuse a result in which a row that was only copied was lost, doubled or changed."""
    if not before.equals(after.cast(before.schema)):
        raise MigrationError(
            f"rows of keys that do not move differ after the move: {before.num_rows} parts of the table had "
            f"{pc.sum(before['rows']).as_py() or 0:,} of them, now {after.num_rows} have {pc.sum(after['rows']).as_py() or 0:,}. {ROLLED_BACK}"
        )


def check_commit(actions: list[dict[str, Any]], touched: dict[str, dict[str, Any]]) -> tuple[list[Any], list[Any]]:
    """The log entries of a commit's old files and of its new ones; refuses one that touches other files than those planned.

    `touched` has the log entries the files had before. What the old files hide now is left to the caller to compare.
    """
    foreign = sorted({kind for action in actions for kind in action} - {"add", "remove", "txn", "commitInfo"})
    if foreign:
        raise MigrationError(f"the move's commit also changed the table's {', '.join(foreign)}. {ROLLED_BACK}")
    removed = {action["remove"]["path"]: action["remove"] for action in actions if "remove" in action}
    adds = [action["add"] for action in actions if "add" in action]
    if removed.keys() != touched.keys():
        other = sorted(removed.keys() ^ touched.keys())
        raise MigrationError(
            f"the move's commit replaced {len(removed)} files, planned were {len(touched)}; {other[0]} is one that differs. {ROLLED_BACK}"
        )
    for path, entry in removed.items():
        if _vector(entry) != _vector(touched[path]):
            raise MigrationError(f"{path} hid other rows when it was replaced than when it was read. {ROLLED_BACK}")
    return [add for add in adds if add["path"] in removed], [add for add in adds if add["path"] not in removed]


def _vector(entry: dict[str, Any]) -> tuple[Any, ...]:
    vector = entry.get("deletionVector") or {}
    return tuple(vector.get(name) for name in ("storageType", "pathOrInlineDv", "offset", "cardinality"))
