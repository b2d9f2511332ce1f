"""Hybrid: only what no channel can hold is split, and shares change before state moves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance.partition import PartitionFunction, consistent_ring
from rebalance.planners.frugal.frugal import Frugal
from rebalance.planners.registry import make_planner
from rebalance.planners.splitting.hybrid import Hybrid
from rebalance.planning.decide import decide
from rebalance.planning.model import Decision, KeyStats, Limits, Plan, Request
from tests.support.contract import after
from tests.support.strategies import active_function, request_of, requests

CHANNELS = 10


def one_key_with(share: float, seed: int = 0, theta_max: float = 0.08) -> Request:
    """One key with such a share of the tuples, 3,000 others with Zipf frequencies share the rest."""
    rng = np.random.default_rng(seed)
    others = rng.permutation(np.arange(1.0, 3001) ** -0.5)
    cost = np.concatenate([[share], (1 - share) * others / others.sum()]) * 1e6
    slots = np.random.default_rng(1).integers(0, 1 << 16, len(cost)).astype(np.int32)
    ring = consistent_ring(CHANNELS)
    return Request(
        stats=KeyStats(keys=np.arange(len(cost)), slots=slots, tuples=cost, cost=cost, state=cost),
        current=ring[slots],
        ring=ring,
        capacity=np.ones(CHANNELS),
        limits=Limits(theta_max=theta_max),
        mergeable=True,
    )


@pytest.mark.parametrize("name", ["mixed", "frugal", "minmig", "mintable"])
def test_whole_keys_cannot_balance_a_key_with_30_percent_on_ten_channels(name: str) -> None:
    request = one_key_with(0.3)
    assert decide(make_planner(name), request, active_function(request)).after.skewness >= 3.0 - 1e-9


@pytest.mark.parametrize("seed", range(5))
def test_hybrid_balances_a_key_with_30_percent_on_ten_channels_without_moving_state(seed: int) -> None:
    request = one_key_with(0.3, seed)
    plan = decide(Hybrid(), request, active_function(request))
    assert plan.decision is Decision.APPLY
    assert plan.after.skewness <= 1.05
    assert (plan.after.splits, len(plan.moved)) == (1, 0)
    assert plan.after.key_copies - plan.before.key_copies < CHANNELS


def test_shares_and_first_channels_stay_while_they_do() -> None:
    request = one_key_with(0.3)
    plan = decide(Hybrid(), request, active_function(request))
    for seed in range(1, 6):
        drifted = settled(one_key_with(0.3 + 0.004 * seed, 0), plan)
        again = decide(Hybrid(), drifted, plan.function)
        assert again.decision is Decision.KEEP
        assert Hybrid().propose(replace(drifted, splits=request_splits(plan))).splits == request_splits(plan)


def test_when_the_key_grows_its_shares_change_and_nothing_moves() -> None:
    plan = decide(Hybrid(), one_key_with(0.3), active_function(one_key_with(0.3)))
    grown = settled(one_key_with(0.6), plan)
    again = decide(Hybrid(), grown, plan.function)
    assert again.decision is Decision.APPLY
    assert again.after.skewness <= 1.05
    assert len(again.moved) == 0


def test_a_split_key_is_made_whole_only_well_below_a_fair_load() -> None:
    plan = decide(Hybrid(), one_key_with(0.3), active_function(one_key_with(0.3)))
    still = replace(settled(one_key_with(0.09), plan), splits=request_splits(plan))
    assert set(Hybrid().propose(still).splits) == {0}
    small = replace(settled(one_key_with(0.05), plan), splits=request_splits(plan))
    assert not Hybrid().propose(small).splits
    fresh = one_key_with(0.09)
    assert not Hybrid().propose(fresh).splits


def test_ten_drifting_intervals_stay_within_theta_max_and_move_little() -> None:
    function, current = None, one_key_with(0.3).current
    moved = 0.0
    for seed in range(10):
        request = replace(one_key_with(0.25 + 0.03 * (seed % 3), seed), current=current)
        function = active_function(request) if function is None else function
        plan = decide(Hybrid(), request, function)
        reached = plan.after if plan.decision is Decision.APPLY else plan.before
        assert reached.theta <= 0.08 + 1e-9
        assert reached.splits == 1
        function, current = plan.function, current.copy()
        if plan.decision is Decision.APPLY:
            current[plan.moved] = plan.moved_to
            moved += plan.moved_share
    assert moved < 0.01


def test_a_split_key_leaves_a_channel_that_is_to_be_drained() -> None:
    request = one_key_with(0.3)
    plan = decide(Hybrid(), request, active_function(request))
    gone = int(plan.function.splits[0][0].channel)
    drained = settled(request, plan)
    drained = replace(drained, excluded=np.arange(CHANNELS) == gone, ring=consistent_ring(CHANNELS, excluded=[gone]))
    again = decide(Hybrid(), drained, plan.function)
    assert again.decision is Decision.APPLY
    assert gone not in {share.channel for share in again.function.splits[0]}
    assert again.after.skewness <= 1.05


def test_a_pinned_key_is_not_split_however_heavy() -> None:
    request = replace(one_key_with(0.3), pinned=np.arange(3001) == 0)
    assert not Hybrid().propose(request).splits


@settings(max_examples=40)
@given(request=requests())
def test_where_nothing_may_be_split_the_plan_is_frugals(request: Request) -> None:
    request = replace(request, mergeable=False)
    assert Hybrid().propose(request).channel.tolist() == Frugal().propose(request).channel.tolist()


@settings(max_examples=60)
@given(request=requests(max_channels=4, plain=True, mergeable=True), factor=st.integers(2, 4))
def test_only_keys_larger_than_a_channel_are_split_and_each_ends_level(request: Request, factor: int) -> None:
    cost = request.stats.cost.copy()
    cost[0] = factor * (cost.sum() + 1)
    request = replace(request, stats=replace(request.stats, cost=cost))
    proposal = Hybrid().propose(request)
    assert all(cost[k] > request.fair.max() for k in proposal.splits)
    assert (0 in proposal.splits) == (request.channels > 1)
    assert sum(map(len, proposal.splits.values())) <= 2 * len(proposal.splits) + request.channels


def test_heavy_keys_alone_are_spread_too() -> None:
    request = request_of(cost=[60, 40], home=[0, 0], channels=4, mergeable=True)
    plan = decide(Hybrid(), request, active_function(request))
    assert plan.after.theta < 0.05
    assert len(plan.moved) == 0


def settled(request: Request, plan: Plan) -> Request:
    return replace(request, current=after(request, plan).current)


def request_splits(plan: Plan) -> dict[int, tuple]:  # type: ignore[type-arg]
    function: PartitionFunction = plan.function
    return {int(key): shares for key, shares in function.splits.items()}
