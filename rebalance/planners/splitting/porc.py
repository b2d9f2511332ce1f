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

from rebalance.planners.splitting.spread import Bounded, Spill
from rebalance.planning.model import Floats


@dataclass(frozen=True)
class PoRC(Bounded):
    """The first of the key's bins that has room."""

    name: ClassVar[str] = "porc"

    def spread(self, heavy: Spill) -> Floats:
        """Every heavy key into its bins."""
        from rebalance.planners.splitting import spread_kernel as kernel

        amount = heavy.amounts()
        kernel.fill_bounded(self.channels(heavy), heavy.coming(heavy.home), amount)
        return amount
