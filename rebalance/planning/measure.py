"""Loads, imbalance and migration of an assignment, measured alike for every planner."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil

import numpy as np

from rebalance.partition import Share
from rebalance.planning.exact import TOLERANCE, total
from rebalance.planning.model import Floats, Ints, Mask, Measure, Request

#: Utilisation that counts as normal: between the thresholds of Consistent Grouping, 0.75 and 0.85.
MEAN_UTILISATION = 0.8


def channel_loads(
    cost: Floats, channel: Ints, channels: int, splits: Mapping[int, tuple[Share, ...]] | None = None
) -> Floats:
    """L(d) = Σ cost of the keys on d; a split key counts its share on each of its channels."""
    loads = np.bincount(channel, weights=cost, minlength=channels).astype(np.float64)
    for key, shares in (splits or {}).items():
        loads[channel[key]] -= cost[key]
        for share in shares:
            loads[share.channel] += cost[key] * share.share
    return loads


def thetas(loads: Floats, fair: Floats) -> Floats:
    """θ(d) = |L(d) - fair(d)| / fair(d); a channel whose fair load is 0 is at 0 when empty and infinitely off when not."""
    off = np.abs(loads - fair)
    # What shares of split keys and fair loads are off by from rounding is not load.
    off[off <= TOLERANCE * max(total(fair), total(loads))] = 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(off == 0.0, 0.0, off / fair)


def skew(tuples: Floats) -> float:
    """S = (W - U) / (M - U) of the tuples per channel: W the most, M all of them, U = ⌈M/R⌉. 0 is none, 1 is all on one channel.

    >>> skew(np.array([62, 20, 10, 8])), skew(np.array([100, 0, 0, 0])), skew(np.array([1, 0]))
    (0.49333333333333335, 1.0, 0.0)
    """
    everything = float(tuples.sum())
    ideal = ceil(everything / len(tuples))
    return max(float(tuples.max()) - ideal, 0.0) / (everything - ideal) if everything > ideal else 0.0


def measure(
    request: Request,
    channel: Ints,
    *,
    home: Ints | None = None,
    splits: Mapping[int, tuple[Share, ...]] | None = None,
) -> Measure:
    """All metrics of placing the request's keys on `channel`, with `home` the ring's own answer.

    Keys still on a channel beyond N (it vanished) count there: the assignment is not balanced before they have left.
    """
    home = request.home if home is None else home
    parts = [share.channel for shares in (splits or {}).values() for share in shares]
    channels = max(request.channels, int(channel.max(initial=0)) + 1, max(parts, default=0) + 1)
    loads = channel_loads(request.stats.cost, channel, channels, splits)
    fair = np.zeros(channels)
    fair[: request.channels] = request.fair
    theta = thetas(loads, fair)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(loads > 0, loads / fair, 0.0)
        used = request.open
        utilisation = loads[: request.channels][used] / request.open_capacity[used]
    routed = channel != home
    routed[list(splits or ())] = False
    return Measure(
        loads=loads,
        fair=fair,
        theta=float(theta.max(initial=0.0)),
        skewness=float(ratio.max(initial=0.0)) if loads.sum() > 0 else 1.0,
        imbalance=float(utilisation.max()) - total(utilisation) / len(utilisation),
        routes=int(np.count_nonzero(routed)),
        splits=len(splits or {}),
        key_copies=_keys_with_anything(request) + len(parts) - len(splits or {}),
    )


def _keys_with_anything(request: Request) -> int:
    """How many keys had tuples or hold state; those of the rest all have."""
    found = np.count_nonzero((request.stats.tuples + request.stats.state)[: request.named])
    return int(found) + request.keys_in_all - request.named


def relative_utilisation(busy: Floats, used: Mask) -> Floats | None:
    """U(d) from the loads of the channels, in any unit, where no time was measured; None if there is no load.

    What a channel can take is not known then, only how they compare: the mean of those in use becomes `MEAN_UTILISATION`.

    >>> relative_utilisation(np.array([3.0, 1.0, 0.0]), np.array([True, True, False]))
    array([1.2, 0.4, 0. ])
    """
    mean = total(busy[used]) / max(len(busy[used]), 1)
    return busy / mean * MEAN_UTILISATION if mean > 0 else None
