"""Frugal's picture of a request: what each channel may hold, what each move costs, and one way to settle it. Read `frugal` first."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rebalance.planning.measure import channel_loads
from rebalance.planning.model import Floats, Indices, Ints, Mask, Request

if TYPE_CHECKING:
    from rebalance.planners.frugal.board_kernel import Board

#: Loads closer than this share of all cost are the same load.
ROUNDING = 1e-12
#: Heaviest keys of a channel of which every combination is tried.
_WHOLE = 10
#: One key in so many is always on the shortlist for its weight.
_HEAVY_SHARE = 100


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
    low: Floats
    high: Floats
    #: Most keys a channel may hold.
    most: int
    #: Load and number of keys of each channel, and routes, that are there besides.
    other_load: Floats
    other_count: Indices
    other_routes: int
    #: Loads closer than this are the same load.
    rounding: float

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
        low=np.maximum(1 - theta, 0.0) * fair,
        high=(1 + theta) * fair,
        most=most,
        other_load=np.zeros(len(fair)),
        other_count=np.zeros(len(fair), dtype=np.int64),
        other_routes=0,
        rounding=float(ROUNDING * cost.sum()),
    )
    giants = np.flatnonzero(cost > task.high.max() + task.rounding)
    return task if not len(giants) else _with_giants(task, giants, fair)


def _with_giants(task: Task, giants: Indices, fair: Floats) -> Task:
    """Each giant keeps its channel, or goes to one with a larger fair load or without another giant, where least state must leave."""
    start, movable = task.start.copy(), task.movable.copy()
    high, free = task.high.copy(), fair > 0
    inhabited = start >= 0
    held = np.bincount(start[inhabited], weights=task.state[inhabited], minlength=len(fair))
    for k in giants[np.argsort(-task.cost[giants], kind="stable")]:
        if task.movable[k] and free.any():
            best = np.flatnonzero(free & (fair >= fair[free].max() * (1 - ROUNDING)))
            if start[k] not in best:
                start[k] = task.home[k] if task.home[k] in best else best[np.argmin(held[best])]
        if start[k] >= 0:
            movable[k] = False
            free[start[k]] = False
            high[start[k]] = max(high[start[k]], task.cost[k])
    rest = task.cost.sum() - np.minimum(high, np.inf)[~free & (fair > 0)].sum()
    shared = fair * max(rest, 0.0) / max(float(fair[free].sum()), 1e-300)
    low = np.where(free, np.minimum(task.low, task.low / np.maximum(fair, 1e-300) * shared), 0.0)
    return replace(task, start=start, movable=movable, low=low, high=high)


@dataclass(frozen=True, eq=False)
class Tags:
    """What each move costs at one price of a route."""

    #: Bytes a route is worth.
    route: float
    #: Where the keys are once those whose route is worth more than their state went home.
    channel: Ints
    price: Floats
    settled: Mask
    #: Keys that are nowhere yet, heaviest first.
    pool: Indices
    load: Floats
    count: Indices

    def sheddable(self, cost: Floats) -> Mask:
        """Keys that may be taken off a channel and make a difference there."""
        return ~self.settled & (cost > 0) & (self.channel >= 0)


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
    channel[retired] = task.home[retired]
    price = task.state + route * (channel == task.home)
    pool = np.flatnonzero(channel < 0)
    there = channel if not len(pool) else np.delete(channel, pool)
    cost = task.cost if not len(pool) else np.delete(task.cost, pool)
    load = task.other_load + np.bincount(there, weights=cost, minlength=len(task.high))
    count = task.other_count + np.bincount(there, minlength=len(task.high))
    return Tags(route, channel, price, retired | ~task.movable, _heaviest_first(task, pool), load, count)


def prices_of(task: Task, route: float, retire: float | None = None) -> Prices:
    """Retire what has less state than a route is worth, or than `retire`, price the rest and sort it."""
    tags = _tags_of(task, route, route if retire is None else retire)
    keys = np.flatnonzero(tags.sheddable(task.cost)).astype(np.int32)
    keys = keys[np.argsort(tags.price[keys] / task.cost[keys])]
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
    lacking = max(np.maximum(task.low - tags.load, 0.0).sum() - over.sum(), 0.0)
    enough = 2 * over + 2 * spilt + lacking + task.high / 10
    heaviest = max(len(cost) // _HEAVY_SHARE, 1)
    heavy = sheddable & (cost >= np.partition(cost, -heaviest)[-heaviest])  # they may find no room: the others must do
    listed = heavy | ((task.start != task.home) & task.movable)
    members, starts = group(tags.channel, sheddable & ~heavy, len(task.high))
    ends = select(members, starts, cost / np.maximum(tags.price, 1e-300), cost, enough)
    for first, last in zip(starts[:-1], ends, strict=True):
        listed[members[first:last]] = True
    return np.flatnonzero(listed)


def _heaviest_first(task: Task, keys: Indices) -> Indices:
    return keys[np.argsort(-task.cost[keys], kind="stable")]


def settle(task: Task, prices: Prices, banned: Indices) -> tuple[Ints, float]:
    """Place what is nowhere, shed what is over, gather what is lacking, place that, and so on, until nothing is left to do.

    Returns the channel of each key and by how much the channels miss their limits in all. The banned keys stay.
    """
    from rebalance.planners.frugal import board_kernel as kernel

    settled = prices.settled.copy()
    settled[banned] = True
    settled[prices.pool] = True
    board = kernel.Board(
        task.cost,
        prices.price,
        task.home,
        prices.channel.copy(),
        settled,
        prices.order,
        prices.ends,
        prices.load.copy(),
        task.low,
        task.high,
        prices.count.copy(),
        task.most,
        task.rounding,
    )
    pool, moved = prices.pool, [np.empty(0, dtype=np.int64)]
    stuck = np.zeros(len(task.high), dtype=np.bool_)
    scratch = np.empty(len(prices.order), dtype=np.int64)
    while True:
        kernel.place(board, pool)
        over = (board.load > board.high + board.rounding) | (board.count > board.most)
        taken = [_shed(board, int(d)) for d in np.flatnonzero(over & ~stuck)]
        stuck |= board.load > board.high + board.rounding
        pool = np.concatenate(taken) if taken else moved[0]
        lacking = np.maximum(board.low - board.load, 0.0).sum() - board.cost[pool].sum()
        pool = np.concatenate([pool, scratch[: kernel.gather(board, lacking, scratch)]])
        if not len(pool):
            break
        pool = _heaviest_first(task, pool)
        moved.append(pool)
    undone = np.concatenate(moved)
    kernel.take_back(board, undone[np.argsort(-prices.price[undone], kind="stable")], prices.channel)
    missed = np.maximum(board.load - board.high, 0.0).sum() + np.maximum(board.low - board.load, 0.0).sum()
    return board.channel, float(missed)


def _shed(board: Board, d: int) -> Indices:
    """Take keys off channel d: enough cost to bring it to its limit, and enough of them."""
    from rebalance.planners.frugal import board_kernel as kernel

    keys, prices = _by_price(board, d)
    least = board.load[d] - board.high[d]
    chosen = np.zeros(len(keys), dtype=np.bool_)
    if least > board.rounding:
        chosen[choose(board.cost[keys], prices, least - board.rounding, max(least, board.load[d] - board.low[d]))] = (
            True
        )
    surplus = int(board.count[d]) - board.most - int(chosen.sum())
    if surplus > 0:
        others = np.flatnonzero(~chosen)
        chosen[others[np.argsort(prices[others], kind="stable")[:surplus]]] = True
    for k in keys[chosen]:
        kernel.leave(board, k)
    return keys[chosen]


def _by_price(board: Board, d: int) -> tuple[Indices, Floats]:
    """The keys channel d may shed, least price per cost first, with their prices; a key too heavy for any room bears the price of
    the keys that must make way for it.
    """
    from rebalance.planners.frugal import board_kernel as kernel

    keys = board.order[board.ends[d] : board.ends[d + 1]].astype(np.int64)
    keys = keys[~board.settled[keys]]
    prices = board.price[keys]
    heavy = np.flatnonzero(board.cost[keys] > (board.high - board.load).max())
    if not len(heavy):
        return keys, prices
    prices[heavy] += [kernel.host(board, k)[1] for k in keys[heavy]]
    ranked = np.argsort(prices / board.cost[keys], kind="stable")
    ranked = ranked[np.isfinite(prices[ranked])]
    return keys[ranked], prices[ranked]


def choose(cost: Floats, prices: Floats, least: float, most: float) -> Indices:
    """Positions of keys, given least price per cost first, to shed so that least ≤ Σ cost ≤ most for little price; none if there are none.

    Every combination of the heaviest keys is completed from the others, most promising first, until none can be better even if the
    others could be cut into pieces.
    """
    from rebalance.planners.frugal import board_kernel as kernel

    whole = (
        np.argsort(-cost, kind="stable")[:_WHOLE]
        if len(cost) <= 4 * _WHOLE
        else np.argpartition(-cost, _WHOLE)[:_WHOLE]
    )
    whole = np.sort(whole[cost[whole] > least / 64])
    light = np.ones(len(cost), dtype=np.bool_)
    light[whole] = False
    rest = np.flatnonzero(light)
    rest_cost, rest_prices = cost[rest], prices[rest]
    subsets = np.arange(1 << len(whole))[:, None] >> np.arange(len(whole)) & 1
    shed, paid = subsets @ cost[whole], subsets @ prices[whole]
    sheddable = np.concatenate([[0.0], np.cumsum(rest_cost)])
    pieces = np.interp(least - shed, sheddable, np.concatenate([[0.0], np.cumsum(rest_prices)]))
    # Heavy keys may take the channel below its low limit: others will fill it again, for no less than the cheapest costs.
    filled = np.maximum(shed - most, 0.0) * (prices[0] / cost[0] if len(cost) else 0.0)
    paid += filled
    promise = np.where(least - shed > sheddable[-1], np.inf, paid + pieces)
    best, chosen = np.inf, np.empty(0, dtype=np.int64)
    scratch = np.empty(len(rest), dtype=np.int64)
    for subset in np.argsort(promise, kind="stable"):
        if not promise[subset] < best:
            break
        number, total = kernel.complete(rest_cost, rest_prices, least - shed[subset], most - shed[subset], scratch)
        if paid[subset] + total < best:
            best = paid[subset] + total
            chosen = np.concatenate([whole[subsets[subset] == 1], rest[scratch[:number]]])
    return chosen
