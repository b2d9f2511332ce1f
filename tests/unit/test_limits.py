"""max_bytes and max_routes as hard limits on whatever a planner proposes."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance.partition import SLOTS, Share
from rebalance.planning.exact import clearly_less
from rebalance.planning.limits import hold, usage
from rebalance.planning.measure import measure
from rebalance.planning.model import Proposal, Request
from tests.support.strategies import request_of, requests


def proposal(*channel: int) -> Proposal:
    return Proposal(channel=np.array(channel, dtype=np.int32))


def test_a_proposal_within_the_limits_is_left_alone() -> None:
    wanted = proposal(1, 0, 0, 1)
    assert hold(request_of(cost=[4, 3, 2, 1], home=[0, 0, 0, 1], max_bytes=4), wanted) is wanted


def test_of_the_moves_those_with_most_cost_per_byte_are_kept() -> None:
    request = request_of(cost=[4, 4, 4, 1], home=[0, 0, 0, 1], state=[100, 10, 50, 1], max_bytes=60, theta_max=0.0)
    held = hold(request, proposal(1, 1, 1, 1))
    assert held.channel.tolist() == [0, 1, 0, 1]
    assert held.notes == (
        "the planner asked to move 160 bytes and max_bytes is 60",
        "held to the limits: 1 moves where it asked for 3, 10 bytes, 1 routes",
    )


def test_of_the_routes_those_with_most_cost_are_kept() -> None:
    request = request_of(cost=[1, 5, 2, 1, 4], home=[0, 0, 0, 0, 0], channels=3, max_routes=2, theta_max=0.0)
    held = hold(request, proposal(1, 2, 2, 1, 1))
    assert held.channel.tolist() == [0, 2, 0, 0, 1]
    assert held.notes[0] == "the planner asked for 5 routes and max_routes is 2"


def test_keys_the_planner_did_not_choose_move_where_its_own_do_not_fit() -> None:
    request = request_of(cost=[8, 2, 2], home=[0, 0, 0], state=[100, 5, 5], channels=2, max_bytes=10)
    assert hold(request, proposal(1, 0, 0)).channel.tolist() == [0, 1, 1]


def test_old_routes_make_way_for_new_ones_that_balance_better() -> None:
    request = request_of(
        cost=[9, 9, 1, 1], home=[0, 0, 0, 0], current=[0, 0, 1, 1], state=[9, 9, 1, 1], max_routes=2, theta_max=0.0
    )
    held = hold(request, proposal(1, 0, 1, 1))
    assert held.channel.tolist() == [1, 0, 0, 1]


def test_a_table_too_large_by_itself_sends_the_least_state_home() -> None:
    request = request_of(
        cost=[1, 1, 1], home=[0, 0, 0], current=[1, 1, 1], state=[30, 10, 20], max_routes=1, channels=2
    )
    assert hold(request, proposal(1, 1, 1)).channel.tolist() == [1, 0, 0]


def test_draining_waits_for_bytes() -> None:
    request = request_of(
        cost=[9, 1, 5], home=[0, 0, 0], current=[1, 1, 0], state=[10, 10, 1], excluded=[1], max_bytes=10
    )
    held = hold(request, proposal(0, 0, 0))
    assert held.channel.tolist() == [0, 1, 0]


def test_vanished_channels_are_left_whatever_it_costs_and_the_plan_says_so() -> None:
    request = request_of(cost=[1, 1], home=[0, 1], current=[2, 3], channels=2, max_bytes=1)
    held = hold(request, proposal(0, 1))
    assert held.channel.tolist() == [0, 1]
    assert "max_bytes cannot be met" in held.notes[-1]


def test_pinned_routes_beyond_max_routes_stay_and_the_plan_says_so() -> None:
    request = request_of(cost=[1, 1], home=[0, 0], current=[1, 1], pinned=[0, 1], max_routes=1)
    held = hold(request, proposal(1, 1))
    assert held.channel.tolist() == [1, 1]
    assert "max_routes cannot be met" in held.notes[-1]


def test_a_new_ring_is_given_up_if_it_cannot_be_paid_for() -> None:
    request = request_of(cost=[1, 1, 1, 1], home=[0, 0, 0, 1], max_bytes=1, max_routes=1)
    new_ring = np.ones(SLOTS, dtype=np.int32)
    held = hold(request, Proposal(channel=np.array([1, 1, 1, 1], dtype=np.int32), ring=new_ring))
    assert held.ring is None
    assert usage(request, held).within(request.limits)


def halves(first: int, second: int) -> tuple[Share, ...]:
    return Share(first, 0.5), Share(second, 0.5)


def test_a_split_key_keeps_its_state_where_it_is_if_that_is_one_of_its_channels() -> None:
    request = request_of(cost=[8, 2], home=[0, 1], channels=3, max_bytes=7, mergeable=True)
    wanted = Proposal(channel=np.array([1, 1], dtype=np.int32), splits={0: (Share(1, 0.6), Share(0, 0.4))})
    held = hold(request, wanted)
    assert held.channel[0] == 0
    assert dict(held.splits) == {0: (Share(0, 0.4), Share(1, 0.6))}


def test_the_first_channel_of_a_split_key_moves_while_bytes_last() -> None:
    request = request_of(
        cost=[8, 8, 1], home=[0, 0, 0], state=[5, 9, 3], channels=3, max_bytes=9, mergeable=True, theta_max=0.0
    )
    wanted = Proposal(channel=np.array([1, 1, 1], dtype=np.int32), splits={0: halves(1, 2), 1: halves(1, 2)})
    held = hold(request, wanted)
    assert dict(held.splits) == {0: halves(1, 2)}
    assert held.channel.tolist() == [1, 0, 1]
    assert usage(request, held).bytes == 8


def test_where_bytes_do_not_last_a_key_is_split_as_before() -> None:
    before = {0: halves(0, 1)}
    request = request_of(cost=[8, 1], home=[0, 0], channels=4, max_bytes=1, mergeable=True, splits=before)
    wanted = Proposal(channel=np.array([2, 0], dtype=np.int32), splits={0: halves(2, 3)})
    assert dict(hold(request, wanted).splits) == before


def test_a_split_key_leaves_a_channel_that_vanished_whatever_it_costs() -> None:
    request = request_of(cost=[8, 1], home=[0, 0], current=[3, 0], channels=3, max_bytes=1, mergeable=True)
    wanted = Proposal(channel=np.array([1, 0], dtype=np.int32), splits={0: halves(1, 2)})
    held = hold(request, wanted)
    assert held.channel.tolist() == [1, 0]
    assert dict(held.splits) == {0: halves(1, 2)}


@settings(max_examples=100, deadline=None)
@given(request=requests(mergeable=True), seed=st.integers(0, 2**32 - 1))
def test_whatever_is_split_limits_hold_and_splits_stay_whole(request: Request, seed: int) -> None:
    rng, usable = np.random.default_rng(seed), np.flatnonzero(request.open_capacity > 0)
    wanted = rng.choice(usable, len(request.stats)).astype(np.int32)
    stays = np.zeros(len(wanted), bool) if request.pinned is None else request.pinned
    stays &= request.current < request.channels
    wanted[stays] = request.current[stays]
    others = rng.choice(usable, len(wanted))
    splits = {k: halves(int(wanted[k]), int(others[k])) for k in range(0, len(wanted), 2)}
    splits = {k: s for k, s in splits.items() if not stays[k] and s[0].channel != s[1].channel}
    held = hold(request, Proposal(channel=wanted, splits=splits))
    vanished = request.stats.state[request.current >= request.channels].sum()
    limit = request.limits.max_bytes
    assert limit is None or usage(request, held).bytes <= max(limit, vanished)
    for k, shares in held.splits.items():
        assert shares[0].channel == held.channel[k]
        assert all(request.open_capacity[share.channel] > 0 for share in shares)


@settings(max_examples=100, deadline=None)
@given(request=requests(), seed=st.integers(0, 2**32 - 1))
def test_whatever_is_proposed_limits_hold_where_they_can(request: Request, seed: int) -> None:
    wanted = np.random.default_rng(seed).choice(np.flatnonzero(request.open_capacity > 0), len(request.stats))
    stays = (
        np.zeros(len(wanted), bool) if request.pinned is None else request.pinned & (request.current < request.channels)
    )
    held = hold(request, Proposal(channel=np.where(stays, request.current, wanted).astype(np.int32)))
    used, limits = usage(request, held), request.limits
    vanished = request.stats.state[request.current >= request.channels].sum()
    assert limits.max_bytes is None or used.bytes <= max(limits.max_bytes, vanished)
    if limits.max_bytes is None:
        pinned_routes = np.count_nonzero(stays & (request.current != request.home))
        assert used.routes <= max(limits.max_routes, pinned_routes)
    assert np.array_equal(held.channel[stays], request.current[stays])


@settings(max_examples=60, deadline=None)
@given(request=requests(plain=True), seed=st.integers(0, 2**32 - 1))
def test_from_an_allowed_table_holding_never_makes_the_balance_worse(request: Request, seed: int) -> None:
    wanted = np.random.default_rng(seed).integers(0, request.channels, len(request.stats)).astype(np.int32)
    held = hold(request, Proposal(channel=wanted))
    allowed = np.count_nonzero(request.current != request.home) <= request.limits.max_routes
    if allowed and held.channel is not wanted:
        before, after = measure(request, request.current), measure(request, held.channel)
        assert not clearly_less(before.theta, after.theta)
        assert not clearly_less(before.skewness, after.skewness)
