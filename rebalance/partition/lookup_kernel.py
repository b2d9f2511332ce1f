"""The lookup of slots as machine code."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rebalance.compiled import compiled


@compiled
def gather(ring: NDArray[Any], slots: NDArray[np.int32], channels: NDArray[np.int32]) -> None:
    """channels[i] = ring[slots[i]]; `ring` has 2^16 slots, so the last 16 bits of a number always are one and nothing need be checked."""
    for i in range(len(slots)):
        channels[i] = ring[slots[i] & 0xFFFF]
