"""Counts of frequent keys, one built on the other: sums stay exact, large keys stay named, and the bounds on all others hold."""

from __future__ import annotations

import tempfile
from collections import Counter
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance.partition import slots_of
from rebalance.pipeline.intervals import Interval
from rebalance.storage import control
from rebalance.storage.epochs import current_epoch, publish
from rebalance.storage.held import NUMBERS, summed
from rebalance.storage.held_frequent import (
    InState,
    added_as_named,
    are_large,
    rolled_keys,
    rolled_state,
    share_of,
    unnamed_bounds,
)
from rebalance.storage.held_slots import by_slot, counted_by_slot, without_named
from rebalance.storage.schemas import schema_of
from tests.support.budget import cases

START = datetime(2026, 1, 1, tzinfo=UTC)
FIRST = Interval(START, START + timedelta(hours=1))
Rows = dict[str, int]
#: Some keys with many rows now and then, others with few; and a share that is another one each time.
INTERVALS = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 40), max_size=8),
        st.sampled_from([0.02, 0.1, 0.1, 0.3]),
        st.sampled_from(["frequent", "frequent", "frequent", "exact"]),
    ),
    min_size=2,
    max_size=7,
)


def truth(passed: list[Rows], number: int, window: int) -> pa.Table:
    """All keys of an interval with what they have in it and hold, from all rows."""
    held: Counter[str] = Counter()
    for rows in passed[max(0, number + 1 - window) : number]:
        held.update(rows)
    added = passed[number - 1] if number and window > 1 else {}
    now = passed[number]
    keys = sorted({*now, *held})
    columns = {
        "tuples": [now.get(key, 0) for key in keys],
        "state_bytes": [10 * now.get(key, 0) for key in keys],
        "held_rows": [held[key] for key in keys],
        "held_bytes": [10 * held[key] for key in keys],
        "added_rows": [added.get(key, 0) for key in keys],
        "added_bytes": [10 * added.get(key, 0) for key in keys],
    }
    types = {"key": pa.string(), "slot": pa.int32(), **dict.fromkeys(NUMBERS, pa.int64())}
    return pa.table({"key": keys, "slot": slots_of(keys, "string"), **columns}, schema=pa.schema(types))


def count(root: str, number: int, whole: pa.Table, window: int, error: float, way: str) -> tuple[pa.Table, pa.Table]:
    """Count an interval as collect_stats does, of an operator that keeps its rows; returns its named keys and the rest."""
    totals = by_slot(whole, NUMBERS)
    now = whole.select(["key", "tuples"])
    seen = now.filter(pc.greater_equal(now["tuples"], share_of(error, int(totals["tuples"].sum()))))["key"].to_pylist()
    state = state_of(root, number, whole, window, error)
    # What rolls on is what is held in truth.
    for name, sums in state.sums.items():
        assert np.array_equal(sums, totals[name]), name
    candidates = pa.array(sorted({*seen, *state.keys}), pa.string())
    told = rolled_keys(root, candidates, state)
    if told is not None:
        known = summed([told]) if told.num_rows else told
        for row in known.to_pylist():
            (true,) = whole.filter(pc.equal(whole["key"], row["key"])).to_pylist()
            for name in ("held_rows", "held_bytes", "added_rows", "added_bytes"):
                assert row[name] == true[name], (row["key"], name)
    keys = whole.filter(pc.is_in(whole["key"], value_set=candidates))
    if way == "exact":
        named, rest, bounds = whole, without_named(totals, whole, 0), {}
    else:
        named = keys.filter(pa.array(are_large(keys, {n: int(s.sum()) for n, s in totals.items()}, error)))
        rest = without_named(totals, named, whole.num_rows)
        bounds = unnamed_bounds(named, rest, state, error)
        left = whole.filter(pc.invert(pc.is_in(whole["key"], value_set=named["key"].combine_chunks())))
        for name, column in (("tuples", "tuples"), ("held_rows", "held"), ("added_rows", "added")):
            assert (pc.max(left[name]).as_py() or 0) <= bounds[f"unnamed_{column}"], name
    keep(
        root, number, named, rest, {"statistics": way, "window": window, "rows": int(totals["tuples"].sum()), **bounds}
    )
    return named, rest


def state_of(root: str, number: int, whole: pa.Table, window: int, error: float) -> InState:
    """From earlier counts; or where they do not say it, all keys with the share, as a look at the state finds them."""
    if not number or window == 1:
        return InState()
    newest = FIRST.shifted(number - 1)
    added = added_as_named(root, newest) or looked_at(whole, ("added_rows", "added_bytes"), error)
    rolled = rolled_state(root, newest, window, added)
    if rolled is not None:
        return rolled
    held = looked_at(whole, ("held_rows", "held_bytes"), error)
    return InState({**held.sums, **added.sums}, added.keys | held.keys, held.added, added.added)


def looked_at(whole: pa.Table, names: tuple[str, str], error: float) -> InState:
    least = share_of(error, pc.sum(whole[names[0]]).as_py() or 0)
    keys = whole.filter(pc.greater_equal(whole[names[0]], least))["key"].to_pylist()
    return InState(by_slot(whole, names), frozenset(keys), added=least - 1)


def keep(root: str, number: int, named: pa.Table, rest: pa.Table, row: dict[str, object]) -> None:
    """Store the count, and publish the interval as processed."""
    interval_id = FIRST.shifted(number).id
    for table, found in (("key_stats", named), ("slot_stats", rest)):
        schema = schema_of(table, "string")
        zeros = pa.repeat(0, found.num_rows)
        columns = {name: found[name] if name in found.column_names else zeros for name in schema.names}
        columns["interval_id"] = pa.repeat(interval_id, found.num_rows)
        control.replace(root, table, pa.table(columns), interval_id=interval_id)
    newest = FIRST.shifted(number - 1).id if number else ""
    control.replace(
        root, "interval_stats", [{"interval_id": interval_id, "state_newest": newest, **row}], interval_id=interval_id
    )
    control.replace(root, "batches", [{"interval_id": interval_id, "rows": row["rows"]}], interval_id=interval_id)
    base = current_epoch(root)
    publish(root, base, kind="process", interval_id=interval_id, function_version=0, state_version=-1)


@settings(max_examples=cases(12, long=200), deadline=None)
@given(INTERVALS, st.integers(1, 5))
def test_sums_are_exact_and_bounds_hold_in_any_window_whatever_the_share_and_the_way_of_counting_before(
    intervals: list[tuple[Rows, float, str]], window: int
) -> None:
    passed = [rows for rows, _, _ in intervals]
    with tempfile.TemporaryDirectory() as root:
        for number, (_, error, way) in enumerate(intervals):
            count(root, number, truth(passed, number, window), window, error, way)
            if way == "frequent":
                sums = counted_by_slot(root, FIRST.shifted(number).id, NUMBERS)
                assert all(np.array_equal(sums[n], by_slot(truth(passed, number, window), NUMBERS)[n]) for n in NUMBERS)


@settings(max_examples=cases(12, long=200), deadline=None)
@given(INTERVALS, st.integers(2, 5), st.sampled_from([0.05, 0.2]))
def test_where_the_share_stays_the_same_every_key_with_it_is_named_and_no_bound_is_above_it(
    intervals: list[tuple[Rows, float, str]], window: int, error: float
) -> None:
    passed = [rows for rows, _, _ in intervals]
    with tempfile.TemporaryDirectory() as root:
        for number in range(len(passed)):
            whole = truth(passed, number, window)
            named, _ = count(root, number, whole, window, error, "frequent")
            totals = {name: pc.sum(whole[name]).as_py() or 0 for name in NUMBERS}
            large = whole.filter(pa.array(are_large(whole, totals, error)))
            assert named["key"].to_pylist() == large["key"].to_pylist()
            (row,) = control.rows(root, "interval_stats", interval_id=FIRST.shifted(number).id)
            for name, column in (("tuples", "tuples"), ("held_rows", "held"), ("added_rows", "added")):
                assert row[f"unnamed_{column}"] < share_of(error, totals[name])


def test_what_has_no_name_is_spread_over_its_slots_evenly() -> None:
    whole = truth([dict.fromkeys("abcdefgh", 3)], 0, 2)
    named = whole.slice(0, 2)
    rest = without_named(by_slot(whole, NUMBERS), named, 8)
    assert pc.sum(rest["keys"]).as_py() == 6
    assert pc.sum(rest["tuples"]).as_py() == 18
    # Of too low an estimate, every slot that has rows has one key at least.
    assert set(without_named(by_slot(whole, NUMBERS), named, 0)["keys"].to_pylist()) == {1}
