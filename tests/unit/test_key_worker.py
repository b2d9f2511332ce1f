"""A function per key, called on sorted batches: how keys are cut out of them, and what is made of what it returns."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance.spark.key_tables import whole_keys
from rebalance.spark.key_worker import COST, RESULT, STATE, KeyWorker, ToldError

RESULTS = pa.schema([("n", pa.int64()), ("sum", pa.float64())])
KEPT = pa.schema([("v", pa.int64())])
OUT = pa.schema(
    [
        ("key", pa.string()),
        ("what", pa.int32()),
        ("r0", pa.int64()),
        ("r1", pa.float64()),
        ("position", pa.int32()),
        ("s0", pa.int64()),
        ("rows", pa.int64()),
        ("seconds", pa.float64()),
    ]
)


def worker(process: Callable[..., Any], *, in_pandas: bool = False) -> KeyWorker:
    return KeyWorker("own.py", process, {}, in_pandas, ("time", "v"), RESULTS, KEPT, OUT)


def batch(rows: list[tuple[str, bool, int | None]]) -> pa.RecordBatch:
    """Rows of (key, is new, value); a row of state has its value in the state's column."""
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array([key for key, _, _ in rows], pa.string()),
            "is_new": pa.array([new for _, new, _ in rows], pa.bool_()),
            "r0": pa.array(range(len(rows)), pa.int64()),
            "r1": pa.array([v if new else None for _, new, v in rows], pa.int64()),
            "s0": pa.array([None if new else v for _, new, v in rows], pa.int64()),
        }
    )


def run(process: Callable[..., Any], batches: list[pa.RecordBatch], **how: Any) -> list[dict[str, Any]]:
    found = [row for out in worker(process, **how).run(iter(batches)) for row in out.to_pylist()]
    assert all(out.schema == OUT for out in worker(process, **how).run(iter(batches)))
    return found


def append(key: str, rows: Any, state: Any) -> tuple[Any, Any]:
    values = [*state["v"].to_pylist(), *rows["v"].to_pylist()]
    return pa.table({"n": [len(values)], "sum": [float(sum(values))]}), pa.table({"v": values})


@given(st.data())
def test_every_key_is_seen_once_and_whole_wherever_batches_are_cut(data: st.DataObject) -> None:
    keys = data.draw(st.lists(st.tuples(st.sampled_from("abcdefg"), st.booleans(), st.integers(0, 99)), max_size=40))
    rows = sorted(keys, key=lambda row: (row[0], row[1]))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=8)))
    batches = [batch(rows[begin:end]) for begin, end in pairwise([0, *cuts, len(rows)])]
    tables = list(whole_keys(iter(batches)))
    assert [key for table in tables for key in table["key"].to_pylist()] == [key for key, _, _ in rows]
    per_table = [set(table["key"].to_pylist()) for table in tables]
    assert sum(map(len, per_table)) == len({key for key, _, _ in rows})
    found = run(append, batches) if rows else []
    expected = {key: [v for other, _, v in rows if other == key] for key, _, _ in rows}
    assert {row["key"]: (row["r0"], row["r1"]) for row in found if row["what"] == RESULT} == {
        key: (len(values), float(sum(values))) for key, values in expected.items()
    }
    kept: dict[str, list[int]] = {}
    for row in sorted((row for row in found if row["what"] == STATE), key=lambda row: (row["key"], row["position"])):
        kept.setdefault(row["key"], []).append(row["s0"])
    assert kept == expected
    new = {key: sum(new for other, new, _ in rows if other == key) for key in expected}
    assert {row["key"]: row["rows"] for row in found if row["what"] == COST} == new


def test_a_state_that_is_gone_leaves_a_mark_and_one_that_never_was_leaves_none() -> None:
    nothing = RESULTS.empty_table(), KEPT.empty_table()
    found = run(lambda key, rows, state: nothing, [batch([("a", False, 1), ("a", True, 2), ("b", True, 3)])])
    assert [(row["key"], row["what"], row["position"]) for row in found] == [
        ("a", STATE, -1),
        ("a", COST, None),
        ("b", COST, None),
    ]


def test_the_first_call_in_a_process_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys._rebalance_warm", set(), raising=False)
    rows = [batch([("a", True, 1), ("b", True, 2)]), batch([("c", True, 3)])]
    seconds = [
        row["seconds"] for out in worker(append).run(iter(rows)) for row in out.to_pylist() if row["what"] == COST
    ]
    assert seconds[0] is None
    assert all(value >= 0 for value in seconds[1:])
    again = [row["seconds"] for out in worker(append).run(iter(rows)) for row in out.to_pylist() if row["what"] == COST]
    assert None not in again


def test_frames_are_given_and_taken_with_nulls_and_large_numbers_exact() -> None:
    large = 2**60 + 1
    seen: list[Any] = []

    def process(key: str, rows: Any, state: Any) -> tuple[Any, Any]:
        seen.append((list(rows.index), list(state.index)))
        kept = pd.concat([state["v"], rows["v"]], ignore_index=True)
        return pd.DataFrame({"sum": [0.5], "n": [len(rows)]}), pd.DataFrame({"v": kept})

    rows = batch([("a", False, large), ("a", True, None), ("a", True, large), ("b", True, 7)])
    found = run(process, [rows], in_pandas=True)
    assert seen[:2] == [([0, 1], [0]), ([0], [])]
    assert [row["s0"] for row in found if row["what"] == STATE] == [large, None, large, 7]
    assert [(row["r0"], row["r1"]) for row in found if row["what"] == RESULT] == [(2, 0.5), (1, 0.5)]


@pytest.mark.parametrize(
    ("results", "message"),
    [
        (pa.table({"n": [1.5], "sum": [1.0]}), "key 'b' column 'n' as double, but RESULTS declares it as int64"),
        (pd.DataFrame({"n": ["one"], "sum": [1.0]}), "key 'b' column 'n' as object, but RESULTS declares it as int64"),
        (pd.DataFrame({"n": [1.5], "sum": [1.0]}), "key 'b' column 'n' as float64, but RESULTS declares it as int64"),
        (pa.table({"n": [1]}), "key 'b' the columns n, but RESULTS declares n, sum"),
        (None, "returned NoneType for key 'b' where RESULTS belongs"),
    ],
)
def test_what_was_not_declared_is_refused_with_the_key_it_was_returned_for(results: Any, message: str) -> None:
    fine: Any = pd.DataFrame({"n": [1], "sum": [1.0]}) if isinstance(results, pd.DataFrame) else RESULTS.empty_table()

    def process(key: str, rows: Any, state: Any) -> tuple[Any, Any]:
        return results if key == "b" else fine, KEPT.empty_table()

    with pytest.raises(ToldError, match=message):
        run(process, [batch([("a", True, 1), ("b", True, 2), ("c", True, 3)])])


def test_narrower_types_are_widened_if_nothing_is_lost() -> None:
    def process(key: str, rows: Any, state: Any) -> tuple[Any, Any]:
        return pa.table({"sum": pa.array([3], pa.int32()), "n": pa.array([4], pa.int8())}), pa.table({"v": pa.nulls(2)})

    found = run(process, [batch([("a", True, 1)])])
    assert [(row["r0"], row["r1"]) for row in found if row["what"] == RESULT] == [(4, 3.0)]
    assert [row["s0"] for row in found if row["what"] == STATE] == [None, None]
