"""The loops of LLFD as machine code: what leaves a channel, what fits on it, the placing loop. Read `llfd` first.

What makes it fast without changing a single choice:

- Phase II needs a set, not an order, so the keys that leave a channel are found by a weighted quickselect in linear time.
- Candidates are placed from the costliest to the cheapest and an exchanged key is strictly cheaper than the key that pushed it
  out. So c(k) never grows, no key is placed twice, and what was placed is never pushed out again. A channel therefore reads its
  residents once from the front in two orders: by ψ to choose exchange sets, by cost to know how much load is still
  cheaper than c(k). Both are sorted only as far as they are read.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rebalance.compiled import compiled
from rebalance.planning.model import Floats, Indices, Ints
from rebalance.planning.sorting_kernel import Lazy, before, first, partition, pop, push, skip, sum_down_to

#: Places in `Placing.sizes`.
RETURNED, PLACED = 0, 1


class Placing(NamedTuple):
    """The records and channels while candidates are placed."""

    cost: Floats
    psi: Floats
    #: Keys of each record that are still where they were planned.
    stay: Ints
    #: Keys of each record that are candidates.
    waiting: Ints
    load: Floats
    limit: Floats
    capacity: Floats
    #: Load of each channel's residents that are cheaper than the candidate in hand.
    cheaper: Floats
    by_cost: Lazy
    by_psi: Lazy
    #: Heap of the records pushed out, the costliest on top.
    returned: Ints
    #: How many there are in `returned`, and how many rows were placed.
    sizes: Indices


@compiled
def fitting(load: float, c: float, limit: float, count: int) -> int:
    """How many of `count` keys of cost c can join `load` within `limit`."""
    if load + count * c <= limit:
        return count
    if load + c > limit:
        return 0
    m = int((limit - load) / c)
    while load + m * c > limit:
        m -= 1
    while load + (m + 1) * c <= limit:
        m += 1
    return m


@compiled
def leaving(load: float, c: float, limit: float, count: int) -> int:
    """How many of `count` keys of cost c > 0 must leave `load` to bring it to `limit`; all, if even they are not enough."""
    if count == 1 or load - (count - 1) * c > limit:
        return count
    m = max(1, int((load - limit) / c))
    while load - m * c > limit:
        m += 1
    while m > 1 and load - (m - 1) * c <= limit:
        m -= 1
    return m


@compiled
def prepare(placing: Placing) -> None:
    """Phase II: what is above L_max leaves, and both orders begin with what is still there."""
    cost, stay, residents = placing.cost, placing.stay, placing.by_psi
    for d in range(len(placing.load)):
        if placing.capacity[d] > 0.0 and placing.load[d] > placing.limit[d]:
            shed(placing, d)
        placing.by_cost.low[d] = residents.low[d]
        for i in range(residents.low[d], residents.pivots[d, 0]):
            placing.by_cost.items[i] = residents.items[i]
            placing.cheaper[d] += cost[residents.items[i]] * stay[residents.items[i]]


@compiled
def shed(placing: Placing, d: int) -> None:
    """The first residents of channel d in the order ψ leave until its load is at its limit: they go from `stay` to `waiting`.

    Expected linear time: a weighted quickselect.
    """
    cost, stay, waiting, items = placing.cost, placing.stay, placing.waiting, placing.by_psi.items
    low, high = placing.by_psi.low[d], placing.by_psi.pivots[d, 0]
    load, limit = placing.load[d], placing.limit[d]
    while low < high and load > limit:
        pivot = partition(items, low, high, placing.psi)
        weight = 0.0
        for i in range(low, pivot):
            weight += cost[items[i]] * stay[items[i]]
        if load - weight <= limit:
            high = pivot
            continue
        load -= weight
        for i in range(low, pivot):
            waiting[items[i]] = stay[items[i]]
            stay[items[i]] = 0
        k = items[pivot]
        m = leaving(load, cost[k], limit, stay[k])
        load -= m * cost[k]
        waiting[k] = m
        stay[k] -= m
        low = pivot if stay[k] > 0 else pivot + 1
    placing.by_psi.low[d], placing.load[d] = low, load


@compiled
def least_harm(load: Floats, capacity: Floats, ranked: Ints, c: float) -> int:
    """Position in `ranked` of the channel with the least (L(d) + c) / cap(d), the smaller channel on a tie."""
    best = 0
    for i in range(1, len(ranked)):
        d, other = ranked[i], ranked[best]
        harm, least = (load[d] + c) / capacity[d], (load[other] + c) / capacity[other]
        if harm < least or (harm == least and d < other):
            best = i
    return best


@compiled
def rank_again(ranked: Ints, position: int, load: Floats, capacity: Floats) -> None:
    """Put the channel at `position` back in its place by ascending (L(d) / cap(d), d) after its load changed."""
    d = ranked[position]
    level = load[d] / capacity[d]
    while position + 1 < len(ranked):
        other = ranked[position + 1]
        above = load[other] / capacity[other]
        if level < above or (level == above and d < other):
            break
        ranked[position] = other
        position += 1
    while position > 0:
        other = ranked[position - 1]
        below = load[other] / capacity[other]
        if below < level or (below == level and other < d):
            break
        ranked[position] = other
        position -= 1
    ranked[position] = d


@compiled
def accepted(placing: Placing, d: int, c: float, count: int) -> int:
    """adjust(k, d): how many of `count` keys of cost c fit on d; if none, how many if all that is strictly cheaper were pushed out."""
    load, limit = placing.load[d], placing.limit[d]
    m = fitting(load, c, limit, count)
    if m > 0:
        return m
    placing.cheaper[d] -= sum_down_to(placing.by_cost, d, placing.cost, c, placing.stay)
    return fitting(load - placing.cheaper[d], c, limit, count)


@compiled
def make_room(placing: Placing, d: int, c: float, m: int) -> None:
    """Push the exchange set E out of d: strictly cheaper keys in the order ψ until m keys of cost c fit."""
    while placing.load[d] + m * c > placing.limit[d]:
        k = first(placing.by_psi, d, placing.psi)
        if k < 0:
            break
        if placing.cost[k] >= c or placing.stay[k] == 0:  # too heavy for this candidate, hence for all that follow
            skip(placing.by_psi, d)
            continue
        out = leaving(placing.load[d] + m * c, placing.cost[k], placing.limit[d], placing.stay[k])
        placing.load[d] -= out * placing.cost[k]
        placing.cheaper[d] -= out * placing.cost[k]
        if placing.waiting[k] == 0:
            push(placing.returned, placing.sizes[RETURNED], k, placing.cost)
            placing.sizes[RETURNED] += 1
        placing.stay[k] -= out
        placing.waiting[k] += out


@compiled
def next_candidate(placing: Placing, candidates: Ints, taken: int) -> int:
    """The costliest of the candidates not taken yet and the records pushed out; -1 if there is none."""
    size = placing.sizes[RETURNED]
    if size > 0 and (taken == len(candidates) or before(placing.cost, placing.returned[0], candidates[taken])):
        placing.sizes[RETURNED] -= 1
        return pop(placing.returned, size, placing.cost)
    return int(candidates[taken]) if taken < len(candidates) else -1


@compiled
def put(placing: Placing, ranked: Ints, position: int, k: int, m: int, placed: Ints) -> Ints:
    """Put m keys of record k on the channel at `position`; `placed` gets a row of (record, channel, keys) and grows if need be."""
    d, row = ranked[position], 3 * placing.sizes[PLACED]
    if row == len(placed):
        longer = np.empty(2 * row, dtype=np.int32)
        for i in range(row):
            longer[i] = placed[i]
        placed = longer
    placed[row], placed[row + 1], placed[row + 2] = k, d, m
    placing.sizes[PLACED] += 1
    placing.load[d] += m * placing.cost[k]
    rank_again(ranked, position, placing.load, placing.capacity)
    return placed


@compiled
def place(placing: Placing, candidates: Ints, ranked: Ints, placed: Ints) -> tuple[Ints, int]:
    """Phase III: give every candidate a channel. Returns `placed`, filled, and how many keys every channel refused.

    `candidates` are records by descending cost, `ranked` the open channels by ascending L(d) / cap(d).
    """
    taken, refused = 0, 0
    while True:
        k = next_candidate(placing, candidates, taken)
        if k < 0:
            return placed, refused
        if taken < len(candidates) and k == candidates[taken]:
            taken += 1
        c, left = placing.cost[k], placing.waiting[k]
        position = 0
        while left > 0 and position < len(ranked):
            m = accepted(placing, ranked[position], c, left)
            if m == 0:
                position += 1
                continue
            make_room(placing, ranked[position], c, m)
            placed = put(placing, ranked, position, k, m, placed)
            left -= m
            position = 0
        # What is waiting would fit if it could be cut, so fewer keys than channels are left here.
        for _ in range(left):
            placed = put(placing, ranked, least_harm(placing.load, placing.capacity, ranked, c), k, 1, placed)
            refused += 1
