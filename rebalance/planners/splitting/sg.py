"""`sg`: shuffle grouping, every heavy key over all channels.

Reference: the baseline of Nasir et al., "Load balancing for skewed streams on heterogeneous cluster" (Consistent Grouping) and of every
paper on key splitting. Tuples are dealt out in turn, whatever their key: the best balance there is and the largest memory footprint, for
every key is on every channel. It is no keyed partitioning at all, a yardstick.

Departures: see `spread`; only the `max_splits` costliest keys are dealt out, in proportion to the capacities.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rebalance.planners.splitting.spread import Spill, Splitting
from rebalance.planning.model import Floats


@dataclass(frozen=True)
class SG(Splitting):
    """Round robin."""

    name: ClassVar[str] = "sg"

    def spread(self, heavy: Spill) -> Floats:
        """Every heavy key everywhere."""
        capacity = heavy.request.open_capacity
        return np.outer(heavy.cost, capacity / capacity.sum())
