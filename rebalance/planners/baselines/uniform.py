"""`uniform`: the baseline hash mod N, which moves nearly everything when N changes.

Reference: the uniform hash of Gedik, "Partitioning functions for stateful data parallelism in stream processing", VLDB Journal
23(4), 2014.

The ring's slots are dealt out in turn, slot mod N, over the open channels. Each gets 1/N of the keys more evenly than from a
ring, but N → N + 1 moves the share N/(N+1) of them. Pinned keys stay and are the only routes.

Departure: the slot, the upper 16 bits of the hash, is taken mod N, not the whole hash, because a function stores a slot table. No
channel owns more than one slot of 65,536 more than another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rebalance.partition import SLOTS
from rebalance.planners.baselines.consistent import hashed
from rebalance.planning.model import Ints, Proposal, Request


@dataclass(frozen=True)
class Uniform:
    """slot mod N."""

    name: ClassVar[str] = "uniform"
    splits_keys: ClassVar[bool] = False

    def propose(self, request: Request) -> Proposal:
        """Every key at its slot's channel."""
        return hashed(request, uniform_ring(np.flatnonzero(request.open).astype(np.int32)))


def uniform_ring(channels: Ints) -> Ints:
    """The slot table that deals the slots out to the channels in turn.

    >>> uniform_ring(np.array([0, 2, 3], dtype=np.int32))[:5]
    array([0, 2, 3, 0, 2], dtype=int32)
    """
    return channels[np.arange(SLOTS) % len(channels)]
