"""LLFD, least load first decreasing: phases II and III of MinTable, MinMig, Mixed and MixedBF; by itself, without cleaning.

Reference: Fang, Zhang, Fu, Wang, Zhou, "Parallel stream processing against workload skewness and variance", sections III and IV.

Steps, with L_max(d) = (1 + θ_max) · fair(d):

- Phase II, preparing: each channel above L_max gives up keys in the order ψ until it is not; they are the candidates C.
- Phase III, assigning: the costliest candidate k asks the channels by ascending L(d)/cap(d). d accepts if L(d) + c(k) ≤ L_max(d), or if
  keys on it that are strictly cheaper than k, taken in the order ψ, can be pushed out (into C) until that holds. If every
  channel refuses, k goes where (L(d) + c(k)) / fair(d) is least.
- On compact records a candidate is # alike keys and as many as fit are placed at a time, also by exchange; a record of which
  only a part has to leave is split.

Guarantees: ends (an exchanged key is strictly cheaper than the one that pushed it out); θ(d) ≤ (1/3)(1 - 1/N) if a perfectly
balanced assignment exists and every c(k) is below the mean load (theorem 1); deterministic, ties go to the smaller key and
the smaller channel.

Time: O(K + E log K + |C|·(log |C| + N)) for K records of which E are exchanged or seen to be too heavy for it; memory: about six
arrays of their number.

Departures: ≤ where the paper's listing has <, as in its text and example; loads are compared relative to capacity; pinned keys
are never candidates nor exchanged; keys of an excluded channel are candidates whatever its load; a load that is above L_max by
less than the tolerance (`planning.exact`) is at it; a key without cost never leaves an open channel, for it would only travel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rebalance.planners.fang.base import Fang
from rebalance.planners.fang.records import Placement, Records
from rebalance.planning.measure import channel_loads
from rebalance.planning.model import Floats


@dataclass(frozen=True)
class LLFD(Fang):
    """No cleaning, ψ = largest c first."""

    name: ClassVar[str] = "llfd"

    def plan(self, records: Records) -> tuple[Placement, tuple[str, ...]]:
        """Phases II and III, from where the keys are."""
        placement = place(records, records.cost)
        return placement, placement.notes()


def place(records: Records, psi: Floats) -> Placement:
    """Phases II and III from where the records are planned; `psi` orders the keys that leave, largest first."""
    from rebalance.planners.fang import llfd_kernel as kernel
    from rebalance.planning.sorting_kernel import group, lazily_sorted

    cost, capacity = records.cost, records.capacity
    draining = records.draining()
    waiting = np.where(draining, records.count, 0).astype(np.int32)
    stay = records.count - waiting
    residents, starts = group(records.planned, records.movable & ~draining & (cost > 0), len(capacity))
    placing = kernel.Placing(
        cost=cost,
        psi=psi,
        stay=stay,
        waiting=waiting,
        load=channel_loads(cost * stay, records.planned, len(capacity)),
        limit=records.limit,
        capacity=capacity,
        cheaper=np.zeros(len(capacity)),
        by_cost=lazily_sorted(np.empty_like(residents), starts[:-1], starts[1:]),
        by_psi=lazily_sorted(residents, starts[:-1], starts[1:]),
        returned=np.empty(len(residents), dtype=np.int32),
        sizes=np.zeros(2, dtype=np.int64),
    )
    kernel.prepare(placing)
    candidates = np.flatnonzero(waiting).astype(np.int32)
    candidates = candidates[np.argsort(-cost[candidates], kind="stable")]
    open_channels = np.flatnonzero(capacity > 0).astype(np.int32)
    ranked = open_channels[np.argsort(placing.load[open_channels] / capacity[open_channels], kind="stable")]
    placed, refused = kernel.place(placing, candidates, ranked, np.empty(3 * (len(candidates) + 16), dtype=np.int32))
    return Placement(records, stay, placed.reshape(-1, 3)[: placing.sizes[kernel.PLACED]], refused)
