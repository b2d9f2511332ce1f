"""The loops of Frugal as machine code. Read `frugal` and `board` first.

Kept to plain loops over scalars: sorting and fancy indexing would take the compiler half a minute.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rebalance.compiled import compiled
from rebalance.planning.model import Floats, Indices, Ints, Mask


class Board(NamedTuple):
    """The keys and channels while a plan is being made; `channel`, `settled`, `load` and `count` change."""

    cost: Floats
    #: What moving a key costs: its state and, if it leaves home, the price of a route.
    price: Floats
    home: Ints
    #: Where each key is now, or was before it was taken off; -1 = nowhere.
    channel: Ints
    #: Keys that do not move (again): pinned ones and those that have moved.
    settled: Mask
    #: The keys with a cost, channel by channel, least price per cost first: order[ends[d] : ends[d + 1]].
    order: Ints
    ends: Indices
    load: Floats
    low: Floats
    high: Floats
    count: Indices  # type: ignore[assignment]  # a tuple's own count() is not wanted
    #: Most keys a channel may hold.
    most: int
    #: Loads closer than this are the same load.
    rounding: float


@compiled
def leave(board: Board, k: int) -> None:
    """Take key k off its channel; it remembers where it was until it is placed."""
    board.settled[k] = True
    board.load[board.channel[k]] -= board.cost[k]
    board.count[board.channel[k]] -= 1


@compiled
def arrive(board: Board, k: int, d: int) -> None:
    """Put key k, taken off before, on channel d."""
    board.load[d] += board.cost[k]
    board.count[d] += 1
    board.channel[k] = d


@compiled
def fits(board: Board, k: int, d: int) -> bool:
    """Whether channel d has room for key k."""
    return bool(board.load[d] + board.cost[k] <= board.high[d] + board.rounding and board.count[d] < board.most)


@compiled
def lacks(board: Board, d: int) -> float:
    """How much channel d is too low."""
    return float(max(board.low[d] - board.load[d], 0.0))


@compiled
def price_of(board: Board, d: int, amount: float) -> float:
    """Least price at which the keys of channel d, cut into pieces, shed this much; infinite if they cannot."""
    paid = 0.0
    for i in range(board.ends[d], board.ends[d + 1]):
        if amount <= 0.0:
            break
        k = board.order[i]
        if not board.settled[k]:
            paid += board.price[k] * min(amount / board.cost[k], 1.0)
            amount -= board.cost[k]
    return paid if amount <= 0.0 else np.inf


@compiled
def host(board: Board, k: int) -> tuple[int, float]:
    """The channel where making way for key k costs least, and that price; -1 if there is none."""
    best, least = -1, np.inf
    for d in range(len(board.load)):
        if d != board.channel[k] and board.cost[k] <= board.high[d] and board.count[d] < board.most:
            paid = price_of(board, d, board.load[d] + board.cost[k] - board.high[d])
            if paid < least:
                best, least = d, paid
    return best, least


@compiled
def complete(cost: Floats, prices: Floats, least: float, most: float, chosen: Indices) -> tuple[int, float]:
    """Put positions of keys, given least price per cost first, into `chosen` so that least ≤ Σ cost ≤ most; returns how many they are,
    and their price, infinite if there are none.

    Takes each key that leaves something to shed and remembers the cheapest way to finish with one key more. Ends as soon as no
    later key can finish cheaper.
    """
    number, finished, last = 0, 0, -1
    shed, paid, best = 0.0, 0.0, np.inf
    if least <= 0.0:
        return 0, 0.0
    for i in range(len(cost)):
        if best <= paid + prices[i] / cost[i] * (least - shed):
            break
        if shed + cost[i] < least:
            chosen[number] = i
            number += 1
            shed += cost[i]
            paid += prices[i]
        elif shed + cost[i] <= most and paid + prices[i] < best:
            best, finished, last = paid + prices[i], number, i
    if last >= 0:
        chosen[finished] = last
    return finished + 1, best


@compiled
def gather(board: Board, wanted: float, taken: Indices) -> int:
    """Take keys off channels that can spare them, least price per cost first and none larger than what is still wanted, then the cheapest
    that is; returns how many.
    """
    at = board.ends[:-1].copy()
    number = 0
    while wanted > board.rounding:
        best, least = -1, np.inf
        for d in range(len(at)):
            while at[d] < board.ends[d + 1] and not spare(board, d, board.order[at[d]], wanted):
                at[d] += 1
            if at[d] < board.ends[d + 1]:
                k = board.order[at[d]]
                if board.price[k] / board.cost[k] < least:
                    best, least = k, board.price[k] / board.cost[k]
        if best < 0:
            best = cheapest_spare(board)
        if best < 0:
            break
        wanted -= board.cost[best]
        taken[number] = best
        number += 1
        leave(board, best)
    return number


@compiled
def spare(board: Board, d: int, k: int, most: float) -> bool:
    """Whether key k costs no more than `most`, channel d is high enough without it, and a channel that is too low has room for it."""
    if board.settled[k] or board.cost[k] > most or board.load[d] - board.cost[k] < board.low[d]:
        return False
    for t in range(len(board.load)):  # noqa: SIM110 - a generator is nothing for the compiler
        if lacks(board, t) > board.rounding and fits(board, k, t):
            return True
    return False


@compiled
def cheapest_spare(board: Board) -> int:
    """The key of least price that can be spared; -1 if there is none."""
    best, least = -1, np.inf
    for d in range(len(board.load)):
        for i in range(board.ends[d], board.ends[d + 1]):
            k = board.order[i]
            if board.price[k] < least and spare(board, d, k, np.inf):
                best, least = k, board.price[k]
    return best


@compiled
def place(board: Board, pool: Indices) -> None:
    """Put the keys of the pool, given heaviest first, on channels with room: at home if the others can still fill what is too low,
    else where there is most room, else where making way for them costs least.
    """
    left, lacking = 0.0, 0.0
    for k in pool:
        left += board.cost[k]
    for d in range(len(board.load)):
        lacking += lacks(board, d)
    for k in pool:
        c, target = board.cost[k], board.home[k]
        wasted = c - min(c, lacks(board, target))
        if target == board.channel[k] or not fits(board, k, target) or wasted > left - lacking:
            target = roomiest(board, k)
        if target < 0:
            target = host(board, k)[0]
        if target < 0:
            target = least_harm(board, k)
        left -= c
        lacking -= min(c, lacks(board, target))
        arrive(board, k, target)


@compiled
def roomiest(board: Board, k: int) -> int:
    """The channel with most room, relative to its limit, that key k fits on; not where it comes from; -1 if none."""
    best, most = -1, -np.inf
    for d in range(len(board.load)):
        if d != board.channel[k] and board.high[d] > 0 and fits(board, k, d):
            room = 1.0 - board.load[d] / board.high[d]
            if room > most:
                best, most = d, room
    return best


@compiled
def least_harm(board: Board, k: int) -> int:
    """The open channel that is fullest by least with key k on it."""
    best, least = -1, np.inf
    for d in range(len(board.load)):
        if board.high[d] > 0 and (board.load[d] + board.cost[k]) / board.high[d] < least:
            best, least = d, (board.load[d] + board.cost[k]) / board.high[d]
    return best


@compiled
def take_back(board: Board, moved: Indices, origin: Ints) -> None:
    """Undo moves, given dearest first, that turned out not to be needed."""
    for k in moved:
        d, now = origin[k], board.channel[k]
        spared = board.load[now] - board.cost[k] >= board.low[now] - board.rounding
        if d >= 0 and d != now and spared and fits(board, k, d):
            leave(board, k)
            arrive(board, k, d)
