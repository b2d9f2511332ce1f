"""The exact optimum of small planning problems, by looking at every assignment."""

from __future__ import annotations

import numpy as np

from rebalance.compiled import compiled
from rebalance.model import Floats, Ints, Mask, Request


def least_theta_exactly(request: Request) -> float:
    """The smallest max θ(d) of all assignments."""
    return float(_search(*_arguments(request), np.inf, len(request.stats))[0])


def least_migration_exactly(request: Request, theta: float) -> float:
    """The fewest bytes with which any assignment comes within θ and max_routes; infinite if none does."""
    return float(_search(*_arguments(request), theta, request.limits.max_routes)[1])


def _arguments(request: Request) -> tuple[Floats, Floats, Ints, Ints, Mask, Floats]:
    stuck = np.zeros(len(request.stats), dtype=np.bool_) if request.pinned is None else request.pinned.copy()
    stuck &= request.current < request.channels
    return request.stats.cost, request.stats.state, request.current, request.home, stuck, request.fair


@compiled
def _search(  # noqa: C901 - one loop for the compiler
    cost: Floats, state: Floats, current: Ints, home: Ints, stuck: Mask, fair: Floats, theta: float, max_routes: int
) -> tuple[float, float]:
    """The least θ, and the least migration within `theta` and `max_routes`, of all assignments, counted through like a number."""
    keys, channels = len(cost), len(fair)
    rounding = 1e-9 * cost.sum()
    channel = np.where(stuck, current, 0)
    least_theta, least_bytes = np.inf, np.inf
    while True:
        load = np.zeros(channels)
        moved, routes = 0.0, 0
        for k in range(keys):
            load[channel[k]] += cost[k]
            moved += state[k] if channel[k] != current[k] else 0.0
            routes += channel[k] != home[k]
        reached = 0.0
        for d in range(channels):
            off = abs(load[d] - fair[d])
            if off > rounding:
                reached = max(reached, off / fair[d] if fair[d] > 0 else np.inf)
        empty = True
        for k in range(keys):
            if fair[channel[k]] == 0 and not stuck[k]:
                empty = False
        if empty:
            least_theta = min(least_theta, reached)
            if reached <= theta + 1e-9 and routes <= max_routes:
                least_bytes = min(least_bytes, moved)
        k = 0
        while k < keys and (stuck[k] or channel[k] == channels - 1):
            channel[k] = channel[k] if stuck[k] else 0
            k += 1
        if k == keys:
            return least_theta, least_bytes
        channel[k] += 1
