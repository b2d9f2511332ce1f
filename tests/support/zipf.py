"""Keys with Zipf frequencies, and requests on them."""

from __future__ import annotations

from typing import Any

import numpy as np

from rebalance.partition import SLOTS, consistent_ring
from rebalance.planning.model import Ints, KeyStats, Request


def zipf_stats(keys: int, z: float = 1.0, seed: int = 1) -> KeyStats:
    """Keys with Zipf frequencies, in no order."""
    rng = np.random.default_rng(seed)
    tuples = rng.permutation(np.rint(1e8 * np.arange(1.0, keys + 1) ** -z))
    return KeyStats(np.arange(keys), rng.integers(0, SLOTS, keys).astype(np.int32), tuples, tuples, tuples)


def grown(stats: KeyStats, current: Ints, channels: int, **more: Any) -> Request:
    """A request on a ring of so many channels."""
    return Request(stats, current, consistent_ring(channels), np.ones(channels), **more)
