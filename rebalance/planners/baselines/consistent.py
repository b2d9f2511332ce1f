"""`consistent`: the baseline that is the ring alone, without an explicit table.

Reference: Karger et al., "Consistent hashing and random trees", STOC 1997; the baseline of Gedik, "Partitioning functions for
stateful data parallelism in stream processing", VLDB Journal 23(4), 2014.

Every key goes to h(k); routes are dropped. Each channel gets about 1/N of the keys, not of the load. A new channel takes its
share from the others and nothing else moves. Pinned keys stay and are the only routes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rebalance.partition import consistent_ring
from rebalance.planning.model import Ints, Proposal, Request


@dataclass(frozen=True)
class Consistent:
    """Every key at home."""

    name: ClassVar[str] = "consistent"
    splits_keys: ClassVar[bool] = False

    def propose(self, request: Request) -> Proposal:
        """The ring's answer for each key."""
        return hashed(request, open_ring(request))


def hashed(request: Request, ring: Ints) -> Proposal:
    """Every key where `ring` sends it, pinned keys where they are."""
    return Proposal(
        channel=np.where(request.movable, ring[request.stats.slots], request.current).astype(np.int32),
        ring=None if ring is request.ring else ring,
    )


def open_ring(request: Request) -> Ints:
    """h_new: the request's ring, or a new one if that still sends keys to excluded channels."""
    if request.open[request.ring].all():
        return request.ring
    return consistent_ring(request.channels, excluded=set(np.flatnonzero(~request.open).tolist()))
