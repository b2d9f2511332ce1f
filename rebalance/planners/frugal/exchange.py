"""Small exchanges that make a plan cheaper: a late step of Frugal on problems small enough for them to matter.

A moved key goes back where it came from, and what that breaks is mended by at most two other moves that cost less together, until no such
exchange is left. With many keys there is always one of just the right size, and nothing to gain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rebalance.planners.frugal.task import Task
from rebalance.planners.frugal.work import Work
from rebalance.planning.heaviest import heaviest
from rebalance.planning.model import Ints

if TYPE_CHECKING:
    from rebalance.planners.frugal.exchange_kernel import Places

#: Most keys for which exchanges are tried.
MOST_KEYS = 4000


def exchanged(task: Task, channel: Ints, max_routes: int, work: Work, *, thorough: bool = False) -> tuple[Ints, float]:
    """The assignment after all exchanges that help, and by how much its channels miss their limits."""
    from rebalance.planners.frugal import exchange_kernel as kernel
    from rebalance.planners.frugal.repair_kernel import repair

    places = _places(task, channel, max_routes)
    looks = max(min(work.thorough if thorough else work.round, work.looks), 0)
    kernel.mend_all(places, looks)
    looked = repair(places, looks)
    kernel.exchange(places, heaviest(task.state), 3 if thorough else 2, looks)
    work.take(looked + int(places.spent[1]))
    return places.channel, float(kernel.missed(places))


def _places(task: Task, channel: Ints, max_routes: int) -> Places:
    from rebalance.planners.frugal import exchange_kernel as kernel

    channels, keys = len(task.high), len(channel)
    places = kernel.Places(
        cost=task.cost,
        state=task.state,
        current=task.current,
        home=task.home,
        movable=task.movable,
        channel=channel.copy(),
        load=task.load(channel),
        low=task.low,
        high=task.high,
        count=task.count(channel),
        first=np.empty(channels, dtype=np.int64),
        after=np.empty(keys, dtype=np.int64),
        before=np.empty(keys, dtype=np.int64),
        spent=np.array([task.routes(channel) - task.other_routes, 0]),
        max_routes=max_routes - task.other_routes,
        most=task.most,
        surplus=task.surplus,
    )
    kernel.fill_lists(places)
    return places
