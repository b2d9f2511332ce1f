"""Gedik's own measures of an assignment: r_k, b_k, b for balance and m for migration.

Reference: Gedik, "Partitioning functions for stateful data parallelism in stream processing", VLDB Journal 23(4), 2014, equations 9 to
13. They look at all keys, where the penalties of `base` look at the tracked ones only. Ours: loads are divided by the channel's capacity,
and channels that are closed, with the keys on them, do not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod, sqrt
from typing import NamedTuple

import numpy as np

from rebalance.planning.exact import on_grid, total
from rebalance.planning.model import Floats, Indices, Ints, KeyStats, Request


class Imbalance(NamedTuple):
    """Of the resources s, c, n in this order; 1 is perfect for r, and at most 1 is within α for b."""

    #: r_k: largest load over smallest load.
    r: tuple[float, float, float]
    #: b_k = r_k / α_k.
    b_k: tuple[float, float, float]
    #: Largest over mean load of each: ours, where channels are empty and r is infinite.
    fullest: tuple[float, float, float]

    @property
    def b(self) -> float:
        """b: geometric mean of the b_k, equation 11."""
        return _geometric_mean(self.b_k)

    def of(self, resources: Sequence[int]) -> tuple[float, float]:
        """b of these resources alone, and the same of the largest over the mean loads."""
        b_k, fullest = ([values[k] for k in resources] for values in (self.b_k, self.fullest))
        return _geometric_mean(b_k), _geometric_mean(fullest)

    def objective(self, m: float) -> float:
        """b · (1 + m), equation 13."""
        return self.b * (1.0 + m)


def imbalance(
    request: Request, channel: Ints, resources: str = "LCL", alphas: Sequence[float] = (1.2, 1.2, 1.2)
) -> Imbalance:
    """How far apart the loads, each over its channel's capacity, are."""
    loads = [resource_loads(request, channel, resources, k) / request.capacity[request.open] for k in range(3)]
    s, c, n = (load_ratio(load) for load in loads)
    b_k = (s / alphas[0], c / alphas[1], n / alphas[2])
    x, y, z = (float(load.max()) / (total(load) / len(load)) if load.max() > 0.0 else 1.0 for load in loads)
    return Imbalance((s, c, n), b_k, (x, y, z))


def _geometric_mean(values: Sequence[float]) -> float:
    product = prod(values)
    return {1: product, 2: sqrt(product), 3: float(np.cbrt(product))}[len(values)]


def resource_loads(
    request: Request, channel: Ints, resources: str, k: int, keys: Indices | slice = slice(None)
) -> Floats:
    """L_k(i) = Σ β_k(f) over the keys (all unless given) of each open channel i, with f in tuples."""
    weight = on_grid(column_of(request.stats, resources, k, np.arange(len(request.stats))[keys]))
    channel = channel[keys]
    number = max(request.channels, int(channel.max(initial=0)) + 1)
    return np.bincount(channel, weights=weight, minlength=number)[: request.channels][request.open].astype(np.float64)


def load_ratio(loads: Floats) -> float:
    """r = max / min; infinite if a channel has nothing while another has something.

    >>> round(load_ratio(np.array([39.0, 35.0])), 2)
    1.11
    """
    most, least = float(loads.max()), float(loads.min())
    if most == 0.0:
        return 1.0
    return most / least if least > 0.0 else float("inf")


def migration(request: Request, channel: Ints, resources: str = "LCL") -> float:
    """m: Σ β_s(f) of what moves over a channel's share of all of it, equations 9, 10 and 12; 1 is what a consistent hash pays for one more channel."""
    state = on_grid(column_of(request.stats, resources, 0, np.arange(len(request.stats))))
    share = float(state.sum()) / int(np.count_nonzero(request.open))
    return float(state[channel != request.current].sum()) / share if share > 0.0 else 0.0


def column_of(stats: KeyStats, resources: str, k: int, keys: Indices) -> Floats:
    """β_k of some keys, with f in tuples."""
    if resources[k] == "C":
        return np.ones(len(keys))
    if resources[k] == "M":
        return (stats.state, stats.cost)[k][keys]
    return stats.tuples[keys] if resources[k] == "L" else stats.tuples[keys] ** 2
