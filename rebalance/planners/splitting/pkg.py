"""`pkg`: partial key grouping, the power of both choices.

Reference: Nasir et al., "The power of both choices: practical load balancing for distributed stream processing engines", ICDE 2015.
A key has two channels, by two hashes; each of its tuples goes to the one with less load so far. At most two channels per key, so a key
with more than 2/N of the load overloads both: imbalance grows with N.

Departures: see `spread`. The first hash is the ring, so a key that does not spill is at home.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rebalance.planners.splitting.spread import MAX_SPLITS, Spill, check_max_splits, spill
from rebalance.planning.model import Ints, Proposal, Request


@dataclass(frozen=True)
class PKG:
    """Of two hashes of the key, the channel with less load."""

    name: ClassVar[str] = "pkg"
    splits_keys: ClassVar[bool] = True

    #: Most keys that may have two channels.
    max_splits: int = MAX_SPLITS

    def __post_init__(self) -> None:
        check_max_splits(self.max_splits)

    def propose(self, request: Request) -> Proposal:
        """Every heavy key on two channels."""
        heavy = spill(request, self.max_splits)
        return with_choices(heavy, np.full(len(heavy.keys), 2, dtype=np.int32))


def with_choices(heavy: Spill, choices: Ints) -> Proposal:
    """Each heavy key to the least loaded of so many channels."""
    from rebalance.planners.splitting import spread_kernel as kernel

    load, amount = heavy.load.copy(), heavy.amounts()
    weight = heavy.request.capacity
    kernel.fill_least(load, weight, heavy.cost, heavy.slots, heavy.home, choices, heavy.open, amount)
    return heavy.proposal(amount)
