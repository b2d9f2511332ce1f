"""A salted hash that costs a few nanoseconds: the finaliser of SplitMix64 over a key's hash and a salt.

Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators". The key's own hash is made once, outside the loop; here it only has
to give another, independent-looking bin for each salt.
"""

from __future__ import annotations

import numpy as np

from rebalance.compiled import compiled

#: 2^64 over the golden ratio: the step from one salt to the next.
_STEP = np.uint64(0x9E3779B97F4A7C15)
_C1 = np.uint64(0xBF58476D1CE4E5B9)
_C2 = np.uint64(0x94D049BB133111EB)


@compiled
def mix(key: np.uint64, salt: np.uint64) -> np.uint64:
    """64 bits from a key's hash and a salt."""
    x = np.uint64(key + salt * _STEP)
    x = (x ^ (x >> np.uint64(30))) * _C1
    x = (x ^ (x >> np.uint64(27))) * _C2
    return x ^ (x >> np.uint64(31))


@compiled
def bin_of(key: np.uint64, salt: int, bins: int) -> int:
    """H(key + salt) in 0..bins-1, from the upper 32 bits: a multiplication where a remainder would cost a division."""
    return int(np.int64(((mix(key, np.uint64(salt)) >> np.uint64(32)) * np.uint64(bins)) >> np.uint64(32)))


@compiled
def two_bins(key: np.uint64, bins: int) -> tuple[int, int]:
    """Two independent bins from one hash, its upper and its lower half."""
    x = mix(key, np.uint64(0))
    first = ((x >> np.uint64(32)) * np.uint64(bins)) >> np.uint64(32)
    second = ((x & np.uint64(0xFFFFFFFF)) * np.uint64(bins)) >> np.uint64(32)
    return int(np.int64(first)), int(np.int64(second))
