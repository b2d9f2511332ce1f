"""A walk through plans from a good one, as machine code: the last resort of Frugal where there are few keys. Read `exchange_kernel` first.

Simulated annealing: at each step one key is shifted, or a moved key goes back and another leaves in its place, and a step that makes the
plan dearer is taken with a probability that sinks. What channels miss and what the table exceeds has a price, so that the walk may go through
plans that break a limit; only plans that break none are remembered. The random numbers are seeded: the same plan gives the same walk.
"""

from __future__ import annotations

import numpy as np

from rebalance.compiled import compiled
from rebalance.model import Indices, Ints
from rebalance.planners.exchange_kernel import Table, after_shift, missed, price, shift

#: Draws to find a key on a certain channel before the step is given up.
_DRAWS = 40


@compiled
def anneal(table: Table, keys: Indices, steps: int, hot: float, cold: float, per_cost: float, per_route: float) -> Ints:
    """The cheapest plan within all limits met on the way, the given one among them; where the walk ended if there was none.

    Temperatures are in bytes. A unit of load beyond the limits counts `per_cost` bytes, a route beyond max_routes `per_route`.
    """
    np.random.seed(1)  # of compiled code, which knows no generators; numpy's own state is another
    best = table.channel.copy()
    bytes_now, least = 0.0, np.inf
    if table.spent[0] <= table.max_routes and missed(table) <= 0.0:
        least = 0.0
    cooling = (cold / hot) ** (1.0 / steps)
    heat = hot
    first, second, third = 0, 0, 0
    for _ in range(steps):
        heat *= cooling
        first = keys[np.random.randint(len(keys))]
        was, back = table.channel[first], table.current[first]
        moved = back < len(table.high) and back != was and table.high[back] > 0.0
        second = -1
        if moved and np.random.random() < 0.5:
            target = back
            second = drawn_from(table, keys, back)
        else:
            target = drawn_channel(table, first)
        if target == was or table.high[target] == 0.0:
            continue
        paid, change = step(table, first, target, per_cost, per_route)
        third = -1
        if second >= 0 and second != first:
            third = table.channel[second]
            more, other = step(table, second, was, per_cost, per_route)
            paid, change = paid + more, change + other
        if change <= 0.0 or np.random.random() < np.exp(-change / heat):
            bytes_now += paid
            if bytes_now < least - 1e-9 * hot and table.spent[0] <= table.max_routes and missed(table) <= 0.0:
                least = bytes_now
                best[:] = table.channel
        else:
            if third >= 0:
                shift(table, second, third)
            shift(table, first, was)
    if least == np.inf:
        best[:] = table.channel
    return best


@compiled
def step(table: Table, k: int, d: int, per_cost: float, per_route: float) -> tuple[float, float]:
    """Shift key k to channel d; what that costs in bytes, and with what it breaks or no longer breaks."""
    paid = price(table, k, d)
    change = paid + per_cost * after_shift(table, k, d)
    before = max(table.spent[0] - table.max_routes, 0)
    shift(table, k, d)
    return paid, change + per_route * (max(table.spent[0] - table.max_routes, 0) - before)


@compiled
def drawn_channel(table: Table, k: int) -> int:
    """Where key k might go: where it came from, home, or anywhere."""
    kind = np.random.randint(4)
    if kind == 0 and table.current[k] < len(table.high):
        return int(table.current[k])
    if kind == 1:
        return int(table.home[k])
    return int(np.random.randint(len(table.high)))


@compiled
def drawn_from(table: Table, keys: Indices, d: int) -> int:
    """A key that has not left channel d; -1 if none was drawn."""
    for _ in range(_DRAWS):
        k = keys[np.random.randint(len(keys))]
        if table.channel[k] == d and table.current[k] == d:
            return int(k)
    return -1
