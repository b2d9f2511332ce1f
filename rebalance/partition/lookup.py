"""The channels of many slots at once, at about the speed of memory.

numpy widens 32-bit indices to 64 bits and checks each; from a million slots on that is most of the time, and a compiled loop does without.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: Below this many slots numpy takes milliseconds, and the compiler is not worth waiting for.
_MANY = 1 << 20


def channels_at(ring: NDArray[np.int32], slots: NDArray[np.int32]) -> NDArray[np.int32]:
    """The channel of each slot, `ring[slots]`.

    >>> channels_at(np.arange(65536, dtype=np.int32) % 3, np.array([0, 4, 8], dtype=np.int32))
    array([0, 1, 2], dtype=int32)
    """
    if len(slots) < _MANY:
        return ring[slots]
    from rebalance.partition.lookup_kernel import gather

    channels = np.empty(len(slots), dtype=np.int32)
    gather(ring.astype(np.uint8) if ring.max() < 256 else ring, slots, channels)
    return channels
