"""The checks around a migration, on hand-made fingerprints."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from rebalance.errors import MigrationError
from rebalance.spark.fingerprint import check_commit, check_end, check_kept, check_start, per_key

MOVES = pa.table(
    {"key": ["a", "b"], "from_channel": pa.array([0, 1], pa.int32()), "to_channel": pa.array([2, 2], pa.int32())}
)


def prints(*rows: tuple[str, int, int, int]) -> pa.Table:
    keys, channels, counts, sums = zip(*rows, strict=True)
    return pa.table(
        {
            "key": keys,
            "channel": pa.array(channels, pa.int32()),
            "rows": pa.array(counts, pa.int64()),
            "checksum": pa.array(sums, pa.int64()),
        }
    )


BEFORE = prints(("a", 0, 3, 111), ("b", 1, 1, 222))


def test_rows_that_arrive_unchanged_pass() -> None:
    check_end(check_start(BEFORE, MOVES), prints(("b", 2, 1, 222), ("a", 2, 3, 111)))


def test_a_key_that_is_not_where_the_plan_takes_it_from_stops_the_move() -> None:
    with pytest.raises(MigrationError, match=r"'b' on 3, planned from 1.*Nothing was moved"):
        check_start(prints(("a", 0, 3, 111), ("b", 3, 1, 222)), MOVES)


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(prints(("a", 2, 3, 111)), id="a key was lost"),
        pytest.param(prints(("a", 2, 2, 111), ("b", 2, 1, 222)), id="a row was lost"),
        pytest.param(prints(("a", 2, 3, 110), ("b", 2, 1, 222)), id="a value changed"),
        pytest.param(prints(("a", 2, 3, 111), ("b", 2, 1, 222), ("a", 0, 3, 111)), id="the old rows are still there"),
        pytest.param(prints(("a", 1, 3, 111), ("b", 2, 1, 222)), id="a key went to another channel"),
    ],
)
def test_any_difference_after_the_move_is_an_error(after: pa.Table) -> None:
    with pytest.raises(MigrationError, match="old epoch stays active"):
        check_end(check_start(BEFORE, MOVES), after)


def test_parts_of_a_keys_rows_sum_up_to_its_fingerprint_in_any_order_also_beyond_64_bits() -> None:
    parts = pa.table(
        {
            "key": ["a", "b", "a"],
            "channel": pa.array([0, 0, 0], pa.int32()),
            "rows": [1, 5, 2],
            "high": [2**31 - 1, 7, 2**31],
            "low": [2**32 - 1, 7, 1],
        }
    )
    once, again = (per_key(parts.take(order)).sort_by("key") for order in ([0, 1, 2], [2, 0, 1]))
    assert once.equals(again)
    assert once["rows"].to_pylist() == [3, 5]
    assert once["checksum"].to_pylist() == [0, 7 * 2**32 + 7]
    for other in ([0, 1], [1, 2], [0, 1, 1], [0, 1, 2, 2]):
        assert not per_key(parts.take(other)).sort_by("key").equals(once)


KEPT = pa.table({"interval_id": ["i", "i"], "channel": [0, 1], "rows": [3, 1], "checksum": [5, 6]})


def test_copied_rows_must_be_the_same_in_every_part_of_the_table() -> None:
    check_kept(KEPT, KEPT)
    for other in (KEPT.slice(1), KEPT.set_column(3, "checksum", [[6, 5]]), KEPT.set_column(2, "rows", [[2, 2]])):
        with pytest.raises(MigrationError, match="do not move differ"):
            check_kept(KEPT, other)


VECTOR = {"storageType": "u", "pathOrInlineDv": "x", "offset": 1, "cardinality": 2}
TOUCHED = {"a": {"path": "a"}, "b": {"path": "b", "deletionVector": VECTOR}}
HIDDEN = {"storageType": "u", "pathOrInlineDv": "y", "offset": 1, "cardinality": 3}
COMMIT: list[dict[str, Any]] = [
    {"commitInfo": {}},
    {"txn": {}},
    {"remove": {"path": "a"}},
    {"add": {"path": "a", "deletionVector": HIDDEN}},
    {"remove": {"path": "b", "deletionVector": VECTOR}},
    {"add": {"path": "new"}},
]


def test_a_commit_that_replaces_the_planned_files_is_taken_apart_into_old_files_and_new_ones() -> None:
    old, new = check_commit(COMMIT, TOUCHED)
    assert ([add["path"] for add in old], [add["path"] for add in new]) == (["a"], ["new"])


@pytest.mark.parametrize(
    ("actions", "match"),
    [
        pytest.param(
            [*COMMIT, {"metaData": {}}], "changed the table's metaData", id="the table's schema changed as well"
        ),
        pytest.param(
            [*COMMIT, {"remove": {"path": "c"}}], "replaced 3 files, planned were 2; c", id="another file went"
        ),
        pytest.param(COMMIT[:4], "replaced 1 files, planned were 2; b", id="a file with moved rows stayed"),
        pytest.param(
            [*COMMIT[:4], {"remove": {"path": "b", "deletionVector": HIDDEN}}],
            "b hid other rows when",
            id="the file had changed since it was read",
        ),
    ],
)
def test_a_commit_that_touches_other_files_than_planned_is_an_error(actions: list[dict[str, Any]], match: str) -> None:
    with pytest.raises(MigrationError, match=match):
        check_commit(actions, TOUCHED)
