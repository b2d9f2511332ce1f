"""Which keys scan, redist and readj track, and what becomes of those that were tracked before."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rebalance.partition import consistent_ring
from rebalance.planners.gedik.base import theta, threshold, tracked_keys
from rebalance.planners.gedik.scan import Scan
from rebalance.planners.registry import make_planner
from rebalance.planning.decide import decide
from rebalance.planning.interface import TRACKED
from rebalance.planning.model import Decision, Proposal, Request
from tests.support.strategies import active_function, request_of
from tests.support.zipf import zipf_stats

FAMILY = ("scan", "redist", "readj")
EVEN = (1.2, 1.2, 1.2)


def test_theta_is_the_deviation_that_alpha_allows_one_channel() -> None:
    """Equation 15: one channel at α·x and N-1 at x."""
    mean = (1.2 + 9) / 10
    assert theta(1.2, 10) == pytest.approx((1.2 - mean) / mean)


def test_delta_of_linear_resources_is_sigma_theta_over_n() -> None:
    f = np.full(100, 0.01)
    assert threshold(f, "LCL", EVEN, 0.1, 10) == pytest.approx(0.1 * theta(1.2, 10) / 10)
    assert threshold(f, "LLL", (1.1, 4, 1.2), 0.1, 10) == pytest.approx(0.1 * theta(1.1, 10) / 10)


def test_a_second_look_raises_delta_of_quadratic_resources() -> None:
    f = np.sort(1 / np.arange(1.0, 100_001))[::-1]
    f /= f.sum()
    share = 0.1 * theta(1.2, 10)
    first = np.sqrt(share / (len(f) * 10))
    second = threshold(f, "CQL", EVEN, 0.1, 10)
    assert first < second <= share / 10


def test_keys_of_equal_frequency_are_not_worth_tracking() -> None:
    stats = replace(zipf_stats(1000), tuples=np.ones(1000))
    tracked, _ = tracked_keys(stats, "LCL", EVEN, 0.1, 10)
    assert not tracked.any()


def test_about_fifty_of_a_million_keys_are_tracked_by_default_whatever_the_resources() -> None:
    stats = zipf_stats(1_000_000)
    counts = {r: np.count_nonzero(tracked_keys(stats, r, EVEN, 0.1, 10)[0]) for r in ("LCL", "LLL", "LQL")}
    assert len(set(counts.values())) == 1
    assert 30 <= counts["LCL"] <= 60


def test_a_key_with_much_of_a_measured_column_is_tracked_however_rare_it_is() -> None:
    stats = zipf_stats(1000)
    rare = int(stats.tuples.argmin())
    cost = np.ones(1000)
    cost[rare] = 500
    tracked, delta = tracked_keys(replace(stats, cost=cost), "LML", EVEN, 0.1, 4)
    assert stats.tuples[rare] / stats.tuples.sum() < delta
    assert tracked[rare]


@pytest.mark.parametrize("name", FAMILY)
def test_with_one_channel_everything_is_on_it_and_nothing_is_tracked(name: str) -> None:
    proposal = make_planner(name).propose(request_of(cost=[5, 3, 1], home=[0, 0, 0], current=[0, 1, 2], channels=1))
    assert proposal.channel.tolist() == [0, 0, 0]
    assert proposal.notes == ()


# The migration penalty, equation 18


def test_only_keys_that_were_tracked_before_and_are_no_more_are_in_the_first_sum_and_all_that_were_or_are_in_the_divisor() -> (
    None
):
    # Keys 0 and 1 are tracked now; 0, 2 and 3 were before. Key 2 has left home and goes back, 3 is at home, 4 was never tracked.
    request = replace(
        request_of(cost=[90, 80, 3, 2, 5], home=[0, 1, 0, 1, 0], current=[0, 1, 1, 1, 1]), memo={TRACKED: [0, 2, 3]}
    )
    problem = Scan().problem(request, request.home.copy(), np.array([0, 1]))
    assert problem.moved == 3.0
    assert problem.ideal == (90 + 80 + 3 + 2) / 2


@pytest.mark.parametrize("name", FAMILY)
def test_who_was_tracked_is_kept_with_the_function_when_channels_are_added(name: str) -> None:
    request = request_of(cost=[9, 9, 9, 1], home=[0, 0, 0, 1], current=[0, 0, 0, 1], channels=2)
    first = decide(make_planner(name), request, active_function(request))
    assert first.function.memo[TRACKED] == [0, 1, 2, 3]
    seen = {}

    class Seeing(Scan):
        def propose(self, request: Request) -> Proposal:
            seen.update(request.memo)
            return super().propose(request)

    ring = consistent_ring(3)
    after = replace(request, current=first.function.slots[request.stats.slots], ring=ring, capacity=np.ones(3))
    decide(Seeing(), after, first.function)
    assert seen == {TRACKED: [0, 1, 2, 3]}


def test_other_tracked_keys_alone_make_no_plan() -> None:
    request = request_of(cost=[9, 1, 9, 9], home=[0, 1, 0, 0], channels=2)
    function = decide(Scan(), request, active_function(request)).function
    current = function.slots[request.stats.slots].astype(np.int32)
    for key, channel in function.routes.items():
        current[int(key)] = channel
    again = replace(request, current=current)
    plan = decide(Scan(), again, replace(function, memo={TRACKED: [3]}))
    assert plan.decision is Decision.KEEP
