"""Where θ_max is out of reach the fullest channel is no fuller than it must be, for little more than that costs, and within the same effort."""

from __future__ import annotations

import numpy as np
import pytest

from rebalance.planners.frugal.frugal import Frugal
from rebalance.planners.frugal.search import Case
from rebalance.planners.frugal.task import task_of
from rebalance.planners.frugal.work import work
from rebalance.planning.bounds import bound
from rebalance.planning.decide import decide
from rebalance.simulate.intervals import steps
from rebalance.simulate.workload import Workload
from tests.support.hard_requests import hard_request
from tests.support.strategies import active_function, request_of


def test_one_giant_leaves_the_others_alone_as_long_as_none_is_fuller() -> None:
    # The key of 12 is 2.4 of the fair 5; channel 1 with 7 is no fuller, so only the key beside the giant moves.
    request = request_of(cost=[12, 1, 4, 3], state=[50, 2, 9, 9], home=[0, 0, 1, 1], channels=4, theta_max=0.1)
    channel = Frugal().propose(request).channel
    assert channel[[0, 2, 3]].tolist() == [0, 1, 1]
    assert channel[1] != 0


def test_a_giant_moves_if_that_is_cheaper_than_emptying_its_channel() -> None:
    request = request_of(cost=[12, 2, 4, 3], state=[1, 50, 9, 9], home=[0, 0, 1, 1], channels=3, theta_max=0.1)
    assert Frugal().propose(request).channel.tolist() == [2, 0, 1, 1]


@pytest.mark.parametrize("channels", [10, 40])
def test_with_many_keys_the_fullest_channel_has_the_heaviest_key_and_nothing_else_near_the_bound(channels: int) -> None:
    workload = Workload(keys=20_000, channels=channels, z=1.1, seed=4)
    for _, request, plan in steps(Frugal(), workload, 4, window=3):
        heaviest = request.stats.cost.max() / request.fair[0]
        assert heaviest > 1.08
        assert plan.after.skewness == pytest.approx(heaviest, rel=0.005)
        assert plan.moved_bytes <= 1.05 * plan.bound


def test_the_bound_on_migration_knows_that_a_giant_is_alone() -> None:
    # Whichever channel the giant is on, the others there must leave: here for 2, elsewhere for 9 + 9 or with its own 50.
    request = request_of(cost=[12, 1, 4, 3], state=[50, 2, 9, 9], home=[0, 0, 1, 1], channels=2, theta_max=0.1)
    assert bound(request).bytes == pytest.approx(2.0, rel=1e-6)


def test_keys_do_not_go_home_to_the_channel_that_a_giant_needs_for_itself() -> None:
    # Key 1 is away from home with no state; at home beside the giant it would have to move again.
    request = request_of(
        cost=[20, 1, 1, 4, 4],
        state=[90, 0, 1, 9, 9],
        home=[0, 0, 0, 1, 2],
        current=[0, 1, 0, 1, 2],
        channels=3,
        theta_max=0.1,
    )
    plan = decide(Frugal(), request, active_function(request))
    assert plan.moved.tolist() == [2]


def test_costs_that_do_not_add_up_to_the_fair_load_are_planned_for_what_they_can() -> None:
    # 2,000 tenths on ten channels: no channel can have just a tenth of them.
    rng = np.random.default_rng(5)
    cost = rng.integers(0, 12, 2000) / 10
    cost[0] += (3 - round(cost.sum() * 10) % 10) % 10 / 10
    request = request_of(
        cost=cost.tolist(),
        state=rng.integers(0, 50, 2000).tolist(),
        home=rng.integers(0, 10, 2000).tolist(),
        theta_max=0.0,
    )
    plan = decide(Frugal(), request, active_function(request))
    assert plan.bound_theta > 0
    assert plan.after.theta == pytest.approx(plan.bound_theta, rel=1e-6)


@pytest.mark.parametrize("seed", range(0, 60, 5))
def test_a_plan_looks_at_little_more_than_it_may(seed: int) -> None:
    request = hard_request(seed, most_keys=1500)
    task = task_of(request, request.limits.theta_max, len(request.stats))
    allowed = work("bounded")
    Case(request, np.arange(len(request.stats)), request, task, allowed).plan(
        task.least_theta(request.limits.theta_max)
    )
    assert allowed.looks > -work("bounded").thorough * 2


def test_a_plan_with_all_the_time_there_is_is_at_least_as_good() -> None:
    for seed in (19, 28):
        request = hard_request(seed, most_keys=120)
        bounded, exact = (Frugal(effort=effort).propose(request).channel for effort in ("bounded", "exact"))
        moved = [float(request.stats.state[channel != request.current].sum()) for channel in (bounded, exact)]
        assert moved[1] <= moved[0]
