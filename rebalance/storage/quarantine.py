"""Rows that could not be used and were put aside: how many, of which intervals, and why."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from deltalake import QueryBuilder

from rebalance.storage import control


def quarantined(root: str, intervals: Sequence[str]) -> dict[str, dict[str, int]]:
    """For each of the intervals that has any: the number of its rows in quarantine by reason."""
    if not intervals or not control.exists(root, "quarantine"):
        return {}
    table = control.open_table(root, "quarantine")
    query = (
        f"SELECT interval_id, reason, count(*) AS n FROM t WHERE interval_id IN ({control.literals(intervals)}) "
        "GROUP BY interval_id, reason ORDER BY interval_id, reason"
    )
    found = pa.RecordBatchReader.from_stream(QueryBuilder().register("t", table).execute(query)).read_all()
    counts: dict[str, dict[str, int]] = {}
    for row in found.to_pylist():
        counts.setdefault(row["interval_id"], {})[row["reason"]] = row["n"]
    return counts


def in_words(reasons: dict[str, int]) -> str:
    """How many rows for each reason.

    >>> in_words({"malformed": 1200, "null key": 1})
    '1,201 rows in quarantine (1,200 malformed, 1 null key)'
    """
    total = sum(reasons.values())
    each = ", ".join(f"{count:,} {reason}" for reason, count in reasons.items())
    return f"{total:,} row{'s' * (total != 1)} in quarantine ({each})"
