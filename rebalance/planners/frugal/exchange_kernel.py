"""Small exchanges that make a plan cheaper, as machine code: the last step of Frugal. Read `frugal` first.

A moved key is put back where it came from, and what that breaks is mended by at most two other moves that cost less together. A plan
that misses the limits of its channels is mended the same way, whatever that costs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rebalance.compiled import compiled
from rebalance.planning.model import Floats, Indices, Ints, Mask


class Table(NamedTuple):
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
    most: int
    rounding: float


@compiled
def shift(table: Table, k: int, d: int) -> None:
    """Put key k on channel d."""
    a = table.channel[k]
    if table.before[k] >= 0:
        table.after[table.before[k]] = table.after[k]
    else:
        table.first[a] = table.after[k]
    if table.after[k] >= 0:
        table.before[table.after[k]] = table.before[k]
    table.after[k], table.before[k] = table.first[d], -1
    if table.first[d] >= 0:
        table.before[table.first[d]] = k
    table.first[d] = k
    table.load[a] -= table.cost[k]
    table.load[d] += table.cost[k]
    table.count[a] -= 1
    table.count[d] += 1
    table.spent[0] += int(d != table.home[k]) - int(a != table.home[k])
    table.channel[k] = d


@compiled
def fill_lists(table: Table) -> None:
    """The lists of the channels from `channel`."""
    for d in range(len(table.first)):
        table.first[d] = -1
    for k in range(len(table.channel) - 1, -1, -1):
        d = table.channel[k]
        table.after[k], table.before[k] = table.first[d], -1
        if table.first[d] >= 0:
            table.before[table.first[d]] = k
        table.first[d] = k


@compiled
def price(table: Table, k: int, d: int) -> float:
    """State that putting key k on channel d costs, or saves if it comes from there."""
    return float(table.state[k] * (int(d != table.current[k]) - int(table.channel[k] != table.current[k])))


@compiled
def miss(table: Table, d: int, load: float, count: int) -> float:
    """By how much channel d misses its limits with this load and this many keys."""
    over, under = load - table.high[d], table.low[d] - load
    missed = over if over > table.rounding else 0.0
    if under > table.rounding:
        missed += under
    return missed + max(count - table.most, 0) * table.rounding * 1e3


@compiled
def missed(table: Table) -> float:
    """By how much all channels miss their limits."""
    total = 0.0
    for d in range(len(table.load)):
        total += miss(table, d, table.load[d], table.count[d])
    return total


@compiled
def after_shift(table: Table, k: int, d: int) -> float:
    """How much the two channels of a shift miss after it, less what they miss before."""
    a, c = table.channel[k], table.cost[k]
    now = miss(table, a, table.load[a], table.count[a]) + miss(table, d, table.load[d], table.count[d])
    then = miss(table, a, table.load[a] - c, table.count[a] - 1) + miss(table, d, table.load[d] + c, table.count[d] + 1)
    return then - now


@compiled
def worst(table: Table) -> int:
    """What has to be mended next: the channel that misses its limits most, those that are over first; N if only the table is too
    large; -1 if nothing.
    """
    best, most = -1, 0.0
    for d in range(len(table.load)):
        lacking = miss(table, d, table.load[d], table.count[d])
        if lacking > 0.0 and table.load[d] > table.low[d]:
            lacking += table.high[d] + 1.0
        if lacking > most:
            best, most = d, lacking
    return len(table.load) if best < 0 and table.spent[0] > table.max_routes else best


@compiled
def may_mend(table: Table, bad: int, k: int, d: int) -> bool:
    """Whether putting key k on channel d works on what is bad: off a channel that is over, onto one that is low, home from the table."""
    now = table.channel[k]
    if d == now or table.high[d] == 0.0:
        return False
    if bad == len(table.load):
        return bool(d == table.home[k])
    return now == bad if table.load[bad] > table.low[bad] else d == bad


@compiled
def sources(table: Table, bad: int) -> tuple[int, int]:
    """The range of channels whose keys may mend what is bad."""
    over = bad < len(table.load) and table.load[bad] > table.low[bad]
    return (bad, bad + 1) if over else (0, len(table.load))


@compiled
def least_cost(table: Table, bad: int) -> float:
    """A single key must cost this much to mend what is bad."""
    if bad == len(table.load):
        return 0.0
    off = table.load[bad] - table.high[bad] if table.load[bad] > table.low[bad] else table.low[bad] - table.load[bad]
    return float(off - table.rounding)


@compiled
def mend(table: Table, budget: float, plan: Indices, work: int) -> float:
    """The cheapest shifts, at most half as many as `plan` is long, after which nothing is bad, below the budget; put into `plan` as key, channel,
    key, channel, … and -1 at the end. Returns their price, infinite if there are none. Looks at no more than `work` of them.
    """
    for i in range(len(plan)):
        plan[i] = -1
    bad = worst(table)
    if bad < 0:
        return 0.0
    last = len(plan) == 2
    best = budget if last else min(budget, mend(table, budget, plan[:-2], work))
    least = least_cost(table, bad) if last else 0.0
    then = np.empty(len(plan) - 2, dtype=np.int64)
    total = missed(table)
    from_channel, to_channel = sources(table, bad)
    for source in range(from_channel, to_channel):
        k = table.first[source]
        while k >= 0:
            following = table.after[k]
            table.spent[1] += 1
            if table.movable[k] and table.cost[k] >= least and table.spent[1] < work:
                table.spent[1] += len(table.load)
                for d in range(len(table.load)):
                    paid = price(table, k, d)
                    if paid >= best or not may_mend(table, bad, k, d):
                        continue
                    if last:
                        if mends(table, k, d, total):
                            best = paid
                            plan[0], plan[1] = k, d
                        continue
                    shift(table, k, d)
                    paid += mend(table, best - paid, then, work)
                    if paid < best:
                        best = paid
                        plan[0], plan[1] = k, d
                        for i in range(len(then)):
                            plan[i + 2] = then[i]
                    shift(table, k, source)
            k = following
    return best if plan[0] >= 0 else np.inf


@compiled
def mends(table: Table, k: int, d: int, total: float) -> bool:
    """Whether nothing is bad any more, of what is missed in total, once key k is on channel d."""
    routes = table.spent[0] + int(d != table.home[k]) - int(table.channel[k] != table.home[k])
    return bool(routes <= table.max_routes and total + after_shift(table, k, d) <= 0.0)


@compiled
def carry_out(table: Table, plan: Indices) -> None:
    """Do what was found."""
    for i in range(0, len(plan), 2):
        if plan[i] < 0:
            break
        shift(table, plan[i], plan[i + 1])


@compiled
def mend_all(table: Table, work: int) -> None:
    """Mend what is bad with three shifts if those can touch it all."""
    number = 0
    for d in range(len(table.load)):
        number += int(miss(table, d, table.load[d], table.count[d]) > 0.0)
    plan = np.empty(6, dtype=np.int64)
    if number <= len(plan) and mend(table, np.inf, plan, work) < np.inf:
        carry_out(table, plan)


@compiled
def exchange(table: Table, keys: Indices, shifts: int, work: int) -> None:
    """Try to put each moved key back, dearest first, and mend that with so many other shifts, until none can be or so many moves were
    looked at.
    """
    plan = np.empty(6, dtype=np.int64)
    improved = worst(table) < 0
    while improved and table.spent[1] < work:
        improved = False
        for k in keys:
            back, now = table.current[k], table.channel[k]
            if back == now or back >= len(table.high) or table.high[back] == 0.0 or table.spent[1] >= work:
                continue
            budget = table.state[k] * (1.0 - 1e-9)
            shift(table, k, back)
            if mend(table, budget, plan[: 2 * shifts], work) < budget:
                carry_out(table, plan[: 2 * shifts])
                improved = True
            else:
                shift(table, k, now)
