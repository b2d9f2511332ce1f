"""Small exchanges that make a plan cheaper: a late step of Frugal on problems small enough for them to matter.

A moved key goes back where it came from, and what that breaks is mended by at most two other moves that cost less together, until no such
exchange is left. With many keys there is always one of just the right size, and nothing to gain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rebalance.planners.frugal.board import Task
from rebalance.planning.model import Ints

if TYPE_CHECKING:
    from rebalance.planners.frugal.exchange_kernel import Table

#: Most keys for which exchanges are tried.
MOST_KEYS = 4000
#: Moves that are looked at; about a tenth of a second.
_WORK = 500_000


def exchanged(task: Task, channel: Ints, max_routes: int, *, thorough: bool = False) -> tuple[Ints, float]:
    """The assignment after all exchanges that help, and by how much its channels miss their limits."""
    from rebalance.planners.frugal import exchange_kernel as kernel
    from rebalance.planners.frugal.repair_kernel import repair

    table = _table_of(task, channel, max_routes)
    work = _WORK * (10 if thorough else 1)
    kernel.mend_all(table, work)
    repair(table, 4 * _WORK)
    kernel.exchange(table, np.argsort(-task.state, kind="stable"), 3 if thorough else 2, work)
    return table.channel, float(kernel.missed(table))


def missed_by(task: Task, channel: Ints) -> float:
    """By how much the channels miss their limits."""
    from rebalance.planners.frugal.exchange_kernel import missed

    return float(missed(_table_of(task, channel, len(channel))))


def _table_of(task: Task, channel: Ints, max_routes: int) -> Table:
    from rebalance.planners.frugal import exchange_kernel as kernel

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
