"""One shift or swap after the other until no channel misses its limits, as machine code: for plans that miss them in many places.

`exchange_kernel.mend` finds the cheapest few shifts that put everything right; where more is wrong than a few shifts can touch, this goes
on one channel at a time. It ends: each step lowers what is missed in all.
"""

from __future__ import annotations

import numpy as np

from rebalance.compiled import compiled
from rebalance.planners.frugal.exchange_kernel import Table, miss, price, shift, worst
from rebalance.planning.model import Indices


@compiled
def repair(table: Table, work: int) -> None:
    """Bring the worst channel nearer to its limits by the shift or swap that leaves least missed, the cheapest of equals, until
    nothing is missed, nothing helps or so many pairs of keys were looked at.
    """
    best = np.empty(2, dtype=np.int64)
    looked = 0
    while looked < work:
        bad = worst(table)
        if bad < 0 or bad == len(table.load):
            break
        other, seen = best_swap(table, bad, best)
        looked += seen
        if other < 0:
            break
        given, taken = best[0], best[1]
        if given >= 0:
            shift(table, given, other)
        if taken >= 0:
            shift(table, taken, bad)


@compiled
def best_swap(table: Table, bad: int, best: Indices) -> tuple[int, int]:
    """The channel to swap with, -1 if that helps nowhere, and the pairs looked at; `best` is the key that goes there and the one that comes, -1 = none."""
    other, seen = -1, 0
    left, least = 0.0, np.inf
    for d in range(len(table.load)):
        if d == bad or table.high[d] == 0.0:
            continue
        now = miss(table, bad, table.load[bad], table.count[bad]) + miss(table, d, table.load[d], table.count[d])
        given = -1
        while True:
            taken = -1
            while True:
                seen += 1
                change, paid = swapped(table, bad, d, given, taken)
                change -= now
                if change < -table.rounding and (change < left - table.rounding or (change <= left and paid < least)):
                    other, left, least = d, change, paid
                    best[0], best[1] = given, taken
                taken = following(table, d, taken)
                if taken < 0:
                    break
            given = following(table, bad, given)
            if given < 0:
                break
    return other, seen


@compiled
def following(table: Table, d: int, k: int) -> int:
    """The movable key of channel d after k, the first one after -1; -1 = no more."""
    k = table.first[d] if k < 0 else table.after[k]
    while k >= 0 and not table.movable[k]:
        k = table.after[k]
    return int(k)


@compiled
def swapped(table: Table, bad: int, d: int, given: int, taken: int) -> tuple[float, float]:
    """What channels `bad` and d miss once the keys, -1 = none, have changed places, and what that costs; infinite beyond max_routes."""
    cost, paid, number, routes = 0.0, 0.0, 0, 0
    if given >= 0:
        cost, paid, number = table.cost[given], price(table, given, d), 1
        routes += int(d != table.home[given]) - int(bad != table.home[given])
    if taken >= 0:
        cost, paid, number = cost - table.cost[taken], paid + price(table, taken, bad), number - 1
        routes += int(bad != table.home[taken]) - int(d != table.home[taken])
    if routes > 0 and table.spent[0] + routes > table.max_routes:
        return np.inf, np.inf
    there = miss(table, bad, table.load[bad] - cost, table.count[bad] - number)
    return there + miss(table, d, table.load[d] + cost, table.count[d] + number), paid
