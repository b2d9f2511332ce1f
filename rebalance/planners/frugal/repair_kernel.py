"""One shift or swap after the other until no channel misses its limits, as machine code: for plans that miss them in many places.

`exchange_kernel.mend` finds the cheapest few shifts that put everything right; where more is wrong than a few shifts can touch, this goes
on one channel at a time. It ends: each step lowers what is missed in all.
"""

from __future__ import annotations

import numpy as np

from rebalance.compiled import compiled
from rebalance.planners.frugal.exchange_kernel import Places, miss, price, shift, worst
from rebalance.planning.exact_kernel import clearly_less
from rebalance.planning.model import Indices


@compiled
def repair(places: Places, work: int) -> int:
    """Bring the worst channel nearer to its limits by the shift or swap that leaves least missed, the cheapest of equals, until
    nothing is missed, nothing helps or so many pairs of keys were looked at; returns how many were.
    """
    best = np.empty(2, dtype=np.int64)
    looked = 0
    while looked < work:
        bad = worst(places)
        if bad < 0 or bad == len(places.load):
            break
        other, seen = best_swap(places, bad, best)
        looked += seen
        if other < 0:
            break
        given, taken = best[0], best[1]
        if given >= 0:
            shift(places, given, other)
        if taken >= 0:
            shift(places, taken, bad)
    return looked


@compiled
def best_swap(places: Places, bad: int, best: Indices) -> tuple[int, int]:
    """The channel to swap with, -1 if that helps nowhere, and the pairs looked at; `best` is the key that goes there and the one that comes, -1 = none."""
    other, seen = -1, 0
    left, least = 0.0, np.inf
    for d in range(len(places.load)):
        if d == bad or places.high[d] == 0.0:
            continue
        now = miss(places, bad, places.load[bad], places.count[bad]) + miss(places, d, places.load[d], places.count[d])
        given = -1
        while True:
            taken = -1
            while True:
                seen += 1
                then, paid = swapped(places, bad, d, given, taken)
                change = then - now
                cheaper = paid < least and not clearly_less(left, change)
                if clearly_less(then, now) and (cheaper or clearly_less(change, left)):
                    other, left, least = d, change, paid
                    best[0], best[1] = given, taken
                taken = following(places, d, taken)
                if taken < 0:
                    break
            given = following(places, bad, given)
            if given < 0:
                break
    return other, seen


@compiled
def following(places: Places, d: int, k: int) -> int:
    """The movable key of channel d after k, the first one after -1; -1 = no more."""
    k = places.first[d] if k < 0 else places.after[k]
    while k >= 0 and not places.movable[k]:
        k = places.after[k]
    return int(k)


@compiled
def swapped(places: Places, bad: int, d: int, given: int, taken: int) -> tuple[float, float]:
    """What channels `bad` and d miss once the keys, -1 = none, have changed places, and what that costs; infinite beyond max_routes."""
    cost, paid, number, routes = 0.0, 0.0, 0, 0
    if given >= 0:
        cost, paid, number = places.cost[given], price(places, given, d), 1
        routes += int(d != places.home[given]) - int(bad != places.home[given])
    if taken >= 0:
        cost, paid, number = cost - places.cost[taken], paid + price(places, taken, bad), number - 1
        routes += int(bad != places.home[taken]) - int(d != places.home[taken])
    if routes > 0 and places.spent[0] + routes > places.max_routes:
        return np.inf, np.inf
    there = miss(places, bad, places.load[bad] - cost, places.count[bad] - number)
    return there + miss(places, d, places.load[d] + cost, places.count[d] + number), paid
