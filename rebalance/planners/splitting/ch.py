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

from rebalance.planners.splitting.spread import Bounded, Spill
from rebalance.planning.model import Floats


@dataclass(frozen=True)
class CH(Bounded):
    """The first channel clockwise that has room."""

    name: ClassVar[str] = "ch"

    def spread(self, heavy: Spill) -> Floats:
        """Every heavy key from its home on."""
        from rebalance.planners.splitting import spread_kernel as kernel

        amount = heavy.amounts()
        kernel.fill_clockwise(self.channels(heavy), heavy.coming(heavy.home), heavy.ring, amount)
        return amount
