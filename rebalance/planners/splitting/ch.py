"""`ch`: consistent hashing with bounded loads.

Reference: Mirrokni, Thorup, Zadimoghaddam, "Consistent hashing with bounded loads", SODA 2018, as the baseline CH of Nasir et al., "Load
balancing for skewed streams on heterogeneous cluster". A tuple goes to the first channel clockwise from its key with load < (1 + ε) · mean.

Guarantees: as `porc`. Unlike there, what does not fit runs on to the neighbours on the ring, so a full channel fills the next one and light
keys follow the heavy ones around: more keys are displaced.

Departures: see `spread`. Clockwise is by the slot table; after one lap the channels that own no slot are tried in their order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rebalance.planners.splitting.spread import MAX_SPLITS, check_epsilon, check_max_splits, spill
from rebalance.planning.model import Proposal, Request


@dataclass(frozen=True)
class CH:
    """The first channel clockwise that has room."""

    name: ClassVar[str] = "ch"
    splits_keys: ClassVar[bool] = True

    #: ε: by how much a load may exceed the fair one; 0.01 = 1 %.
    epsilon: float = 0.01
    #: Most keys that may run over.
    max_splits: int = MAX_SPLITS

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_max_splits(self.max_splits)

    def propose(self, request: Request) -> Proposal:
        """Every heavy key from its home on."""
        from rebalance.planners.splitting import spread_kernel as kernel

        heavy = spill(request, self.max_splits).costliest_last()
        ring = request.ring if heavy.hashed.ring is None else heavy.hashed.ring
        load, amount, bound = heavy.load.copy(), heavy.amounts(), (1 + self.epsilon) * request.fair
        owner = np.arange(request.channels, dtype=np.int32)
        kernel.fill_clockwise(load, bound, heavy.cost, heavy.slots, ring, heavy.open, owner, amount)
        return heavy.proposal(amount)
