"""`porc`: the power of random choices.

Reference: Nasir et al., "Load balancing for skewed streams on heterogeneous cluster", the scheme inside Consistent Grouping. A tuple goes
to the bin of hash(key + salt), salt = 1, 2, …, the first with load < (1 + ε) · (tuples so far) / n. The first bin is the
key's principal one: only what does not fit there spills, to the second, and so on.

Guarantees, where every key may spill (max_splits ≥ K): L(d) ≤ (1 + ε) · fair(d), so I ≤ ε · mean; a key with share p of the load
has at least ⌈p · N / (1 + ε)⌉ channels. Otherwise no channel ends above the larger of (1 + ε) · fair(d) and its light keys.

Departures: see `spread`. After 8 N salts the channels are tried in their order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rebalance.planners.splitting.spread import MAX_SPLITS, check_epsilon, check_max_splits, spill
from rebalance.planning.model import Proposal, Request


@dataclass(frozen=True)
class PoRC:
    """The first of the key's bins that has room."""

    name: ClassVar[str] = "porc"
    splits_keys: ClassVar[bool] = True

    #: ε: by how much a load may exceed the fair one; 0.01 = 1 %.
    epsilon: float = 0.01
    #: Most keys that may spill.
    max_splits: int = MAX_SPLITS

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_max_splits(self.max_splits)

    def propose(self, request: Request) -> Proposal:
        """Every heavy key into its bins."""
        from rebalance.planners.splitting import spread_kernel as kernel

        heavy = spill(request, self.max_splits).costliest_last()
        load, amount, bound = heavy.load.copy(), heavy.amounts(), (1 + self.epsilon) * request.fair
        owner = np.arange(request.channels, dtype=np.int32)
        kernel.fill_bounded(load, bound, heavy.cost, heavy.slots, heavy.home, heavy.open, owner, amount)
        return heavy.proposal(amount)
