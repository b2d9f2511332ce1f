"""Small exchanges and a walk through neighbouring plans that make a plan cheaper: the last steps of Frugal on problems small enough for them to matter.

*Exchanges:* a moved key goes back where it came from, and what that breaks is mended by at most two other moves that cost less together, until no such
exchange is left. *Walk:* simulated annealing from a plan, which may go through plans that break a limit (`anneal_kernel`). With many keys
there is always one of just the right size, and nothing to gain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rebalance.model import Ints
from rebalance.planners.frugal_board import Task

if TYPE_CHECKING:
    from rebalance.planners.exchange_kernel import Table

#: Most keys for which exchanges are tried, and most for which walks are: with more of them walks found next to nothing.
MOST_KEYS = 4000
MOST_WALKED = 500
#: Moves that are looked at; about a tenth of a second.
_WORK = 500_000
#: Steps of a walk: so many for each key, and never more than that, about two tenths of a second.
_STEPS_PER_KEY = 1_500
_STEPS = 500_000
#: Temperature at the end of a walk, in bytes of a typical moved key.
_COLD = 0.001
#: What a unit of load beyond a limit counts, in the bytes per cost of what moved, and a route too many, in bytes of a typical moved key.
_PER_COST = 8.0
_PER_ROUTE = 5.0


def exchanged(task: Task, channel: Ints, max_routes: int, *, thorough: bool = False) -> tuple[Ints, float]:
    """The assignment after all exchanges that help, and by how much its channels miss their limits."""
    from rebalance.planners import exchange_kernel as kernel
    from rebalance.planners.repair_kernel import repair

    table = _table_of(task, channel, max_routes)
    work = _WORK * (10 if thorough else 1)
    kernel.mend_all(table, work)
    repair(table, 4 * _WORK)
    kernel.exchange(table, np.argsort(-task.state, kind="stable"), 3 if thorough else 2, work)
    return table.channel, float(kernel.missed(table))


def walked(task: Task, channel: Ints, max_routes: int, hot: float) -> Ints:
    """The cheapest assignment within all limits met on a walk that starts at this temperature, or where the walk ended if there was none."""
    from rebalance.planners.anneal_kernel import anneal

    moved = channel != task.current
    keys = np.flatnonzero(task.movable & (task.cost > 0))
    cost, state = float(task.cost[moved].sum()), float(task.state[moved].sum())
    if not len(keys) or not (cost > 0 and state > 0):
        return channel
    keys = keys[np.lexsort((keys, task.state[keys], -task.cost[keys]))]  # the same walk whatever the keys are called
    typical = state / np.count_nonzero(moved)
    table = _table_of(task, channel, max_routes)
    steps = min(_STEPS, _STEPS_PER_KEY * len(keys))
    return anneal(table, keys, steps, hot * typical, _COLD * typical, _PER_COST * state / cost, _PER_ROUTE * typical)


def _table_of(task: Task, channel: Ints, max_routes: int) -> Table:
    from rebalance.planners import exchange_kernel as kernel

    channels = len(task.high)
    routes = int(np.count_nonzero(channel != task.home))
    channel = channel.copy()
    table = kernel.Table(
        task.cost,
        task.state,
        task.current,
        task.home,
        task.movable,
        channel,
        task.other_load + np.bincount(channel, weights=task.cost, minlength=channels),
        task.low,
        task.high,
        task.other_count + np.bincount(channel, minlength=channels),
        np.empty(channels, dtype=np.int64),
        np.empty(len(channel), dtype=np.int64),
        np.empty(len(channel), dtype=np.int64),
        np.array([routes, 0]),
        max_routes - task.other_routes,
        task.most,
        10 * task.rounding,
    )
    kernel.fill_lists(table)
    return table
