"""No plan is better than the bounds say: every assignment of small problems is looked at, mid-size ones are solved as programs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance.partition import SLOTS
from rebalance.planners.registry import make_planner
from rebalance.planning.bounds import bound, least_migration, least_theta
from rebalance.planning.bounds_theta import reach
from rebalance.planning.decide import decide
from rebalance.planning.model import KeyStats, Limits, Request
from rebalance.simulate.intervals import steps
from rebalance.simulate.workload import Workload
from tests.reference import mip
from tests.reference.exhaustive import least_migration_exactly, least_migration_of_all, least_theta_exactly
from tests.support.budget import cases
from tests.support.strategies import active_function, request_of, requests


def held_to(request: Request, exactly: float, at_least: float) -> None:
    assert at_least <= exactly * (1 + 1e-9) + 1e-9, request


@settings(max_examples=cases(60, long=150), deadline=None)
@given(request=requests(max_keys=7, max_channels=3))
def test_no_assignment_has_a_smaller_theta(request: Request) -> None:
    held_to(request, least_theta_exactly(request), least_theta(request))


@settings(max_examples=cases(100, long=300), deadline=None)
@given(request=requests(max_keys=7, max_channels=3))
def test_no_plan_within_the_bounds_theta_moves_fewer_bytes(request: Request) -> None:
    certified = bound(request)
    theta = max(certified.theta, request.limits.theta_max)
    held_to(request, least_migration_exactly(request, theta), certified.bytes)


@settings(max_examples=60, deadline=None)
@given(request=requests(max_keys=5, max_channels=3))
def test_the_search_leaves_out_nothing_that_counts(request: Request) -> None:
    theta = request.limits.theta_max
    assert least_migration_exactly(request, theta) == pytest.approx(least_migration_of_all(request, theta))


def random_request(seed: int, size: tuple[int, int] | None = None) -> Request:
    """Skewed costs, states that have little to do with them, crowded channels: where rooms and heavy keys matter."""
    rng = np.random.default_rng(seed)
    channels = int(rng.integers(2, 5))
    keys = int(rng.integers(2, {2: 12, 3: 9, 4: 7}[channels] + 1))
    keys, channels = size or (keys, channels)
    cost = [rng.random(keys), 1 / np.arange(1, keys + 1) ** 0.85, rng.exponential(1, keys) ** 2][seed % 3]
    current = rng.integers(0, channels, keys)
    current = np.where(rng.random(keys) < 0.4, 0, current).astype(np.int32)
    return Request(
        stats=KeyStats(
            np.arange(keys), rng.integers(0, SLOTS, keys).astype(np.int32), cost, cost, cost * (1 + rng.random(keys))
        ),
        current=current,
        ring=rng.integers(0, channels, SLOTS).astype(np.int32),
        capacity=np.ones(channels) if seed % 2 else rng.random(channels) + 0.2,
        limits=Limits(theta_max=float(rng.choice([0.02, 0.08, 0.2, 0.5])), max_routes=int(rng.choice([1, 3, 100]))),
    )


@pytest.mark.parametrize(
    "first", range(0, cases(200, long=400), 100), ids=lambda first: f"requests {first} to {first + 99}"
)
def test_no_plan_for_skewed_costs_moves_fewer_bytes(first: int) -> None:
    for seed in range(first, first + 100):
        request = random_request(seed)
        certified = bound(request)
        theta = max(certified.theta, request.limits.theta_max)
        held_to(request, least_migration_exactly(request, theta), certified.bytes)


@pytest.mark.parametrize(
    "first", range(0, cases(20, long=60), 20), ids=lambda first: f"requests {first} to {first + 19}"
)
def test_no_plan_for_twelve_keys_on_four_channels_is_better_than_the_bounds(first: int) -> None:
    for seed in range(first, first + 20):
        request = random_request(seed, size=(12, 4))
        certified = bound(request)
        held_to(request, least_theta_exactly(request), certified.theta)
        theta = max(certified.theta, request.limits.theta_max)
        held_to(request, least_migration_exactly(request, theta), certified.bytes)


@pytest.mark.parametrize("window", [1, 5])
@pytest.mark.parametrize(("keys", "channels", "max_routes"), [(60, 3, 3000), (60, 3, 12), (150, 4, 3000), (150, 4, 15)])
def test_the_best_solution_of_the_program_is_never_below_the_bound_and_seldom_far_above(
    window: int, keys: int, channels: int, max_routes: int
) -> None:
    workload = Workload(keys=keys, channels=channels, seed=1)
    limits = Limits(theta_max=0.08, max_routes=max_routes)
    ratios = []
    for interval, request, plan in steps(make_planner("frugal"), workload, 4, limits=limits, window=window):
        if interval.number > 2 and plan.bound > 0:
            solved = mip.solve(request, seconds=5.0)
            held_to(request, solved.bytes, plan.bound)
            ratios.append(solved.bytes / plan.bound)
    assert np.mean(ratios) < 1.5


def test_an_overloaded_channel_sheds_its_excess_least_state_per_cost_first() -> None:
    # Fair is 10, at most 11: two units must leave channel 0, and the key of cost 2 with 1 byte is the cheapest.
    request = request_of(
        cost=[8, 2, 1, 1, 1, 7], state=[80, 1, 5, 5, 5, 70], home=[0] * 5 + [1], channels=2, theta_max=0.1
    )
    assert least_migration(request, 0.1) == pytest.approx(1.0)


def test_a_key_too_heavy_for_any_room_is_charged_for_those_that_make_way() -> None:
    # Fair is 10, and so is the most: the key of cost 4 must leave channel 0, and wherever it lands 2 units make way for it.
    request = request_of(
        cost=[10, 4] + [2] * 8, state=[100, 4] + [3] * 8, home=[0, 0] + [1] * 4 + [2] * 4, channels=3, theta_max=0.0
    )
    assert least_migration(request, 0.0) == pytest.approx(4 + 3, rel=1e-6)


def test_a_channel_that_is_too_low_must_be_filled_though_none_is_too_full() -> None:
    # Fair is 10.5, at least 7.35: channel 0 with 4 lacks 3.35, which only the others can give.
    request = request_of(cost=[4] + [1] * 38, home=[0] + [1] * 13 + [2] * 13 + [3] * 12, channels=4, theta_max=0.3)
    assert least_migration(request, 0.3) == pytest.approx(0.7 * 10.5 - 4, rel=1e-6)


def test_a_table_that_is_too_large_sends_home_the_smallest_states() -> None:
    request = request_of(
        cost=[1] * 4,
        state=[9, 2, 4, 7],
        home=[0, 0, 0, 0],
        current=[1, 1, 1, 1],
        channels=2,
        theta_max=1.0,
        max_routes=2,
    )
    assert least_migration(request, 1.0) >= 2 + 4


def test_a_channel_to_be_drained_gives_up_all_its_state() -> None:
    request = request_of(cost=[1, 1, 0], state=[3, 5, 7], home=[0, 0, 0], current=[0, 1, 1], excluded=[1], channels=2)
    assert bound(request).bytes == pytest.approx(12.0)


def test_the_heaviest_key_bounds_theta() -> None:
    assert least_theta(request_of(cost=[12, 4, 4], home=[0, 1, 1], channels=2)) == pytest.approx(0.2)


def test_a_larger_channel_bears_the_heaviest_key_better() -> None:
    request = request_of(cost=[12, 3, 4, 1], home=[0, 1, 1, 1], capacity=[3, 1])
    assert least_theta(request) == 0.0


def test_of_three_equal_keys_two_share_one_of_two_channels() -> None:
    assert least_theta(request_of(cost=[2, 2, 2], home=[0, 1, 1], channels=2)) == pytest.approx(1 / 3)


def test_with_fewer_keys_than_channels_one_stays_empty() -> None:
    assert least_theta(request_of(cost=[1, 1], home=[0, 1], channels=3)) == 1.0


def test_ten_equal_keys_on_four_channels_leave_one_with_three_and_one_with_two() -> None:
    request = request_of(cost=[0.3] * 10, home=[0] * 10, channels=4, theta_max=0.0)
    assert (reach(request).above, reach(request).below) == (pytest.approx(0.2), pytest.approx(0.2))


def test_costs_of_one_and_a_half_and_two_and_a_half_are_halves_and_no_channel_holds_a_quarter() -> None:
    request = request_of(cost=[1.5, 2.5, 2.5], home=[0] * 3, capacity=[1, 1], theta_max=0.0)
    assert reach(request).above == pytest.approx(3.5 / 3.25 - 1)


def test_channels_without_a_heavy_key_share_what_is_left() -> None:
    # Three keys of 13 leave 1 for the fourth channel, a tenth of its fair load.
    assert reach(request_of(cost=[13, 13, 13, 0.5, 0.5], home=[0] * 5, channels=4)).below == pytest.approx(0.9)


def test_what_is_pinned_together_bounds_theta() -> None:
    assert least_theta(request_of(cost=[6, 6, 1, 1], home=[0, 0, 1, 1], channels=2, pinned=[0, 1])) == pytest.approx(
        5 / 7
    )


def test_no_keys_no_bound() -> None:
    request = request_of(cost=[], home=[], channels=2)
    assert (bound(request).theta, bound(request).bytes) == (0.0, 0.0)


@settings(max_examples=60, deadline=None)
@given(request=requests(), theta=st.sampled_from([0.0, 0.1, 0.3]))
def test_a_wider_theta_never_costs_more(request: Request, theta: float) -> None:
    theta = max(theta, least_theta(request))
    assert least_migration(request, theta + 0.2) <= least_migration(request, theta) * (1 + 1e-9) + 1e-9


def test_a_plan_carries_bound_achieved_and_gap() -> None:
    request = request_of(cost=[7, 3, 2, 2], home=[0, 0, 0, 1], channels=2, theta_max=0.0)
    plan = decide(make_planner("frugal"), request, active_function(request))
    assert (plan.bound, plan.achieved) == (pytest.approx(5.0), 5.0)
    assert plan.gap == pytest.approx(0.0, abs=1e-8)


def test_a_plan_that_misses_theta_max_has_no_gap_to_speak_of() -> None:
    request = request_of(cost=[7, 3, 2, 2], home=[0, 0, 0, 1], channels=2, theta_max=0.0)
    plan = decide(make_planner("keep"), request, active_function(request))
    assert plan.bound > 0
    assert plan.gap is None


def test_bounds_do_not_change_the_request() -> None:
    request = random_request(5)
    copies = replace(request, stats=replace(request.stats, state=request.stats.state.copy()))
    bound(request)
    assert np.array_equal(request.stats.state, copies.stats.state)
