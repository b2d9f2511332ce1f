"""The one function type: splits, then routes, then ring."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance.errors import RebalanceError
from rebalance.partition import PartitionFunction, Share, consistent_ring, slots_of

RING = consistent_ring(4)
keys_of_text = st.lists(st.text(max_size=8), unique=True, max_size=20)


def function(**parts: object) -> PartitionFunction:
    return PartitionFunction(version=3, channels=4, slots=RING, **parts)  # type: ignore[arg-type]


@given(keys_of_text)
def test_without_routes_every_key_goes_where_its_slot_belongs(keys: list[str]) -> None:
    assert function().channel_of(keys).tolist() == RING[slots_of(keys, "string")].tolist()


@given(keys_of_text, st.integers(0, 3))
def test_a_route_wins_over_the_ring(keys: list[str], channel: int) -> None:
    routed = function(routes=dict.fromkeys(keys[:3], channel))
    assert routed.channel_of(keys)[:3].tolist() == [channel] * len(keys[:3])
    assert routed.channel_of(keys)[3:].tolist() == routed.hash_channel_of(keys)[3:].tolist()


@given(keys_of_text)
def test_a_stored_function_assigns_as_before(keys: list[str]) -> None:
    split = {key: (Share(1, 0.25), Share(2, 0.75)) for key in keys[:2]}
    before = function(routes=dict.fromkeys(keys[2:5], 3), splits=split)
    after = PartitionFunction.from_record(before.to_record())
    assert after.channel_of(keys).tolist() == before.channel_of(keys).tolist()
    assert (after.version, after.digest(), dict(after.splits)) == (before.version, before.digest(), split)


def test_integer_keys_stay_integers_in_storage() -> None:
    stored = PartitionFunction.from_record(function(key_type="long", routes={-7: 2, 12: 0}).to_record())
    assert dict(stored.routes) == {-7: 2, 12: 0}
    assert stored.channel_of([-7, 12]).tolist() == [2, 0]


def test_the_digest_tells_what_a_function_does_and_not_its_version() -> None:
    assert function().digest() == function().with_version(9).digest()
    assert function().digest() != function(routes={"a": (int(function().channel_of(["a"])[0]) + 1) % 4}).digest()


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        pytest.param({"routes": {"a": 4}}, "0..3", id="a route to a channel that is not there"),
        pytest.param({"splits": {"a": (Share(-1, 1.0),)}}, "0..3", id="a split over a channel that is not there"),
        pytest.param(
            {"routes": {"a": 1}, "splits": {"a": (Share(1, 1.0),)}},
            "both routed and split",
            id="a key both routed and split",
        ),
    ],
)
def test_a_function_that_cannot_be_is_refused(parts: dict[str, object], message: str) -> None:
    with pytest.raises(RebalanceError, match=message):
        function(**parts)


def test_the_slot_of_a_key_does_not_depend_on_its_neighbours() -> None:
    together = slots_of(["a", "b", "ü"], "string")
    assert together.tolist() == [int(slots_of([key], "string")[0]) for key in ("a", "b", "ü")]
    assert together.dtype == np.int32
