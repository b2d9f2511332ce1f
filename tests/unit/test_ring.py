"""The laws of the consistent hash, which cutting it into slots keeps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance.errors import ConfigError
from rebalance.partition import REPLICAS, SLOT_SHIFT, SLOTS, channels_at, consistent_ring
from rebalance.partition.hashing import hash_longs


def clockwise_successor(point: int, points: dict[int, int]) -> int:
    """The owner of the first point at or after this one, around the circle: the definition."""
    after = [p for p in points if p >= point]
    return points[min(after)] if after else points[min(points)]


@pytest.mark.parametrize(("channels", "replicas"), [(1, 1), (2, 1), (3, 5), (5, 20)])
def test_a_slot_belongs_to_the_clockwise_successor_of_its_first_point(channels: int, replicas: int) -> None:
    from rebalance.partition.hashing import ring_points

    points: dict[int, int] = {}
    for channel in reversed(range(channels)):  # so that the smaller channel has the last word on equal points
        for point in ring_points(f"channel-{channel}-replica-{j}" for j in range(replicas)).tolist():
            points[point] = channel
    ring = consistent_ring(channels, replicas=replicas)
    for slot in [*range(0, SLOTS, 997), SLOTS - 1]:
        assert ring[slot] == clockwise_successor(slot << SLOT_SHIFT, points)


@pytest.mark.parametrize("channels", [1, 2, 5, 20, 63])
def test_adding_a_channel_moves_keys_only_to_it(channels: int) -> None:
    before, after = consistent_ring(channels), consistent_ring(channels + 1)
    assert set(after[before != after].tolist()) == {channels}


@pytest.mark.parametrize("channels", [2, 5, 20, 63])
def test_removing_a_channel_moves_only_its_own_keys(channels: int) -> None:
    before = consistent_ring(channels)
    for gone in {0, channels // 2, channels - 1}:
        after = consistent_ring(channels, excluded={gone})
        assert not (after == gone).any()
        assert set(before[before != after].tolist()) == {gone}


@given(st.integers(2, 8), st.sets(st.integers(0, 7)), st.integers(0, 7), st.integers(1, 50))
def test_excluding_one_more_channel_moves_only_its_own_keys(
    channels: int, excluded: set[int], gone: int, replicas: int
) -> None:
    excluded &= set(range(channels))
    if len(excluded | {gone}) >= channels or gone >= channels or gone in excluded:
        return
    before = consistent_ring(channels, replicas=replicas, excluded=excluded)
    after = consistent_ring(channels, replicas=replicas, excluded=excluded | {gone})
    moved = before != after
    assert (before[moved] == gone).all()
    assert not (after == gone).any()


@pytest.mark.parametrize(("channels", "off"), [(2, 0.05), (10, 0.05), (32, 0.10), (100, 0.15)])
def test_each_channel_gets_its_share_of_a_uniform_key_set_within_a_few_percent(channels: int, off: float) -> None:
    """With 1,000 replicas a share varies by 1/√1000, 3 %, so the worst of 100 channels is some 12 % off."""
    keys = hash_longs(np.arange(200_000)) >> SLOT_SHIFT
    share = np.bincount(consistent_ring(channels)[keys], minlength=channels) / len(keys) * channels
    assert np.abs(share - 1).max() < off
    assert share.std() < 0.05


def test_more_replicas_make_the_shares_more_even() -> None:
    spread = [np.bincount(consistent_ring(10, replicas=r), minlength=10).std() for r in (10, 100, REPLICAS)]
    assert spread[0] > spread[1] > spread[2]


def test_a_ring_without_channels_is_refused_with_what_to_change() -> None:
    with pytest.raises(ConfigError, match="Exclude fewer channels"):
        consistent_ring(2, excluded={0, 1})


@pytest.mark.parametrize("channels", [3, 300], ids=["a byte holds a channel", "a byte does not"])
def test_many_slots_are_looked_up_as_few_are(channels: int) -> None:
    ring = np.random.default_rng(0).integers(0, channels, SLOTS).astype(np.int32)
    slots = np.random.default_rng(1).integers(0, SLOTS, (1 << 20) + 1).astype(np.int32)
    assert np.array_equal(channels_at(ring, slots), ring[slots])
