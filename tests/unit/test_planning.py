"""decide: when a planner is asked, how its proposal is measured, what is refused and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import pytest

from rebalance.errors import PlannerError
from rebalance.partition import Share, consistent_ring
from rebalance.planners.registry import make_planner
from rebalance.planning.decide import decide
from rebalance.planning.model import Decision, Proposal, Request
from tests.support.strategies import active_function, request_of


@dataclass(frozen=True)
class Always:
    """Proposes what the test says."""

    name: ClassVar[str] = "always"
    splits_keys: ClassVar[bool] = True

    channel: list[int]
    splits: Mapping[int, tuple[Share, ...]] = field(default_factory=dict)

    def propose(self, request: Request) -> Proposal:
        return Proposal(channel=np.array(self.channel, dtype=np.int32), splits=self.splits)


@dataclass(frozen=True)
class Unasked:
    """Fails the test if it is asked."""

    name: ClassVar[str] = "unasked"
    splits_keys: ClassVar[bool] = False

    def propose(self, request: Request) -> Proposal:
        raise AssertionError("nothing should have been asked")


SKEWED = request_of(cost=[4, 3, 2, 1], home=[0, 0, 0, 1], state=[40, 30, 20, 10])


def plan(planner: object, request: Request, **options: bool):  # type: ignore[no-untyped-def]
    return decide(planner, request, active_function(request), **options)  # type: ignore[arg-type]


def test_within_theta_max_nothing_is_asked() -> None:
    result = plan(Unasked(), request_of(cost=[2, 2], home=[0, 1]))
    assert result.decision is Decision.KEEP
    assert result.reason == "within θ_max: the largest θ is 0.000 ≤ 0.08"


def test_a_better_function_is_applied_and_says_what_it_does() -> None:
    result = plan(Always([1, 0, 0, 1]), SKEWED)
    assert result.decision is Decision.APPLY
    assert result.reason == "max/fair load 1.800 → 1.000 by moving 1 keys with 40 bytes of state"
    assert (result.moved.tolist(), result.moved_from.tolist(), result.moved_to.tolist()) == ([0], [0], [1])
    assert result.moved_share == 0.4
    assert result.function.routes == {0: 1}


def test_the_same_function_again_is_kept() -> None:
    assert plan(Always([0, 0, 0, 1]), SKEWED).decision is Decision.KEEP


def test_a_worse_function_is_refused_but_can_be_forced() -> None:
    worse = Always([0, 0, 0, 0])
    assert plan(worse, SKEWED).decision is Decision.REJECT
    assert plan(worse, SKEWED).reason.startswith("it would not balance better: max/fair load 1.800 → 2.000")
    assert plan(worse, SKEWED, guard=False).decision is Decision.APPLY


def test_what_is_left_of_theta_max_is_said() -> None:
    assert "θ_max 0.08 not reached, largest θ 0.200" in plan(Always([0, 1, 0, 1]), SKEWED).reason


def test_keys_without_cost_leave_a_channel_to_drain_though_the_balance_stays() -> None:
    request = request_of(cost=[2, 2, 0], home=[0, 1, 1], current=[0, 1, 2], channels=3, excluded=[2])
    result = plan(Always([0, 1, 1]), request)
    assert result.decision is Decision.APPLY
    assert result.moved.tolist() == [2]


def test_a_table_beyond_its_limit_is_planned_anew_though_all_is_balanced() -> None:
    request = request_of(cost=[2, 2, 2, 2], home=[0, 1, 0, 1], current=[1, 0, 0, 1], max_routes=0)
    result = plan(make_planner("mixed"), request)
    assert result.decision is Decision.APPLY
    assert result.after.routes == 0


def test_a_new_channel_is_filled() -> None:
    request = request_of(cost=[2, 2, 2, 2], home=[0, 0, 1, 1], channels=2)
    active = active_function(request)
    grown = replace(request, capacity=np.ones(4), ring=consistent_ring(4))
    result = decide(make_planner("mixed"), grown, active)
    assert result.decision is Decision.APPLY
    assert result.after.theta == 0
    assert result.function.channels == 4


@pytest.mark.parametrize(
    ("planner", "complaint"),
    [
        (Always([0, 0]), "placed"),
        (Always([0, 0, 0, 2]), "used channels 0..2 of 0..1"),
        (Always([-1, 0, 0, 1]), "used channels -1"),
        (Always([1, 0, 0, 1], splits={0: (Share(1, 0.5), Share(0, 0.5))}), "states do not merge"),
    ],
    ids=["keys are missing", "a channel does not exist", "a key has no channel", "a key is split that cannot be"],
)
def test_what_is_no_function_is_a_bug_of_the_planner(planner: Always, complaint: str) -> None:
    with pytest.raises(PlannerError, match=complaint):
        plan(planner, SKEWED)


def test_moving_a_pinned_key_is_a_bug_of_the_planner() -> None:
    with pytest.raises(PlannerError, match="moved 1 pinned keys"):
        plan(Always([1, 0, 0, 1]), replace(SKEWED, pinned=np.array([True, False, False, False])))


def test_a_request_without_any_open_channel_is_refused() -> None:
    with pytest.raises(PlannerError, match="no channel is left"):
        plan(Unasked(), replace(SKEWED, excluded=np.array([True, True])))


def test_a_ring_that_still_feeds_an_excluded_channel_is_refused() -> None:
    with pytest.raises(PlannerError, match="the ring sends keys"):
        plan(Unasked(), replace(SKEWED, excluded=np.array([True, False])))


def test_split_keys_count_their_share_on_each_channel() -> None:
    request = request_of(cost=[8, 1, 1], home=[0, 0, 1], mergeable=True)
    split = Always([0, 0, 1], splits={0: (Share(0, 0.5), Share(1, 0.5))})
    result = plan(split, request)
    assert result.decision is Decision.APPLY
    assert result.after.loads.tolist() == [5, 5]
    assert (result.after.routes, result.after.splits) == (0, 1)
    again = decide(Unasked(), request, result.function)
    assert again.decision is Decision.KEEP


SPLIT = {0: (Share(0, 0.5), Share(1, 0.5))}
HEAVY = request_of(cost=[8, 1, 1], home=[0, 0, 1], mergeable=True)


@pytest.mark.parametrize(
    ("shares", "complaint"),
    [
        ((Share(1, 0.5), Share(0, 0.5)), "not where its state is"),
        ((), "not where its state is"),
        ((Share(0, 0.5), Share(2, 0.5)), r"do not exist or are excluded: \[2\]"),
        ((Share(0, 0.5), Share(1, 0.4)), "do not sum to 1"),
        ((Share(0, 1.5), Share(1, -0.5)), "do not sum to 1"),
    ],
)
def test_a_split_that_is_none_is_a_bug_of_the_planner(shares: tuple[Share, ...], complaint: str) -> None:
    with pytest.raises(PlannerError, match=complaint):
        plan(Always([0, 0, 1], splits={0: shares}), HEAVY)


def test_better_shares_alone_are_applied_and_move_nothing() -> None:
    split = replace(HEAVY, splits=SPLIT, limits=replace(HEAVY.limits, theta_max=0.0))
    grown = replace(split, stats=replace(split.stats, cost=np.array([8.0, 2.0, 0.0])))
    result = plan(Always([0, 0, 1], splits={0: (Share(0, 0.375), Share(1, 0.625))}), grown)
    assert result.decision is Decision.APPLY
    assert result.reason == "max/fair load 1.200 → 1.000 by moving 0 keys with 0 bytes of state"
    assert (len(result.moved), result.moved_bytes) == (0, 0)
    assert result.function.splits == {0: (Share(0, 0.375), Share(1, 0.625))}


def test_other_shares_that_bring_nothing_are_not_worth_a_new_function() -> None:
    split = replace(HEAVY, splits={0: (Share(0, 0.4), Share(1, 0.6))}, limits=replace(HEAVY.limits, theta_max=0.0))
    mirrored = Always([0, 0, 1], splits={0: (Share(0, 0.6), Share(1, 0.4))})
    assert plan(mirrored, split).decision is Decision.KEEP


def test_worse_shares_are_refused() -> None:
    split = replace(HEAVY, splits={0: (Share(0, 0.4), Share(1, 0.6))}, limits=replace(HEAVY.limits, theta_max=0.0))
    worse = Always([0, 0, 1], splits={0: (Share(0, 0.9), Share(1, 0.1))})
    assert plan(worse, split).decision is Decision.REJECT


def test_shares_on_channels_that_vanished_or_are_to_be_drained_are_planned_anew() -> None:
    quiet = request_of(cost=[0, 2, 2], home=[0, 0, 1], mergeable=True, splits={0: (Share(0, 0.5), Share(2, 0.5))})
    for request in (quiet, replace(quiet, capacity=np.ones(3), excluded=np.array([False, False, True]))):
        result = plan(Always([0, 0, 1]), request)
        assert result.decision is Decision.APPLY
        assert not result.function.splits


def test_a_planner_for_whole_keys_makes_split_keys_whole_though_that_balances_worse() -> None:
    split = replace(HEAVY, splits={0: (Share(0, 0.6), Share(1, 0.4))})
    result = plan(make_planner("mixed"), split)
    assert result.decision is Decision.APPLY
    assert not result.function.splits
    assert result.after.skewness > result.before.skewness


def test_the_memory_footprint_counts_a_key_on_every_channel_it_is_on() -> None:
    result = plan(Always([0, 0, 1], splits=SPLIT), HEAVY)
    assert (result.before.key_copies, result.after.key_copies) == (3, 4)
    quiet = request_of(cost=[1, 0], home=[0, 0], state=[0, 0])
    assert plan(Always([0, 0]), quiet).before.key_copies == 1


def test_every_plan_carries_its_bound() -> None:
    result = plan(make_planner("mixed"), SKEWED)
    assert 0 < result.bound <= result.achieved
    assert result.gap is not None
