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

#: Places in `Board.sizes`.
RETURNED, PLACED = 0, 1


class Board(NamedTuple):
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
def shed(
    items: Ints,
    low: int,
    high: int,
    psi: Floats,
    cost: Floats,
    stay: Ints,
    waiting: Ints,
    load: float,
    limit: float,
) -> tuple[int, float]:
    """Phase II on one channel: of items[low:high], the first keys in the order ψ leave until `load` is at `limit`.

    They go from `stay` to `waiting`. Returns where the items that are still wholly or partly there begin, and the load left.
    Expected linear time: a weighted quickselect.
    """
    while low < high and load > limit:
        pivot = partition(items, low, high, psi)
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
    return low, load


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
def resettle(ranked: Ints, position: int, load: Floats, capacity: Floats) -> None:
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
def accepted(board: Board, d: int, c: float, count: int) -> int:
    """adjust(k, d): how many of `count` keys of cost c fit on d; if none, how many if all that is strictly cheaper were pushed out."""
    load, limit = board.load[d], board.limit[d]
    m = fitting(load, c, limit, count)
    if m > 0:
        return m
    board.cheaper[d] -= sum_down_to(board.by_cost, d, board.cost, c, board.stay)
    return fitting(load - board.cheaper[d], c, limit, count)


@compiled
def make_room(board: Board, d: int, c: float, m: int) -> None:
    """Push the exchange set E out of d: strictly cheaper keys in the order ψ until m keys of cost c fit."""
    while board.load[d] + m * c > board.limit[d]:
        k = first(board.by_psi, d, board.psi)
        if k < 0:
            break
        if board.cost[k] >= c or board.stay[k] == 0:  # too heavy for this candidate, hence for all that follow
            skip(board.by_psi, d)
            continue
        out = leaving(board.load[d] + m * c, board.cost[k], board.limit[d], board.stay[k])
        board.load[d] -= out * board.cost[k]
        board.cheaper[d] -= out * board.cost[k]
        if board.waiting[k] == 0:
            push(board.returned, board.sizes[RETURNED], k, board.cost)
            board.sizes[RETURNED] += 1
        board.stay[k] -= out
        board.waiting[k] += out


@compiled
def next_candidate(board: Board, candidates: Ints, taken: int) -> int:
    """The costliest of the candidates not taken yet and the records pushed out; -1 if there is none."""
    size = board.sizes[RETURNED]
    if size > 0 and (taken == len(candidates) or before(board.cost, board.returned[0], candidates[taken])):
        board.sizes[RETURNED] -= 1
        return pop(board.returned, size, board.cost)
    return int(candidates[taken]) if taken < len(candidates) else -1


@compiled
def put(board: Board, ranked: Ints, position: int, k: int, m: int, placed: Ints) -> Ints:
    """Put m keys of record k on the channel at `position`; `placed` gets a row of (record, channel, keys) and grows if need be."""
    d, row = ranked[position], 3 * board.sizes[PLACED]
    if row == len(placed):
        longer = np.empty(2 * row, dtype=np.int32)
        for i in range(row):
            longer[i] = placed[i]
        placed = longer
    placed[row], placed[row + 1], placed[row + 2] = k, d, m
    board.sizes[PLACED] += 1
    board.load[d] += m * board.cost[k]
    resettle(ranked, position, board.load, board.capacity)
    return placed


@compiled
def place(board: Board, candidates: Ints, ranked: Ints, placed: Ints) -> tuple[Ints, int]:
    """Phase III: give every candidate a channel. Returns `placed`, filled, and how many keys every channel refused.

    `candidates` are records by descending cost, `ranked` the open channels by ascending L(d) / cap(d).
    """
    taken, refused = 0, 0
    while True:
        k = next_candidate(board, candidates, taken)
        if k < 0:
            return placed, refused
        if taken < len(candidates) and k == candidates[taken]:
            taken += 1
        c, left = board.cost[k], board.waiting[k]
        position = 0
        while left > 0 and position < len(ranked):
            m = accepted(board, ranked[position], c, left)
            if m == 0:
                position += 1
                continue
            make_room(board, ranked[position], c, m)
            placed = put(board, ranked, position, k, m, placed)
            left -= m
            position = 0
        # What is waiting would fit if it could be cut, so fewer keys than channels are left here.
        for _ in range(left):
            placed = put(board, ranked, least_harm(board.load, board.capacity, ranked, c), k, 1, placed)
            refused += 1
