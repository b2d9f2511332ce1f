"""`potc`: the power of two choices, per tuple.

Reference: Mitzenmacher, "The power of two choices in randomized load balancing", IEEE TPDS 12(10), 2001, as the baseline PoTC of Nasir et
al., "Load balancing for skewed streams on heterogeneous cluster". Each tuple, whatever its key, draws two channels and goes to the one with less
load. Balance is near the best, and nearly every key is on every channel.

Departures: see `spread`. A heavy key is cut into eight parts per channel; each draws two channels by hashes of its own and goes to the less loaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rebalance.planners.splitting.spread import Spill, Splitting
from rebalance.planning.model import Floats


@dataclass(frozen=True)
class PoTC(Splitting):
    """Of two random channels per tuple, the less loaded."""

    name: ClassVar[str] = "potc"

    def spread(self, heavy: Spill) -> Floats:
        """Every heavy key in parts."""
        from rebalance.planners.splitting import spread_kernel as kernel

        load, amount = heavy.load.copy(), heavy.amounts()
        kernel.fill_pairs(load, heavy.request.capacity, heavy.coming(heavy.home), heavy.open, amount)
        return amount
