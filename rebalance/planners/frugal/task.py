"""What Frugal is to do: the keys, where they start, and what each channel may hold. Read `frugal` first."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rebalance.planning.exact import TOLERANCE, total
from rebalance.planning.heaviest import heaviest
from rebalance.planning.measure import channel_loads
from rebalance.planning.model import Floats, Indices, Ints, Mask, Request

#: How far beyond (1 ± θ) · fair a limit lies, as a share of it. Loads are exact but limits are rounded, and a load that is at its limit
#: has to be within it. So little that what is within a limit is within θ by the common tolerance, however small θ is.
_SLACK = TOLERANCE / 1000


@dataclass(frozen=True, eq=False)
class Task:
    """What is to be done, whatever the price of a route."""

    cost: Floats
    state: Floats
    home: Ints
    #: Where each key is under the active function.
    current: Ints
    #: Where each key starts: there, or -1 if that channel vanished or is to be drained.
    start: Ints
    movable: Mask
    #: Limits of the load of each channel. Loads are exact, so they are compared as they are.
    low: Floats
    high: Floats
    #: Most keys a channel may hold.
    most: int
    #: Load and number of keys of each channel, and routes, that are there besides.
    other_load: Floats
    other_count: Indices
    other_routes: int

    def load(self, channel: Ints) -> Floats:
        """L(d) with the keys there; those that are nowhere (-1) do not count."""
        return self.other_load + np.bincount(channel + 1, weights=self.cost, minlength=len(self.high) + 1)[1:]

    def count(self, channel: Ints) -> Indices:
        """Keys of each channel with the keys there."""
        return self.other_count + np.bincount(channel + 1, minlength=len(self.high) + 1)[1:]

    def missed(self, load: Floats) -> float:
        """By how much channels with these loads miss their limits, in all."""
        return total(np.maximum(load - self.high, 0.0) + np.maximum(self.low - load, 0.0))

    def only(self, keys: Indices) -> Task:
        """The same task with all other keys staying where they are."""
        others = np.ones(len(self.cost), dtype=np.bool_)
        others[keys] = False
        where, cost = self.start[others], self.cost[others]
        return replace(
            self,
            cost=self.cost[keys],
            state=self.state[keys],
            home=self.home[keys],
            current=self.current[keys],
            start=self.start[keys],
            movable=self.movable[keys],
            other_load=channel_loads(cost, where, len(self.high)),
            other_count=np.bincount(where, minlength=len(self.high)),
            other_routes=int(np.count_nonzero(where != self.home[others])),
        )


def task_of(request: Request, theta: float, most: int) -> Task:
    """Limits of the channels for this θ. A key too heavy for every channel gets one to itself, and the others share what is left."""
    cost, current, fair = request.stats.cost, request.current, request.fair
    movable, stranded = request.movable, request.stranded(current)
    task = Task(
        cost=cost,
        state=request.stats.state,
        home=request.home,
        current=current,
        start=np.where(stranded, np.int32(-1), current),
        movable=movable,
        low=np.maximum(1 - theta, 0.0) * fair * (1 - _SLACK),
        high=(1 + theta) * fair * (1 + _SLACK),
        most=most,
        other_load=np.zeros(len(fair)),
        other_count=np.zeros(len(fair), dtype=np.int64),
        other_routes=0,
    )
    giants = np.flatnonzero(cost > task.high.max())
    return task if not len(giants) else _with_giants(task, giants, fair)


def _with_giants(task: Task, giants: Indices, fair: Floats) -> Task:
    """Each giant keeps its channel, or goes to one with a larger fair load or without another giant, where least state must leave."""
    start, movable = task.start.copy(), task.movable.copy()
    high, free = task.high.copy(), fair > 0
    inhabited = start >= 0
    held = np.bincount(start[inhabited], weights=task.state[inhabited], minlength=len(fair))
    for k in giants[heaviest(task.cost[giants])]:
        if task.movable[k] and free.any():
            best = np.flatnonzero(free & (fair >= fair[free].max() * (1 - TOLERANCE)))
            if start[k] not in best:
                start[k] = task.home[k] if task.home[k] in best else best[np.argmin(held[best])]
        if start[k] >= 0:
            movable[k] = False
            free[start[k]] = False
            high[start[k]] = max(high[start[k]], task.cost[k])
    rest = float(task.cost.sum()) - total(high[~free & (fair > 0)])
    shared = fair * max(rest, 0.0) / max(total(fair[free]), 1e-300)
    low = np.where(free, np.minimum(task.low, task.low / np.maximum(fair, 1e-300) * shared), 0.0)
    return replace(task, start=start, movable=movable, low=low, high=high)
