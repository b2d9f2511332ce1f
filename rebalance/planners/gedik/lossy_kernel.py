"""The counting loop of lossy counting as machine code. Read `lossy` first.

The entries lie side by side in arrays; an open-addressing table of twice their room finds a key's entry. When a window closes the
entries that stay are moved together and the table is filled again, which costs a few steps per tuple of the window.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rebalance.compiled import compiled
from rebalance.planning.model import Indices, Ints

_FREE = -1
#: 2^64 over the golden ratio: multiplying by it spreads neighbouring keys over the upper bits.
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


class Entries(NamedTuple):
    """Room for entries, of which the first `used` are in use, and the table that finds them."""

    keys: Indices
    counts: Indices
    errors: Indices
    table: Ints
    used: int


@compiled
def count(tuples: Indices, width: int, n: int, entries: Entries) -> Entries:
    """The entries after these tuples too, with n tuples before."""
    keys, counts, errors, table, used = entries
    mask, shift = len(table) - 1, np.uint64(64 - bits_of(len(table)))
    window, left = n // width, width - n % width  # windows closed, and tuples to the end of the open one
    for key in tuples:
        at = np.int64((np.uint64(key) * _SPREAD) >> shift)
        while table[at] != _FREE and keys[table[at]] != key:
            at = (at + 1) & mask
        if table[at] != _FREE:
            counts[table[at]] += 1
        else:
            table[at] = used
            keys[used], counts[used], errors[used] = key, 1, window
            used += 1
        left -= 1
        if left == 0:
            window, left = window + 1, width
            used = drop(keys, counts, errors, used, window)
            table[:] = _FREE
            fill(table, keys, used)
        if used == len(keys):
            keys, counts, errors, table = with_room(keys, counts, errors, used, 2 * used)
            mask, shift = len(table) - 1, np.uint64(64 - bits_of(len(table)))
    return Entries(keys, counts, errors, table, used)


@compiled
def with_room(
    keys: Indices, counts: Indices, errors: Indices, used: int, room: int
) -> tuple[Indices, Indices, Indices, Ints]:
    """The same entries with room for more, and a table that is at most half full when the room is."""
    wide_keys, wide_counts, wide_errors = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    wide_keys[:used], wide_counts[:used], wide_errors[:used] = keys[:used], counts[:used], errors[:used]
    table = np.full(1 << (bits_of(room) + 1), _FREE, np.int32)
    fill(table, wide_keys, used)
    return wide_keys, wide_counts, wide_errors, table


@compiled
def drop(keys: Indices, counts: Indices, errors: Indices, used: int, window: int) -> int:
    """Forget entries with count + error ≤ window; returns how many stay, moved to the front."""
    stay = 0
    for entry in range(used):
        if counts[entry] + errors[entry] > window:
            keys[stay], counts[stay], errors[stay] = keys[entry], counts[entry], errors[entry]
            stay += 1
    return stay


@compiled
def bits_of(size: int) -> int:
    """The logarithm of a power of two."""
    bits = 0
    while 1 << bits < size:
        bits += 1
    return bits


@compiled
def fill(table: Ints, keys: Indices, used: int) -> None:
    """Enter the first `used` keys into an empty table."""
    mask, shift = len(table) - 1, np.uint64(64 - bits_of(len(table)))
    for entry in range(used):
        at = np.int64((np.uint64(keys[entry]) * _SPREAD) >> shift)
        while table[at] != _FREE:
            at = (at + 1) & mask
        table[at] = entry
