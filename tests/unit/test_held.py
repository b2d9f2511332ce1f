"""What the state holds of each key, rolled on from earlier counts: the same as counting it anew, whatever the window."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance.partition import slots_of
from rebalance.pipeline.intervals import Interval
from rebalance.storage import control
from rebalance.storage.held import added_as_counted, counted_part, rolled, summed
from tests.support.budget import cases

START = datetime(2026, 1, 1, tzinfo=UTC)
FIRST = Interval(START, START + timedelta(hours=1))
Rows = dict[str, int]


def counts_of(rows: Rows) -> pa.Table:
    keys = sorted(rows)
    columns = {"rows": [rows[key] for key in keys], "bytes": [10 * rows[key] for key in keys]}
    types = {"key": pa.string(), "slot": pa.int32(), "rows": pa.int64(), "bytes": pa.int64()}
    return pa.table({"key": keys, "slot": slots_of(keys, "string"), **columns}, schema=pa.schema(types))


def count(root: str, number: int, rows: Rows, window: int) -> dict[str, tuple[int, int]]:
    """Count an interval as collect_stats does, with all intervals before it processed; returns what each key holds."""
    parts = [counted_part(counts_of(rows))]
    if number and window > 1:
        newest = FIRST.shifted(number - 1)
        added = added_as_counted(root, newest)
        assert added is not None
        held = rolled(root, newest, window, added)
        assert held is not None
        parts += held
    stats = summed(parts)
    zeros, interval_id = pa.repeat(0, stats.num_rows), FIRST.shifted(number).id
    columns = {
        "interval_id": pa.repeat(interval_id, stats.num_rows),
        "channel": zeros,
        "hash_channel": zeros,
        "cost": zeros,
        "rate": zeros,
    }
    table = pa.table({**columns, **{name: stats[name] for name in stats.column_names}})
    control.replace(
        root, "key_stats", table.select(control.read(root, "key_stats").column_names), interval_id=interval_id
    )
    total = sum(rows.values())
    row = {"interval_id": interval_id, "rows": total, "window": window}
    row["state_newest"] = FIRST.shifted(number - 1).id if number else ""
    control.replace(root, "interval_stats", [row], interval_id=interval_id)
    control.replace(root, "batches", [{"interval_id": interval_id, "rows": total}], interval_id=interval_id)
    return {
        row["key"]: (row["held_rows"], row["held_bytes"])
        for row in stats.to_pylist()
        if row["held_rows"] or row["held_bytes"]
    }


@settings(max_examples=cases(12, long=100))
@given(
    intervals=st.lists(st.dictionaries(st.sampled_from("abcd"), st.integers(1, 5)), min_size=1, max_size=7),
    window=st.integers(1, 4),
)
def test_what_is_held_is_the_sum_of_the_window_s_intervals(
    tmp_path_factory: pytest.TempPathFactory, intervals: list[Rows], window: int
) -> None:
    root = str(tmp_path_factory.mktemp("held"))
    for number, rows in enumerate(intervals):
        expected: Counter[str] = Counter()
        for earlier in intervals[max(0, number - window + 1) : number]:
            expected.update(earlier)
        found = count(root, number, rows, window)
        assert found == {key: (n, 10 * n) for key, n in expected.items()}


def test_an_interval_that_was_processed_otherwise_than_counted_is_not_relied_on(tmp_path: Path) -> None:
    root = str(tmp_path)
    count(root, 0, {"a": 2}, 2)
    assert added_as_counted(root, FIRST) is not None
    control.replace(root, "batches", [{"interval_id": FIRST.id, "rows": 3}], interval_id=FIRST.id)
    assert added_as_counted(root, FIRST) is None, "an event came between counting and processing"
    assert added_as_counted(root, FIRST.shifted(1)) is None, "it was not counted"


def test_a_gap_in_the_counts_or_another_window_has_no_answer(tmp_path: Path) -> None:
    root = str(tmp_path)
    for number in range(3):
        count(root, number, {"a": 1}, 3)
    newest, added = FIRST.shifted(2), counts_of({"a": 1})
    assert rolled(root, newest, 3, added) is not None
    assert rolled(root, newest, 2, added) is None, "what was held then was held under another window"
    control.delete(root, "interval_stats", interval_id=newest.id)
    assert rolled(root, newest, 3, added) is None, "nobody knows what was held before"
