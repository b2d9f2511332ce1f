"""The exact optimum of small planning problems, by looking at every assignment, but for those that a look at their first keys rules out.

The keys are given out one after the other, the heaviest first. A branch is left when it cannot become better than what was found: a channel is
over its limit already, the keys left do not suffice to fill the channels that are too low, or it moves as much or takes as many routes.
That rules out no assignment that counts: what is left is the optimum of all N^K.
"""

from __future__ import annotations

import numpy as np

from rebalance.compiled import compiled
from rebalance.planning.exact import TOLERANCE
from rebalance.planning.model import Floats, Indices, Ints, Mask, Request


def least_theta_exactly(request: Request) -> float:
    """The smallest max θ(d) of all assignments."""
    cost, _, current, _, stuck, fair = _arguments(request)
    return float(_least_theta(cost, current, stuck, fair))


def least_migration_exactly(request: Request, theta: float) -> float:
    """The fewest bytes with which any assignment comes within θ and max_routes; infinite if none does."""
    return float(_least_bytes(*_arguments(request), theta, request.limits.max_routes))


def least_migration_of_all(request: Request, theta: float) -> float:
    """The same without leaving anything out: for checking the branches above, on very few keys."""
    cost, state, current, home, stuck, fair = _arguments(request)
    keys, channels = len(cost), len(fair)
    least = np.inf
    for number in range(channels**keys):
        channel = np.array([number // channels**k % channels for k in range(keys)])
        load = np.bincount(channel, weights=cost, minlength=channels)
        if (stuck & (channel != current)).any() or (~stuck & (fair[channel] == 0)).any():
            continue
        off = np.abs(load - fair)
        within = (off <= theta * fair + _slack(cost)).all()
        if within and np.count_nonzero(channel != home) <= request.limits.max_routes:
            least = min(least, float(state[channel != current].sum()))
    return least


def _slack(cost: Floats) -> float:
    """Loads nearer than this are the same."""
    return float(TOLERANCE * cost.sum())


def _arguments(request: Request) -> tuple[Floats, Floats, Ints, Ints, Mask, Floats]:
    """The columns of the problem, keys in descending cost."""
    stuck = np.zeros(len(request.stats), dtype=np.bool_) if request.pinned is None else request.pinned.copy()
    stuck &= request.current < request.channels
    order = np.argsort(-request.stats.cost, kind="stable")
    columns = (request.stats.cost, request.stats.state, request.current, request.home, stuck)
    cost, state, current, home, stuck = (column[order] for column in columns)
    return cost, state, current, home, stuck, request.fair


@compiled
def _ways(k: int, d: int, current: Ints, stuck: Mask, fair: Floats) -> bool:
    """Whether key k may be on channel d."""
    return bool(d == current[k] if stuck[k] else fair[d] > 0.0)


@compiled
def _next_channel(k: int, channel: Indices, load: Floats, cost: Floats) -> bool:
    """Put key k on the channel after the one it is on; False, and on none, if there is no other."""
    if channel[k] >= 0:
        load[channel[k]] -= cost[k]
    channel[k] += 1
    if channel[k] == len(load):
        channel[k] = -1
        return False
    load[channel[k]] += cost[k]
    return True


@compiled
def _least_theta(cost: Floats, current: Ints, stuck: Mask, fair: Floats) -> float:
    """The least max θ(d): a branch is left once a channel alone is as far over, or what is left cannot fill the others better."""
    keys, channels = len(cost), len(fair)
    slack = TOLERANCE * cost.sum()
    left = np.append(np.cumsum(cost[::-1])[::-1], 0.0)
    load, channel = np.zeros(channels), np.full(keys, -1)
    best, k = np.inf, 0
    while k >= 0:
        if k == keys:
            best = min(best, _theta(load, fair, slack))
            k -= 1
            continue
        if not _next_channel(k, channel, load, cost):
            k -= 1
            continue
        if _ways(k, channel[k], current, stuck, fair) and _hopeful(load, fair, left[k + 1], best, slack):
            k += 1
    return best


@compiled
def _theta(load: Floats, fair: Floats, slack: float) -> float:
    """max θ(d)."""
    reached = 0.0
    for d in range(len(fair)):
        off = abs(load[d] - fair[d])
        if off > slack:
            reached = max(reached, off / fair[d] if fair[d] > 0 else np.inf)
    return reached


@compiled
def _hopeful(load: Floats, fair: Floats, left: float, theta: float, slack: float) -> bool:
    """Whether the channels may still come within θ with so much cost left to give out."""
    if theta == np.inf:
        return True
    lacking = 0.0
    for d in range(len(fair)):
        if load[d] > (1.0 + theta) * fair[d] + slack:
            return False
        lacking += max((1.0 - theta) * fair[d] - load[d], 0.0)
    return bool(lacking <= left + len(fair) * slack)


@compiled
def _least_bytes(
    cost: Floats, state: Floats, current: Ints, home: Ints, stuck: Mask, fair: Floats, theta: float, max_routes: int
) -> float:
    """The least migration within θ and max_routes."""
    keys, channels = len(cost), len(fair)
    slack = TOLERANCE * cost.sum()
    left = np.append(np.cumsum(cost[::-1])[::-1], 0.0)
    load, channel = np.zeros(channels), np.full(keys, -1)
    moved, routes = np.zeros(keys + 1), np.zeros(keys + 1, dtype=np.int64)
    best, k = np.inf, 0
    while k >= 0:
        if k == keys:
            best = min(best, moved[k])
            k -= 1
            continue
        if not _next_channel(k, channel, load, cost):
            k -= 1
            continue
        d = channel[k]
        moved[k + 1] = moved[k] + (state[k] if d != current[k] else 0.0)
        routes[k + 1] = routes[k] + int(d != home[k])
        if moved[k + 1] >= best or routes[k + 1] > max_routes or not _ways(k, d, current, stuck, fair):
            continue
        if _hopeful(load, fair, left[k + 1], theta, slack):
            k += 1
    return best
