"""What moves cost at a price of a route, and which keys a plan may need at it. Read `frugal` first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rebalance.planners.frugal.task import Task
from rebalance.planning.exact import total
from rebalance.planning.heaviest import ascending, heaviest
from rebalance.planning.model import Floats, Indices, Ints, Mask

#: One key in so many is always on the shortlist for its weight.
_HEAVY_SHARE = 100


@dataclass(frozen=True, eq=False)
class Tags:
    """What each move costs at one price of a route."""

    #: Bytes a route is worth.
    route: float
    #: Where the keys are once those whose route is worth more than their state went home.
    channel: Ints
    price: Floats
    #: Keys that stay where they are now: pinned ones, and those that went home.
    fixed: Mask
    #: Keys that are nowhere yet, heaviest first.
    pool: Indices
    load: Floats
    count: Indices

    def sheddable(self, cost: Floats) -> Mask:
        """Keys that may be taken off a channel and make a difference there."""
        return ~self.fixed & (cost > 0) & (self.channel >= 0)


@dataclass(frozen=True, eq=False)
class Prices(Tags):
    """The same, with the keys in the order of price per cost, channel by channel."""

    order: Ints
    ends: Indices


def _tags_of(task: Task, route: float, retire: float) -> Tags:
    channel = task.start.copy()
    idle = (channel < 0) & (task.cost == 0)
    away = task.movable & (channel >= 0) & (channel != task.home)
    retired = idle | (away & (task.state < retire))
    crowded = task.load(np.where(retired, task.home, channel)) > task.high
    retired &= (
        idle | ~crowded[task.home]
    )  # not to a channel that they would fill beyond its limit, where they could not leave again
    channel[retired] = task.home[retired]
    price = task.state + route * (channel == task.home)
    pool = np.flatnonzero(channel < 0)
    pool = pool[heaviest(task.cost[pool])]
    return Tags(route, channel, price, retired | ~task.movable, pool, task.load(channel), task.count(channel))


def prices_of(task: Task, route: float, retire: float | None = None) -> Prices:
    """Retire what has less state than a route is worth, or than `retire`, price the rest and sort it."""
    tags = _tags_of(task, route, route if retire is None else retire)
    keys = np.flatnonzero(tags.sheddable(task.cost)).astype(np.int32)
    keys = keys[ascending(tags.price[keys] / task.cost[keys])]
    where = tags.channel[keys].astype(np.int16 if len(task.high) < 1 << 15 else np.int32)
    keys = keys[np.argsort(where, kind="stable")]
    ends = np.searchsorted(tags.channel[keys], np.arange(len(task.high) + 1))
    return Prices(**vars(tags), order=keys, ends=ends)


def shortlist(task: Task, route: float) -> Indices:
    """The keys a plan may need at this price of a route or a higher one: those away from home or nowhere, on each channel the cheapest per cost, up to several
    times what it is about, and the heaviest of all.
    """
    from rebalance.planning.sorting_kernel import group, select

    tags = _tags_of(task, route, route)
    cost, sheddable = task.cost, tags.sheddable(task.cost)
    over, room = np.maximum(tags.load - task.high, 0.0), (task.high - tags.load).max()
    spilt = max(cost.max(initial=0.0, where=sheddable) - room, 0.0)
    lacking = max(total(np.maximum(task.low - tags.load, 0.0)) - total(over), 0.0)
    enough = 2 * over + 2 * spilt + lacking + task.high / 10
    number = max(len(cost) // _HEAVY_SHARE, 1)
    heavy = sheddable & (cost >= np.partition(cost, -number)[-number])  # they may find no room: the others must do
    listed = heavy | ((task.start != task.home) & task.movable)
    members, starts = group(tags.channel, sheddable & ~heavy, len(task.high))
    ends = select(members, starts, cost / np.maximum(tags.price, 1e-300), cost, enough)
    for first, last in zip(starts[:-1], ends, strict=True):
        listed[members[first:last]] = True
    return np.flatnonzero(listed)
