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

from rebalance.planners.splitting.spread import Spill, Splitting, least_loaded
from rebalance.planning.model import Floats


@dataclass(frozen=True)
class PKG(Splitting):
    """Of two hashes of the key, the channel with less load."""

    name: ClassVar[str] = "pkg"

    def spread(self, heavy: Spill) -> Floats:
        """Every heavy key on two channels."""
        return least_loaded(heavy, np.full(len(heavy.keys), 2, dtype=np.int32))
