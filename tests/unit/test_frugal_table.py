"""What a table of limited size rules out is known before anything is searched for."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from rebalance.planners.frugal.frugal import Frugal
from rebalance.planners.frugal.table import fewest_routes, least_theta
from rebalance.planners.frugal.task import task_of
from rebalance.planning.model import Limits
from rebalance.simulate.intervals import steps
from rebalance.simulate.workload import Workload
from tests.support.budget import cases
from tests.support.strategies import request_of

KEYS, CHANNELS = 6, 3


@pytest.mark.parametrize("seed", range(cases(15, long=40)))
def test_no_assignment_below_the_limits_has_fewer_routes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cost = rng.integers(1, 12, KEYS).astype(float)
    home = rng.integers(0, CHANNELS, KEYS)
    current = np.where(rng.random(KEYS) < 0.3, rng.integers(0, CHANNELS, KEYS), home)
    request = request_of(
        cost=cost.tolist(), home=home.tolist(), current=current.tolist(), channels=CHANNELS, theta_max=rng.uniform(0, 1)
    )
    task = task_of(request, request.limits.theta_max, KEYS)
    # A key that is too heavy for every channel has its place already.
    placed = ~task.movable
    routes = [
        np.count_nonzero(channel != home)
        for channel in map(np.array, product(range(CHANNELS), repeat=KEYS))
        if np.array_equal(channel[placed], task.start[placed])
        and (np.bincount(channel, weights=cost, minlength=CHANNELS) <= task.high + 1e-9).all()
    ]
    assert not routes or fewest_routes(task) <= min(routes)


def test_a_channel_full_of_keys_at_home_needs_a_route_for_the_heaviest_of_them() -> None:
    request = request_of(cost=[5, 4, 3, 2, 2], home=[0] * 5, channels=2, theta_max=0.0)
    assert fewest_routes(task_of(request, 0.0, 5)) == 2  # of 16, 8 must go: 5 and 4


def test_a_giant_among_many_keys_leaves_a_plan_within_the_table_and_says_for_which_theta() -> None:
    ((_, request, plan),) = steps(Frugal(), Workload(keys=30_000, channels=15, z=1.2), 1, limits=Limits(max_routes=300))
    task = task_of(request, request.limits.theta_max, len(request.stats))
    theta = least_theta(task, task.least_theta(request.limits.theta_max), 10.0, 300)
    assert theta > request.limits.theta_max
    assert len(plan.function.routes) <= 300
    assert plan.after.skewness < plan.before.skewness
    assert plan.after.theta <= 1.05 * theta
    assert any("planned for" in note for note in plan.notes)
