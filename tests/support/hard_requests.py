"""Seeded requests that are hard to plan: ties, giants, keys of half a channel, next to no θ_max, full tables, new keys without state."""

from __future__ import annotations

import numpy as np

from rebalance.partition import SLOTS, consistent_ring
from rebalance.planning.model import Floats, KeyStats, Limits, Request

#: How costs may be distributed.
COSTS = ("tenths", "pareto", "zipf", "alike", "giant", "giants", "halves", "few heavy", "steep")


def costs_of(kind: str, keys: int, channels: int, rng: np.random.Generator) -> Floats:
    """Costs of one kind."""
    if kind == "tenths":
        return rng.integers(0, 12, keys) / 10
    if kind == "pareto":
        return rng.pareto(1.1, keys)
    if kind == "zipf":
        return rng.zipf(1.5, keys).astype(float)
    if kind == "alike":
        return np.full(keys, 3.0)
    if kind == "steep":
        return rng.permutation(1.0 / np.arange(1, keys + 1) ** 1.3)
    cost = rng.integers(0, 4, keys).astype(float)
    fair = (cost.sum() + 1) / channels
    heavy = rng.permutation(keys)[: {"giant": 1, "giants": channels // 2, "halves": 2 * channels}.get(kind, channels)]
    least, most = {"giant": (1.1, 3.0), "giants": (0.9, 2.0), "halves": (0.4, 0.6)}.get(kind, (0.1, 1.0))
    cost[heavy] = np.rint(fair * rng.uniform(least, most, len(heavy)) + 1)
    return cost


def hard_request(seed: int, most_keys: int = 200) -> Request:
    """One of them."""
    rng = np.random.default_rng(seed)
    channels = int(rng.choice([2, 3, 4, 5, 8, 10, 16, 40]))
    keys = int(rng.integers(2, most_keys + 1))
    slots = np.sort(rng.choice(SLOTS, keys, replace=False)).astype(np.int32)
    cost = costs_of(COSTS[seed % len(COSTS)], keys, channels, rng)
    ring = consistent_ring(channels, replicas=50)
    current = ring[slots].copy()
    strays = rng.random(keys) < rng.choice([0.0, 0.1, 0.5])
    current[strays] = rng.integers(0, channels, np.count_nonzero(strays))
    state = [cost * 100, rng.integers(0, 50, keys) * 0.1, rng.permutation(cost), rng.pareto(0.8, keys)][
        int(rng.integers(4))
    ]
    state = np.where(rng.random(keys) < rng.choice([0.0, 0.4]), 0.0, state)  # keys that are new
    return Request(
        stats=KeyStats(np.arange(keys), slots, np.ceil(cost), cost, state),
        current=current.astype(np.int32),
        ring=ring,
        capacity=rng.integers(1, 4, channels).astype(float) if rng.random() < 0.2 else np.ones(channels),
        limits=Limits(
            theta_max=float(rng.choice([0.0, 0.01, 0.08, 0.08, 0.3])),
            max_routes=int(rng.choice([keys // 10, keys // 3, 3000, 3000])),
            max_bytes=float(state.sum() * 0.1) if rng.random() < 0.1 else None,
        ),
    )
