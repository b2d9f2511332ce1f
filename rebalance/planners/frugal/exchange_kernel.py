"""Small exchanges that make a plan cheaper, as machine code: the last step of Frugal. Read `frugal` first.

A moved key is put back where it came from, and what that breaks is mended by at most two other moves that cost less together. A plan
that misses the limits of its channels is mended the same way, whatever that costs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rebalance.compiled import compiled
from rebalance.planning.exact import TOLERANCE
from rebalance.planning.model import Floats, Indices, Ints, Mask


class Places(NamedTuple):
    """The keys on their channels; `channel`, `load`, `count`, the lists and `spent` change."""

    cost: Floats
    state: Floats
    #: Where each key is under the active function.
    current: Ints
    home: Ints
    movable: Mask
    channel: Ints
    load: Floats
    low: Floats
    high: Floats
    count: Indices  # type: ignore[assignment]  # a tuple's own count() is not wanted
    #: The keys of each channel as lists: first[d], then after[k] until -1; before[k] the other way.
    first: Indices
    after: Indices
    before: Indices
    #: Routes now, and the moves looked at so far.
    spent: Indices
    max_routes: int
    #: Most keys a channel may hold, and what one more counts as, in load.
    most: int
    surplus: float


@compiled
def shift(places: Places, k: int, d: int) -> None:
    """Put key k on channel d."""
    a = places.channel[k]
    if places.before[k] >= 0:
        places.after[places.before[k]] = places.after[k]
    else:
        places.first[a] = places.after[k]
    if places.after[k] >= 0:
        places.before[places.after[k]] = places.before[k]
    places.after[k], places.before[k] = places.first[d], -1
    if places.first[d] >= 0:
        places.before[places.first[d]] = k
    places.first[d] = k
    places.load[a] -= places.cost[k]
    places.load[d] += places.cost[k]
    places.count[a] -= 1
    places.count[d] += 1
    places.spent[0] += int(d != places.home[k]) - int(a != places.home[k])
    places.channel[k] = d


@compiled
def fill_lists(places: Places) -> None:
    """The lists of the channels from `channel`."""
    for d in range(len(places.first)):
        places.first[d] = -1
    for k in range(len(places.channel) - 1, -1, -1):
        d = places.channel[k]
        places.after[k], places.before[k] = places.first[d], -1
        if places.first[d] >= 0:
            places.before[places.first[d]] = k
        places.first[d] = k


@compiled
def price(places: Places, k: int, d: int) -> float:
    """State that putting key k on channel d costs, or saves if it comes from there."""
    return float(places.state[k] * (int(d != places.current[k]) - int(places.channel[k] != places.current[k])))


@compiled
def miss(places: Places, d: int, load: float, count: int) -> float:
    """By how much channel d misses its limits with this load and this many keys."""
    missed = max(load - places.high[d], 0.0) + max(places.low[d] - load, 0.0)
    return float(missed + max(count - places.most, 0) * places.surplus)


@compiled
def missed(places: Places) -> float:
    """By how much all channels miss their limits."""
    total = 0.0
    for d in range(len(places.load)):
        total += miss(places, d, places.load[d], places.count[d])
    return total


@compiled
def after_shift(places: Places, k: int, d: int) -> float:
    """How much the two channels of a shift miss after it, less what they miss before."""
    a, c = places.channel[k], places.cost[k]
    now = miss(places, a, places.load[a], places.count[a]) + miss(places, d, places.load[d], places.count[d])
    then = miss(places, a, places.load[a] - c, places.count[a] - 1) + miss(
        places, d, places.load[d] + c, places.count[d] + 1
    )
    return then - now


@compiled
def worst(places: Places) -> int:
    """What has to be mended next: the channel that misses its limits most, those that are over first; N if only the table is too
    large; -1 if nothing.
    """
    best, most = -1, 0.0
    for d in range(len(places.load)):
        lacking = miss(places, d, places.load[d], places.count[d])
        if lacking > 0.0 and places.load[d] > places.low[d]:
            lacking += places.high[d] + 1.0
        if lacking > most:
            best, most = d, lacking
    return len(places.load) if best < 0 and places.spent[0] > places.max_routes else best


@compiled
def may_mend(places: Places, bad: int, k: int, d: int) -> bool:
    """Whether putting key k on channel d works on what is bad: off a channel that is over, onto one that is low, home from the table."""
    now = places.channel[k]
    if d == now or places.high[d] == 0.0:
        return False
    if bad == len(places.load):
        return bool(d == places.home[k])
    return now == bad if places.load[bad] > places.low[bad] else d == bad


@compiled
def sources(places: Places, bad: int) -> tuple[int, int]:
    """The range of channels whose keys may mend what is bad."""
    over = bad < len(places.load) and places.load[bad] > places.low[bad]
    return (bad, bad + 1) if over else (0, len(places.load))


@compiled
def least_cost(places: Places, bad: int) -> float:
    """A single key must cost this much to mend what is bad."""
    if bad == len(places.load):
        return 0.0
    off = (
        places.load[bad] - places.high[bad]
        if places.load[bad] > places.low[bad]
        else places.low[bad] - places.load[bad]
    )
    return float(off)


@compiled
def mend(places: Places, budget: float, plan: Indices, work: int) -> float:
    """The cheapest shifts, at most half as many as `plan` is long, after which nothing is bad, below the budget; put into `plan` as key, channel,
    key, channel, … and -1 at the end. Returns their price, infinite if there are none. Looks at no more than `work` of them.
    """
    for i in range(len(plan)):
        plan[i] = -1
    bad = worst(places)
    if bad < 0:
        return 0.0
    last = len(plan) == 2
    best = budget if last else min(budget, mend(places, budget, plan[:-2], work))
    least = least_cost(places, bad) if last else 0.0
    then = np.empty(len(plan) - 2, dtype=np.int64)
    total = missed(places)
    from_channel, to_channel = sources(places, bad)
    for source in range(from_channel, to_channel):
        k = places.first[source]
        while k >= 0:
            following = places.after[k]
            places.spent[1] += 1
            if places.movable[k] and places.cost[k] >= least and places.spent[1] < work:
                places.spent[1] += len(places.load)
                for d in range(len(places.load)):
                    paid = price(places, k, d)
                    if paid >= best or not may_mend(places, bad, k, d):
                        continue
                    if last:
                        if mends(places, k, d, total):
                            best = paid
                            plan[0], plan[1] = k, d
                        continue
                    shift(places, k, d)
                    paid += mend(places, best - paid, then, work)
                    if paid < best:
                        best = paid
                        plan[0], plan[1] = k, d
                        for i in range(len(then)):
                            plan[i + 2] = then[i]
                    shift(places, k, source)
            k = following
    return best if plan[0] >= 0 else np.inf


@compiled
def mends(places: Places, k: int, d: int, total: float) -> bool:
    """Whether nothing is bad any more, of what is missed in total, once key k is on channel d."""
    routes = places.spent[0] + int(d != places.home[k]) - int(places.channel[k] != places.home[k])
    return bool(routes <= places.max_routes and total + after_shift(places, k, d) <= 0.0)


@compiled
def carry_out(places: Places, plan: Indices) -> None:
    """Do what was found."""
    for i in range(0, len(plan), 2):
        if plan[i] < 0:
            break
        shift(places, plan[i], plan[i + 1])


@compiled
def mend_all(places: Places, work: int) -> None:
    """Mend what is bad with three shifts if those can touch it all."""
    number = 0
    for d in range(len(places.load)):
        number += int(miss(places, d, places.load[d], places.count[d]) > 0.0)
    plan = np.empty(6, dtype=np.int64)
    if number <= len(plan) and mend(places, np.inf, plan, work) < np.inf:
        carry_out(places, plan)


@compiled
def exchange(places: Places, keys: Indices, shifts: int, work: int) -> None:
    """Try to put each moved key back, dearest first, and mend that with so many other shifts, until none can be or so many moves were
    looked at.
    """
    plan = np.empty(6, dtype=np.int64)
    improved = worst(places) < 0
    while improved and places.spent[1] < work:
        improved = False
        for k in keys:
            back, now = places.current[k], places.channel[k]
            if back == now or back >= len(places.high) or places.high[back] == 0.0 or places.spent[1] >= work:
                continue
            budget = places.state[k] * (1.0 - TOLERANCE)
            shift(places, k, back)
            if mend(places, budget, plan[: 2 * shifts], work) < budget:
                carry_out(places, plan[: 2 * shifts])
                improved = True
            else:
                shift(places, k, now)
