"""Gedik's own measures of an assignment: r_k, b_k, b for balance and m for migration.

Reference: Gedik, "Partitioning functions for stateful data parallelism in stream processing", VLDB Journal 23(4), 2014, equations 9 to
12. They look at all keys, where the penalties of `base` look at the tracked ones only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rebalance.planners.gedik.base import column_of
from rebalance.planning.model import Floats, Ints, KeyStats, Request


class Imbalance(NamedTuple):
    """Of the resources s, c, n in this order; 1 is perfect for r, and at most 1 is within α for b."""

    #: r_k: largest load over smallest load.
    r: tuple[float, float, float]
    #: b_k = r_k / α_k.
    b_k: tuple[float, float, float]
    #: b: geometric mean of the b_k.
    b: float


def imbalance(
    stats: KeyStats, channel: Ints, capacity: Floats, resources: str = "LCL", alphas: Sequence[float] = (1.2, 1.2, 1.2)
) -> Imbalance:
    """How far apart the loads, each over its channel's capacity, are."""
    s, c, n = (load_ratio(resource_loads(stats, channel, len(capacity), resources, k) / capacity) for k in range(3))
    b_k = (s / alphas[0], c / alphas[1], n / alphas[2])
    return Imbalance(r=(s, c, n), b_k=b_k, b=float(np.cbrt(b_k[0] * b_k[1] * b_k[2])))


def resource_loads(stats: KeyStats, channel: Ints, channels: int, resources: str, k: int) -> Floats:
    """L_k(i) = Σ β_k(f) over the keys of channel i, with f in tuples."""
    weight = column_of(stats, resources, k, np.arange(len(stats)))
    return np.bincount(channel, weights=weight, minlength=channels).astype(np.float64)


def load_ratio(loads: Floats) -> float:
    """r = max / min; infinite if a channel has nothing while another has something.

    >>> round(load_ratio(np.array([39.0, 35.0])), 2)
    1.11
    """
    most, least = float(loads.max()), float(loads.min())
    if most == 0.0:
        return 1.0
    return most / least if least > 0.0 else float("inf")


def migration(request: Request, channel: Ints) -> float:
    """m: state that moves over a channel's fair share of it; 1 is what a consistent hash pays for one more channel."""
    state = request.stats.state
    share = float(state.sum()) / int(np.count_nonzero(request.open))
    return float(state[channel != request.current].sum()) / share if share > 0.0 else 0.0
