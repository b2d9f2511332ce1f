"""Sorting the keys of each channel only as far as they are read: the incremental quicksort of Paredes and Navarro.

A planner often needs just the first few keys of a channel in some order, and does not know how many. Reading m of n keys takes
expected O(n + m log n), so it costs no more than a selection when few are read and no more than a sort when all are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rebalance.compiled import compiled
from rebalance.planning.model import Floats, Indices, Ints, Mask

#: Remembered pivots per channel; about 2 ln(keys) are expected, and forgetting one only costs time.
_PIVOTS = 64


class Lazy(NamedTuple):
    """The keys of every channel, each channel sorted as far as it was read.

    Keys low[d] .. pivots[d, 0] of `items` are not yet read. A pivot is at its final place with all that comes before it on its left.
    """

    items: Ints
    low: Indices
    pivots: Indices
    depth: Indices


@compiled
def before(key: Floats, a: int, b: int) -> bool:
    """Whether index a comes before index b: larger key first, then the smaller index."""
    return bool(key[a] > key[b] or (key[a] == key[b] and a < b))


@compiled
def group(channel: Ints, resident: Mask, channels: int) -> tuple[Ints, Indices]:
    """The resident keys of each channel: members[starts[d] : starts[d + 1]]."""
    starts = np.zeros(channels + 1, dtype=np.int64)
    for k in range(len(channel)):
        if resident[k]:
            starts[channel[k] + 1] += 1
    for d in range(channels):
        starts[d + 1] += starts[d]
    fill = starts.copy()
    members = np.empty(starts[channels], dtype=np.int32)
    for k in range(len(channel)):
        if resident[k]:
            members[fill[channel[k]]] = k
            fill[channel[k]] += 1
    return members, starts


@compiled
def partition(items: Ints, low: int, high: int, key: Floats) -> int:
    """Reorder items[low:high] around a pivot, those before it in order on its left; returns where the pivot is."""
    # The median of three as pivot, brought to the front: good on sorted input too.
    middle, last = (low + high) // 2, high - 1
    if before(key, items[middle], items[low]):
        items[low], items[middle] = items[middle], items[low]
    if before(key, items[last], items[low]):
        items[low], items[last] = items[last], items[low]
    if before(key, items[middle], items[last]):
        items[last], items[middle] = items[middle], items[last]
    pivot = items[last]
    items[last] = items[low]
    cut = low
    for i in range(low + 1, high):
        item = items[i]
        if before(key, item, pivot):
            cut += 1
            items[i] = items[cut]
            items[cut] = item
    items[low] = items[cut]
    items[cut] = pivot
    return cut


@compiled
def select(items: Ints, starts: Indices, key: Floats, weight: Floats, enough: Floats) -> Indices:
    """Reorder each channel's items[starts[d] : starts[d + 1]] so that those come first, in no order, that are first in order and whose weights come to
    no more than enough[d]; returns where they end. Expected linear time.
    """
    ends = np.empty(len(enough), dtype=np.int64)
    for d in range(len(enough)):
        low, high, left = starts[d], starts[d + 1], enough[d]
        while low < high:
            cut = partition(items, low, high, key)
            total = 0.0
            for i in range(low, cut + 1):
                total += weight[items[i]]
            if total <= left:
                low, left = cut + 1, left - total
            else:
                high = cut
        ends[d] = low
    return ends


def lazily_sorted(items: Ints, low: Indices, high: Indices) -> Lazy:
    """Nothing sorted yet."""
    pivots = np.empty((len(low), _PIVOTS), dtype=np.int64)
    pivots[:, 0] = high
    return Lazy(items, low.copy(), pivots, np.ones(len(low), dtype=np.int64))


@compiled
def separate(lazy: Lazy, d: int, key: Floats) -> None:
    """Find one more pivot among the unread keys of channel d that come before all pivots found so far."""
    pivots, depth = lazy.pivots[d], lazy.depth[d]
    if depth == _PIVOTS:  # forget the farthest
        for i in range(2, _PIVOTS):
            pivots[i - 1] = pivots[i]
        depth -= 1
    pivots[depth] = partition(lazy.items, lazy.low[d], pivots[depth - 1], key)
    lazy.depth[d] = depth + 1


@compiled
def first(lazy: Lazy, d: int, key: Floats) -> int:
    """The first unread key of channel d in order; -1 if all are read."""
    low, pivots = lazy.low[d], lazy.pivots[d]
    if low == pivots[0]:
        return -1
    while lazy.depth[d] == 1 or pivots[lazy.depth[d] - 1] != low:
        separate(lazy, d, key)
    return int(lazy.items[low])


@compiled
def skip(lazy: Lazy, d: int) -> None:
    """Take the key that `first` returned as read."""
    lazy.low[d] += 1
    lazy.depth[d] -= 1


@compiled
def sum_down_to(lazy: Lazy, d: int, key: Floats, least: float, count: Ints) -> float:
    """Read the keys of channel d that are not below `least`; returns the sum of key · count over them. They are not sorted for it."""
    pivots, total = lazy.pivots[d], 0.0
    while lazy.low[d] < pivots[0]:
        low, nearest = lazy.low[d], pivots[lazy.depth[d] - 1]
        if lazy.depth[d] > 1 and key[lazy.items[nearest]] >= least:
            for i in range(low, nearest + 1):
                total += key[lazy.items[i]] * count[lazy.items[i]]
            lazy.low[d] = nearest + 1
            lazy.depth[d] -= 1
        elif low == nearest:
            break
        else:
            separate(lazy, d, key)
    return total


@compiled
def push(heap: Ints, size: int, item: int, key: Floats) -> None:
    """Add an item to the heap of the first `size` items, which has the first in order on top."""
    child = size
    while child > 0:
        parent = (child - 1) // 2
        if before(key, heap[parent], item):
            break
        heap[child] = heap[parent]
        child = parent
    heap[child] = item


@compiled
def pop(heap: Ints, size: int, key: Floats) -> int:
    """Take the top of the heap of the first `size` items."""
    top, item = heap[0], heap[size - 1]
    parent, child = 0, 1
    while child < size - 1:
        if child + 1 < size - 1 and before(key, heap[child + 1], heap[child]):
            child += 1
        if before(key, item, heap[child]):
            break
        heap[parent] = heap[child]
        parent, child = child, 2 * child + 1
    heap[parent] = item
    return int(top)
