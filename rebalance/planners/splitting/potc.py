"""`potc`: the power of two choices, per tuple.

Reference: Mitzenmacher, "The power of two choices in randomized load balancing", IEEE TPDS 12(10), 2001, as the baseline PoTC of Nasir et
al., "Load balancing for skewed streams on heterogeneous cluster". Each tuple, whatever its key, draws two channels and goes to the one with less
load. Balance is near the best, and nearly every key is on every channel.

Departures: see `spread`. A heavy key is cut into eight parts per channel; each draws two channels by hashes of its own and goes to the less loaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rebalance.planners.splitting.spread import MAX_SPLITS, check_max_splits, spill
from rebalance.planning.model import Proposal, Request


@dataclass(frozen=True)
class PoTC:
    """Of two random channels per tuple, the less loaded."""

    name: ClassVar[str] = "potc"
    splits_keys: ClassVar[bool] = True

    #: Most keys that are split.
    max_splits: int = MAX_SPLITS

    def __post_init__(self) -> None:
        check_max_splits(self.max_splits)

    def propose(self, request: Request) -> Proposal:
        """Every heavy key in parts."""
        from rebalance.planners.splitting import spread_kernel as kernel

        heavy = spill(request, self.max_splits)
        load, amount = heavy.load.copy(), heavy.amounts()
        kernel.fill_pairs(load, request.capacity, heavy.cost, heavy.slots, heavy.open, amount)
        return heavy.proposal(amount)
