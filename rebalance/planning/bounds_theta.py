"""How far from fair the fullest and the emptiest channel are at least, whatever the plan. The proofs are in `bounds`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rebalance.planning.exact import TOLERANCE, total
from rebalance.planning.measure import channel_loads
from rebalance.planning.model import Floats, Request

#: A grain below this share of a fair load makes no difference to anybody.
_LEAST_GRAIN = 1e-6
#: So many keys on one channel at most are looked at together.
_DEEP = 8
_MANY = 10_000


@dataclass(frozen=True)
class Reach:
    """No assignment of the keys comes nearer to the fair loads of the open channels."""

    #: θ of the emptiest channel.
    below: float
    #: θ of the fullest channel.
    above: float
    #: Whether cost is pinned to a channel that is to be drained, so that no plan is within any θ.
    closed: bool = False


def reach(request: Request) -> Reach:
    """The largest of some bounds, on either side."""
    cost, is_open = request.stats.cost, request.open
    stuck = ~request.movable
    held = channel_loads(cost[stuck], request.current[stuck], request.channels)
    left = float(cost.sum()) - float(held[~is_open].sum())
    fair = request.fair[is_open]
    if not left > 0:
        return Reach(0.0, 0.0, bool(held[~is_open].any()))
    # Lighter keys than these bound nothing, unless there are hardly any others.
    heaviest = cost[cost > fair.max() / (2 * _DEEP)] if len(cost) > _MANY else cost
    heaviest = -np.sort(-heaviest)[: _DEEP * len(fair) + 1]
    heaviest = heaviest if len(heaviest) else np.zeros(1)
    below, above = _by_grain(cost, left, fair, request.limits.theta_max)
    firsts = heaviest[:: len(fair)]
    above = max(above, float((np.arange(1, len(firsts) + 1) * firsts).max() / fair.max()) - 1.0)
    above = max(above, float((held[is_open] / fair).max()) - 1.0)
    # Channels without one of the j heaviest keys share what is left of the load.
    others = left - np.cumsum(heaviest[: len(fair) - 1])
    smallest = np.cumsum(np.sort(fair))[::-1][1 : len(others) + 1]
    below = max(below, float((1.0 - np.maximum(others, 0.0) / smallest).max(initial=0.0)))
    return Reach(below, above, bool(held[~is_open].any()))


def _by_grain(cost: Floats, left: float, fair: Floats, theta_max: float) -> tuple[float, float]:
    """If all costs are multiples of one number, so are loads: how near to the fair loads such loads can be."""
    grain = _grain(cost, max(theta_max, _LEAST_GRAIN) * float(fair.max()))
    if grain == 0.0:
        return 0.0, 0.0
    slack = total(np.abs(cost - np.rint(cost / grain) * grain))
    if slack > TOLERANCE / 4 * float(fair.min()):
        return 0.0, 0.0
    grains, share = round(left / grain), fair / total(fair)
    low, high = np.ceil(share * grains), np.floor(share * grains)
    for _ in range(int(grains - high.sum())):
        high[np.argmin((high + 1) / fair)] += 1
    for _ in range(int(low.sum() - grains)):
        low[np.argmax((low - 1) / fair)] -= 1
    below, above = 1.0 - ((low * grain + slack) / fair).min(), ((high * grain - slack) / fair).max() - 1.0
    return max(float(below), 0.0), max(float(above), 0.0)


def _grain(cost: Floats, least: float) -> float:
    """The largest number that all costs are multiples of, but for rounding; 0 if that is below `least`: Euclid's algorithm.

    >>> _grain(np.array([0.6, 0.9, 0.0]), 0.1).__round__(9), _grain(np.array([0.6, 0.9, 0.7]), 0.2)
    (0.3, 0.0)
    """
    grain = float(cost.min(initial=np.inf, where=cost > 0))
    costs = cost[cost > 0] if least < grain < np.inf else cost
    while least < grain < np.inf:
        rest = np.abs(costs - np.rint(costs / grain) * grain)
        rest = rest[rest > _LEAST_GRAIN * grain]
        if not len(rest):
            return grain
        grain = float(rest.min())
    return 0.0
