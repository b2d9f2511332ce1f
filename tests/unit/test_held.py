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
from rebalance.storage.epochs import all_epochs, current_epoch, publish
from rebalance.storage.held import added_as_counted, counted_part, rolled, summed
from rebalance.storage.schemas import schema_of
from tests.support.budget import cases

START = datetime(2026, 1, 1, tzinfo=UTC)
FIRST = Interval(START, START + timedelta(hours=1))
Rows = dict[str, int]


def counts_of(rows: Rows) -> pa.Table:
    keys = sorted(rows)
    columns = {"rows": [rows[key] for key in keys], "bytes": [10 * rows[key] for key in keys]}
    types = {"key": pa.string(), "slot": pa.int32(), "rows": pa.int64(), "bytes": pa.int64()}
    return pa.table({"key": keys, "slot": slots_of(keys, "string"), **columns}, schema=pa.schema(types))


def put_statistics(root: str, number: int, *, state_newest: int, held: int, added: int, window: int) -> None:
    """Leave what counting an interval would leave, of the one key a."""
    interval_id = FIRST.shifted(number).id
    row = {"interval_id": interval_id, "rows": 1, "window": window, "statistics": "exact"}
    row["state_newest"] = FIRST.shifted(state_newest).id
    numbers = {"held_rows": held, "held_bytes": held, "added_rows": added, "added_bytes": added}
    key = {"interval_id": interval_id, "key": "a", "slot": int(slots_of(["a"], "string")[0]), **numbers}
    control.replace(root, "interval_stats", [row], interval_id=interval_id)
    stats = pa.Table.from_pylist([key], schema=schema_of("key_stats", "string"))
    control.replace(root, "key_stats", stats, interval_id=interval_id)


def process(root: str, number: int) -> None:
    """Publish an interval as process_batch does."""
    interval_id, base = FIRST.shifted(number).id, current_epoch(root)
    publish(root, base, kind="process", interval_id=interval_id, function_version=0, state_version=-1)


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
    row = {"interval_id": interval_id, "rows": total, "window": window, "statistics": "exact"}
    row["state_newest"] = FIRST.shifted(number - 1).id if number else ""
    control.replace(root, "interval_stats", [row], interval_id=interval_id)
    control.replace(root, "batches", [{"interval_id": interval_id, "rows": total}], interval_id=interval_id)
    process(root, number)
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


def test_where_intervals_were_left_out_there_is_no_answer_and_for_the_next_one_there_is_again(tmp_path: Path) -> None:
    root, added = str(tmp_path), counts_of({"a": 1})
    for number in range(3):
        count(root, number, {"a": 1}, 3)
    process(root, 4)
    assert rolled(root, FIRST.shifted(4), 3, added) is None, "two intervals have left the window at once"
    put_statistics(root, 5, state_newest=4, held=7, added=1, window=3)
    process(root, 5)
    found = rolled(root, FIRST.shifted(5), 3, added)
    assert found is not None
    assert summed(found)["held_rows"].to_pylist() == [7 + 1], "interval 3 leaves, which was never there"


def test_what_was_counted_for_an_undone_interval_is_not_relied_on(tmp_path: Path) -> None:
    """Interval 2 was undone and put right, and 3, which had run on the wrong one, was left out."""
    root, window, added = str(tmp_path), 4, counts_of({"a": 1})
    for number in range(4):
        count(root, number, {"a": 9}, window)
    target, base = all_epochs(root)[1], current_epoch(root)
    versions = {"function_version": 0, "state_version": -1}
    publish(root, base, kind="rewind", interval_id=target.interval_id, rewound_to=target.epoch, **versions)
    for number in (2, 4, 5):
        process(root, number)
    put_statistics(root, 4, state_newest=2, held=10, added=2, window=window)
    put_statistics(root, 5, state_newest=4, held=20, added=1, window=window)
    found = rolled(root, FIRST.shifted(5), window, added)
    assert found is not None
    assert summed(found)["held_rows"].to_pylist() == [20 + 1 - 2], "interval 2 leaves with the rows it has now"
    control.delete(root, "interval_stats", interval_id=FIRST.shifted(4).id)
    assert rolled(root, FIRST.shifted(5), window, added) is None, "only the undone interval 3 has counted interval 2"
