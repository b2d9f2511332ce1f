"""Spark's `hash()` in Python, bit for bit. The only module that calls mmh3.

Spark computes MurmurHash3_x86_32 with seed 42. For 8-byte integers that is the canonical function. For strings it differs
from the canonical one in the last 0 to 3 bytes only: canonical Murmur3 packs them into one word, Spark mixes each as a
signed 32-bit word of its own. So the aligned prefix is hashed by mmh3, the finaliser is undone (it is invertible), the tail
mixed Spark's way, and the finaliser applied with the full length.
"""

from __future__ import annotations

from collections.abc import Iterable

import mmh3
import numpy as np
from numpy.typing import NDArray

#: Spark's seed for `hash()`.
SEED = 42
_MASK = 0xFFFFFFFF
_INVERSE_C1 = 0xA5CB9243  # of 0x85EBCA6B modulo 2^32
_INVERSE_C2 = 0x7ED1B41D  # of 0xC2B2AE35 modulo 2^32


def _finalise(h: int) -> int:
    h ^= h >> 16
    h = (h * 0x85EBCA6B) & _MASK
    h ^= h >> 13
    h = (h * 0xC2B2AE35) & _MASK
    return h ^ (h >> 16)


def _undo_finalise(h: int) -> int:
    h ^= h >> 16
    h = (h * _INVERSE_C2) & _MASK
    h ^= (h >> 13) ^ (h >> 26)
    h = (h * _INVERSE_C1) & _MASK
    return h ^ (h >> 16)


def _mix(h: int, word: int) -> int:
    word = (word * 0xCC9E2D51) & _MASK
    word = ((word << 15) | (word >> 17)) & _MASK
    h ^= (word * 0x1B873593) & _MASK
    h = ((h << 13) | (h >> 19)) & _MASK
    return (h * 5 + 0xE6546B64) & _MASK


def hash_bytes(data: bytes, seed: int = SEED) -> int:
    """Spark's `hash(string)` of these UTF-8 bytes, as an unsigned 32-bit number.

    >>> hash_bytes(b"Spark")
    228093765
    """
    aligned = len(data) & ~3
    h = mmh3.hash(data[:aligned], seed, signed=False)
    if aligned == len(data):
        return h
    h = _undo_finalise(h) ^ aligned
    for byte in data[aligned:]:
        h = _mix(h, byte if byte < 128 else (byte - 256) & _MASK)
    return _finalise(h ^ len(data))


def hash_strings(keys: Iterable[str]) -> NDArray[np.uint32]:
    """Spark's `hash()` of string keys."""
    return np.fromiter((hash_bytes(key.encode()) for key in keys), dtype=np.uint32)


def hash_longs(keys: NDArray[np.int64], seed: int = SEED) -> NDArray[np.uint32]:
    """Spark's `hash()` of BIGINT keys, vectorised: canonical Murmur3 of the eight little-endian bytes."""
    halves = np.ascontiguousarray(keys, dtype="<i8").view("<u4").reshape(-1, 2).astype(np.uint64)
    h = np.full(len(halves), seed, dtype=np.uint64)
    mask = np.uint64(_MASK)
    for half in (halves[:, 0], halves[:, 1]):
        word = (half * np.uint64(0xCC9E2D51)) & mask
        word = ((word << np.uint64(15)) | (word >> np.uint64(17))) & mask
        h ^= (word * np.uint64(0x1B873593)) & mask
        h = ((h << np.uint64(13)) | (h >> np.uint64(19))) & mask
        h = (h * np.uint64(5) + np.uint64(0xE6546B64)) & mask
    h ^= np.uint64(8)
    h ^= h >> np.uint64(16)
    h = (h * np.uint64(0x85EBCA6B)) & mask
    h ^= h >> np.uint64(13)
    h = (h * np.uint64(0xC2B2AE35)) & mask
    return (h ^ (h >> np.uint64(16))).astype(np.uint32)


def ring_points(labels: Iterable[str]) -> NDArray[np.uint32]:
    """Canonical MurmurHash3 of ring labels such as `channel-3-replica-17`: the points of a consistent hash."""
    return np.fromiter((mmh3.hash(label, 0, signed=False) for label in labels), dtype=np.uint32)
