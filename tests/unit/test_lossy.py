"""Lossy counting: entry by entry as its rules say, and its guarantees on any stream, cut, merged and sliding."""

from __future__ import annotations

import pickle
from collections import Counter
from functools import reduce
from itertools import chain
from math import ceil, log

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rebalance.errors import RebalanceError
from rebalance.planners.gedik.lossy import LossyCounter, SlidingCounter

EPSILONS = st.sampled_from([1.0, 0.5, 0.3, 0.25, 0.1, 0.07, 0.02])
#: Few keys and many, often one that is everywhere.
STREAMS = st.one_of(
    st.lists(st.integers(0, 3), max_size=120),
    st.lists(st.integers(-50, 50), max_size=120),
    st.lists(st.one_of(st.just(7), st.integers(0, 2**62)), max_size=120),
)


def plain_counts(stream: list[int], epsilon: float) -> dict[int, tuple[int, int]]:
    """Lossy counting as its rules are written: key → (count, error)."""
    width = ceil(1 / epsilon)
    entries: dict[int, tuple[int, int]] = {}
    for index, key in enumerate(stream):
        window = index // width + 1
        count, error = entries.get(key, (0, window - 1))
        entries[key] = count + 1, error
        if (index + 1) % width == 0:
            entries = {k: (c, e) for k, (c, e) in entries.items() if c + e > window}
    return entries


def counted(stream: list[int], epsilon: float, *cuts: int) -> LossyCounter:
    """A counter fed with the stream in pieces."""
    counter = LossyCounter(epsilon)
    for part in np.split(np.array(stream, dtype=np.int64), sorted(cuts)):
        counter.add(part)
    return counter


def entries_of(counter: LossyCounter) -> dict[int, tuple[int, int]]:
    keys, counts, errors = counter.counts()
    return {k: (c, e) for k, c, e in zip(keys.tolist(), counts.tolist(), errors.tolist(), strict=True)}


def check_guarantees(counter: LossyCounter, stream: list[int], epsilon: float) -> None:
    """count ≤ true ≤ count + error, error ≤ ε·n, and no key above ε·n without an entry."""
    true, entries, n = Counter(stream), entries_of(counter), len(stream)
    assert counter.n == n
    for key, (count, error) in entries.items():
        assert count <= true[key] <= count + error
        assert error <= epsilon * n
    assert all(true[key] <= epsilon * n for key in true.keys() - entries.keys())
    for delta in {1.001 * epsilon, 2 * epsilon, 10 * epsilon, max(0.3, 2 * epsilon)}:
        found = set(counter.frequent(delta).keys.tolist())
        assert {key for key in true if true[key] >= delta * n} <= found
        assert all(true[key] >= (delta - epsilon) * n - 1e-9 for key in found)


@given(STREAMS, EPSILONS, st.lists(st.integers(0, 120), max_size=4))
def test_entries_are_those_of_the_rules_however_the_stream_is_cut(
    stream: list[int], epsilon: float, cuts: list[int]
) -> None:
    assert entries_of(counted(stream, epsilon, *cuts)) == plain_counts(stream, epsilon)


@given(STREAMS, EPSILONS)
@example([1] * 30 + [2] * 70, 0.03)
def test_no_frequent_key_is_missed_and_no_count_is_off_by_more_than_the_error(
    stream: list[int], epsilon: float
) -> None:
    check_guarantees(counted(stream, epsilon), stream, epsilon)


@given(st.lists(STREAMS, min_size=1, max_size=5), EPSILONS, STREAMS)
def test_merged_counters_keep_the_guarantees_and_can_go_on_counting(
    streams: list[list[int]], epsilon: float, more: list[int]
) -> None:
    merged = reduce(LossyCounter.merge, [counted(stream, epsilon) for stream in streams])
    stream = list(chain(*streams))
    check_guarantees(merged, stream, epsilon)
    merged.add(np.array(more, dtype=np.int64))
    check_guarantees(merged, stream + more, epsilon)


@given(STREAMS, STREAMS, EPSILONS)
def test_merging_is_the_same_from_either_side_and_leaves_both_as_they_are(
    one: list[int], two: list[int], epsilon: float
) -> None:
    a, b = counted(one, epsilon), counted(two, epsilon)
    assert entries_of(a.merge(b)) == entries_of(b.merge(a))
    assert entries_of(a) == plain_counts(one, epsilon)
    assert len(a.merge(b)) <= len(a) + len(b)


@given(STREAMS, st.sampled_from([0.5, 0.25, 0.1]))
def test_entries_are_few_when_a_window_has_closed(stream: list[int], epsilon: float) -> None:
    """At most (1/ε)·(1/2 + … + 1/(w+1)) after window w, which is below (1/ε)·ln(ε·n) from the third on."""
    width = ceil(1 / epsilon)
    for windows in range(1, len(stream) // width + 1):
        counter = counted(stream[: windows * width], epsilon)
        assert len(counter) <= width * sum(1 / (w + 1) for w in range(1, windows + 1)) + 1e-9
        assert windows < 3 or len(counter) <= log(epsilon * counter.n) / epsilon


def test_the_worst_stream_fills_the_bound() -> None:
    """Window by window from the last: as many keys as can just survive, each with the fewest tuples that let it."""
    width, windows = 60, 4
    fresh = iter(range(10**6))
    stream = [
        key
        for w in range(windows)
        for _ in range(width // (windows - w + 1))
        for key in [next(fresh)] * (windows - w + 1)
    ]
    counter = counted(stream, 1 / width)
    assert counter.n == windows * width
    assert len(counter) == sum(width // (w + 1) for w in range(1, windows + 1))


def test_many_keys_at_once_need_more_room_than_there_was() -> None:
    stream = np.arange(100_000) % 70_000
    counter = counted(stream.tolist(), 1e-6)
    assert entries_of(counter) == {k: (c, 0) for k, c in Counter(stream.tolist()).items()}


def test_epsilon_is_a_tenth_of_the_threshold_by_default() -> None:
    assert LossyCounter.for_threshold(0.02).epsilon == pytest.approx(0.002)


def test_a_counter_travels_between_processes() -> None:
    counter = counted([1, 1, 2, 3, 1, 1], 0.25)
    assert entries_of(pickle.loads(pickle.dumps(counter))) == entries_of(counter)


def test_counters_of_different_precision_are_not_merged() -> None:
    with pytest.raises(RebalanceError, match="same ε"):
        LossyCounter(0.1).merge(LossyCounter(0.2))


@pytest.mark.parametrize("epsilon", [0, -1, 1.5])
def test_an_error_that_is_no_share_is_refused(epsilon: float) -> None:
    with pytest.raises(RebalanceError, match="epsilon is"):
        LossyCounter(epsilon)


def test_keys_too_rare_to_be_remembered_are_not_asked_for() -> None:
    with pytest.raises(RebalanceError, match="an ε below δ"):
        LossyCounter(0.1).frequent(0.1)


# The sliding window


@given(st.lists(st.integers(0, 30), max_size=15), st.integers(1, 5), st.integers(2, 5))
def test_the_oldest_counter_covers_between_one_window_and_a_step_more(
    pieces: list[int], stride: int, counters: int
) -> None:
    window = stride * (counters - 1)
    sliding, passed = SlidingCounter(0.1, window, counters), 0
    for piece in pieces:
        sliding.add(np.arange(passed, passed + piece))
        passed += piece
        if passed >= window:
            assert window <= sliding.answering.n <= window * (1 + 1 / (counters - 1))
        else:
            assert sliding.answering.n == passed


@given(STREAMS, st.lists(st.integers(0, 120), max_size=4))
def test_a_sliding_counter_answers_for_the_last_tuples_however_they_come(stream: list[int], cuts: list[int]) -> None:
    sliding = SlidingCounter(0.1, window=20)
    for part in np.split(np.array(stream, dtype=np.int64), sorted(cuts)):
        sliding.add(part)
    recent = stream[len(stream) - sliding.answering.n :]
    assert entries_of(sliding.answering) == plain_counts(recent, 0.1)
    check_guarantees(sliding.answering, recent, 0.1)


@given(st.lists(STREAMS, max_size=8), st.integers(1, 3))
def test_a_window_of_intervals_covers_whole_intervals_counted_in_parts(intervals: list[list[int]], stride: int) -> None:
    sliding = SlidingCounter(0.1, window=2 * stride, unit="intervals")
    for interval in intervals:
        half = len(interval) // 2
        sliding.add_interval(counted(interval[:half], 0.1).merge(counted(interval[half:], 0.1)))
    covered = len(intervals) % stride + 2 * stride if len(intervals) >= 2 * stride else len(intervals)
    recent = list(chain(*intervals[len(intervals) - covered :]))
    check_guarantees(sliding.answering, recent, 0.1)


def test_a_key_that_is_gone_is_forgotten() -> None:
    sliding = SlidingCounter(0.05, window=100)
    sliding.add(np.full(500, 1))
    sliding.add(np.full(150, 2))
    assert sliding.frequent(0.1).keys.tolist() == [2]


def test_a_tuple_window_takes_no_intervals() -> None:
    with pytest.raises(RebalanceError, match="window of intervals"):
        SlidingCounter(0.1, 10).add_interval(LossyCounter(0.1))


@pytest.mark.parametrize(("window", "counters"), [(5, 3), (10, 1), (0, 3)])
def test_a_window_that_cannot_be_cut_is_refused(window: int, counters: int) -> None:
    with pytest.raises(RebalanceError, match=f"window is {window} and counters {counters}"):
        SlidingCounter(0.1, window, counters)
