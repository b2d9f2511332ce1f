"""What it costs to seat the keys of which no channel holds two. The proof is in `bounds`, bound 6."""

from __future__ import annotations

import numpy as np

from rebalance.planning.bounds_excess import Curve, curves
from rebalance.planning.exact import total
from rebalance.planning.model import Floats, Ints, Mask


def seat_bound(
    cost: Floats, state: Floats, channel: Ints, movable: Mask, load: Floats, high: Floats, rounding: float
) -> float:
    """The least state that moves so that each such key is within the limits of a channel, with little enough besides."""
    large = cost > high.max() / 2 + rounding
    keys = np.flatnonzero(large)
    if not len(keys):
        return 0.0
    channels = len(load)
    others = load - np.bincount(channel[keys], weights=cost[keys], minlength=channels)
    lying = curves(cost, state, channel, movable & ~large, np.arange(channels))
    light = {d: curve.sums()[0][-1] for d, curve in lying.items()}
    base = np.array([_shed(lying[d], min(others[d] - high[d] - rounding, light[d])) for d in range(channels)])
    stay = np.full(len(keys), np.inf)
    move = np.full(len(keys), np.inf)
    for i, k in enumerate(keys.tolist()):
        for t in np.flatnonzero(high + rounding >= cost[k]).tolist():
            paid = _shed(lying[t], others[t] + cost[k] - high[t] - rounding) - base[t]
            if t == channel[k]:
                stay[i] = paid
            elif movable[k]:
                move[i] = min(move[i], state[k] + paid)
    return total(base) + sum(_seated(stay[channel[keys] == d], move[channel[keys] == d]) for d in range(channels))


def _shed(curve: Curve, amount: float) -> float:
    """G of an amount that may be negative."""
    return float(curve.price_of(np.array(max(amount, 0.0))))


def _seated(stay: Floats, move: Floats) -> float:
    """The least price for the keys of one channel, of which one may stay; 0 if none of this is to be had, for then there is no such plan."""
    if not np.isfinite(move).all():
        # One that cannot move has to stay; with two of them nothing is left to say.
        fixed = ~np.isfinite(move)
        return (
            float(stay[fixed].sum() + move[~fixed].sum())
            if fixed.sum() == 1 and np.isfinite(stay[fixed]).all()
            else 0.0
        )
    return total(move) - float(np.maximum(move - stay, 0.0).max(initial=0.0))
