"""The checks around a migration, on hand-made fingerprints."""

from __future__ import annotations

import pyarrow as pa
import pytest

from rebalance.errors import MigrationError
from rebalance.spark.fingerprint import check_end, check_start

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
