"""The synthetic workload is the papers': Zipf frequencies that change hands between channels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance.errors import ConfigError
from rebalance.partition import consistent_ring, slots_of
from rebalance.simulate.workload import Workload, zipf

SMALL = Workload(keys=2000, channels=5, seed=3)


def test_the_same_seed_gives_the_same_intervals_and_another_seed_others() -> None:
    one, two = list(SMALL.intervals(4)), list(Workload(keys=2000, channels=5, seed=3).intervals(4))
    assert all(np.array_equal(a.frequency, b.frequency) for a, b in zip(one, two, strict=True))
    other = list(Workload(keys=2000, channels=5, seed=4).intervals(4))
    assert not np.array_equal(one[1].frequency, other[1].frequency)


def test_more_intervals_begin_with_the_same_ones() -> None:
    assert np.array_equal(list(SMALL.intervals(3))[2].frequency, list(SMALL.intervals(6))[2].frequency)


def test_an_interval_only_swaps_frequencies() -> None:
    for interval in SMALL.intervals(4):
        assert np.array_equal(np.sort(interval.frequency)[::-1], zipf(2000, 0.85))


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 99), f=st.sampled_from([0.1, 0.5, 1.0, 2.0]))
def test_some_channel_changes_by_f_mean_loads_under_the_ring(seed: int, f: float) -> None:
    workload = Workload(keys=1000, channels=5, f=f, seed=seed)
    before = None
    for interval in workload.intervals(4):
        load = np.bincount(workload.home, weights=interval.frequency, minlength=5)
        if before is not None:
            assert np.abs(load - before).max() * 5 == pytest.approx(interval.change)
            assert interval.change >= f
        before = load


def test_a_larger_f_swaps_more_keys() -> None:
    def swapped(f: float) -> float:
        first, second = Workload(keys=2000, channels=5, f=f, seed=3).intervals(2)
        return float((first.frequency != second.frequency).mean())

    assert swapped(0.0) == 0.0 < swapped(0.1) < swapped(1.0)


def test_frequencies_that_are_all_alike_cannot_change_and_say_so() -> None:
    assert [interval.change for interval in Workload(keys=500, channels=3, z=0.0).intervals(3)] == [0.0, 0.0, 0.0]


def test_one_channel_has_nobody_to_swap_with() -> None:
    assert [interval.change for interval in Workload(keys=50, channels=1).intervals(2)] == [0.0, 0.0]


def test_the_keys_are_ascending_names_with_the_slots_of_their_hash() -> None:
    assert SMALL.names[[0, 1, -1]].tolist() == ["k0000001", "k0000002", "k0002000"]
    assert (np.sort(SMALL.names) == SMALL.names).all()
    assert np.array_equal(SMALL.slots, slots_of(SMALL.names.tolist(), "string"))
    assert np.array_equal(SMALL.home, consistent_ring(5)[SMALL.slots])


def test_events_are_drawn_by_frequency_and_alike_each_time() -> None:
    interval = list(SMALL.intervals(2))[1]
    events = interval.draw(50_000)
    assert np.array_equal(events, interval.draw(50_000))
    drawn = np.bincount(events, minlength=2000) / 50_000
    heaviest = np.argsort(-interval.frequency)[:10]
    assert drawn[heaviest] == pytest.approx(interval.frequency[heaviest], rel=0.2)


@pytest.mark.parametrize("wrong", [{"keys": 0}, {"channels": 0}, {"z": -1.0}, {"f": -0.5}])
def test_impossible_parameters_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigError):
        Workload(**wrong)  # type: ignore[arg-type]
