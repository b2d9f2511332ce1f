"""What Frugal is to do: the keys, where they start, and what each channel may hold. Read `frugal` first."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rebalance.planning.bounds_theta import Reach, reach
from rebalance.planning.exact import TOLERANCE, total
from rebalance.planning.measure import channel_loads
from rebalance.planning.model import Floats, Indices, Ints, Mask, Request

#: How far beyond (1 ± θ) · fair a limit lies, as a share of it. Loads are exact but limits are rounded, and a load that is at its limit
#: has to be within it. So little that what is within a limit is within θ by the common tolerance, however small θ is.
_SLACK = TOLERANCE / 1000
#: How exactly the bounds on what can be reached are known, as a share of the fair load.
_KNOWN_TO = TOLERANCE / 2
#: What a key too many on a channel counts as, as a share of all cost: less than any load that matters, more than a rounding.
_SURPLUS = 1e-8


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
    fair: Floats
    #: How near to the fair loads any plan can come.
    reach: Reach
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

    def missed_by(self, channel: Ints) -> float:
        """The same for the keys there, with a little for each key too many on a channel."""
        surplus = np.maximum(self.count(channel) - self.most, 0)
        return self.missed(self.load(channel)) + float(surplus.sum()) * self.surplus

    @property
    def surplus(self) -> float:
        """What a key too many on a channel counts as."""
        return _SURPLUS * float(self.cost.sum())

    def routes(self, channel: Ints) -> int:
        """The size of the table with the keys there."""
        return self.other_routes + int(np.count_nonzero(channel != self.home))

    def at(self, theta: float) -> Task:
        """The same task for this θ; nobody is asked to fill a channel that cannot be filled."""
        below = self.reach.below + _KNOWN_TO if self.reach.below > theta else theta
        low = np.maximum(1 - below, 0.0) * self.fair * (1 - _SLACK)
        return replace(self, low=low, high=(1 + theta) * self.fair * (1 + _SLACK))

    def least_theta(self, theta: float) -> float:
        """This θ, or, if no plan can come within it, the least at which one may."""
        return self.reach.above + _KNOWN_TO if self.reach.above > theta else theta

    def nearness(self, load: Floats) -> float:
        """The least θ that these loads are within; of channels that nobody can fill, only the fullness counts."""
        used = self.fair > 0
        if not used.any():
            return 0.0
        share = load[used] / self.fair[used]
        below = 1.0 - float(share.min())
        return max(float(share.max()) - 1.0, below if below > self.reach.below + TOLERANCE else 0.0, 0.0)

    def theta_of(self, channel: Ints) -> float:
        """The least θ at which the task is met by the keys there; infinite if a channel has too many of them."""
        crowded = bool((self.count(channel)[self.fair > 0] > self.most).any())
        return float("inf") if crowded else self.nearness(self.load(channel))

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
    """What is to be done to come within θ."""
    fair, stranded = request.fair, request.stranded(request.current)
    task = Task(
        cost=request.stats.cost,
        state=request.stats.state,
        home=request.home,
        current=request.current,
        start=np.where(stranded, np.int32(-1), request.current),
        movable=request.movable,
        fair=fair,
        reach=reach(request),
        low=fair,
        high=fair,
        most=most,
        other_load=np.zeros(len(fair)),
        other_count=np.zeros(len(fair), dtype=np.int64),
        other_routes=0,
    )
    return task.at(theta)
