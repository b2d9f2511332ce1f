"""The loops of Frugal as machine code. Read `frugal` and `draft` first.

Kept to plain loops over scalars: sorting and fancy indexing would take the compiler half a minute.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rebalance.compiled import compiled
from rebalance.planning.model import Floats, Indices, Ints, Mask


class Draft(NamedTuple):
    """The keys and channels while a plan is being made; `channel`, `fixed`, `load` and `count` change."""

    cost: Floats
    #: What moving a key costs: its state and, if it leaves home, the price of a route.
    price: Floats
    home: Ints
    #: Where each key is now, or was before it was taken off; -1 = nowhere.
    channel: Ints
    #: Keys that do not move (again): pinned ones and those that have moved.
    fixed: Mask
    #: The keys with a cost, channel by channel, least price per cost first: order[ends[d] : ends[d + 1]].
    order: Ints
    ends: Indices
    load: Floats
    low: Floats
    high: Floats
    count: Indices  # type: ignore[assignment]  # a tuple's own count() is not wanted
    #: Most keys a channel may hold.
    most: int


@compiled
def leave(draft: Draft, k: int) -> None:
    """Take key k off its channel; it remembers where it was until it is placed."""
    draft.fixed[k] = True
    draft.load[draft.channel[k]] -= draft.cost[k]
    draft.count[draft.channel[k]] -= 1


@compiled
def arrive(draft: Draft, k: int, d: int) -> None:
    """Put key k, taken off before, on channel d."""
    draft.load[d] += draft.cost[k]
    draft.count[d] += 1
    draft.channel[k] = d


@compiled
def fits(draft: Draft, k: int, d: int) -> bool:
    """Whether channel d has room for key k."""
    return bool(draft.load[d] + draft.cost[k] <= draft.high[d] and draft.count[d] < draft.most)


@compiled
def lacks(draft: Draft, d: int) -> float:
    """How much channel d is too low."""
    return float(max(draft.low[d] - draft.load[d], 0.0))


@compiled
def price_of(draft: Draft, d: int, amount: float) -> float:
    """Least price at which the keys of channel d, cut into pieces, shed this much; infinite if they cannot."""
    paid = 0.0
    for i in range(draft.ends[d], draft.ends[d + 1]):
        if amount <= 0.0:
            break
        k = draft.order[i]
        if not draft.fixed[k]:
            paid += draft.price[k] * min(amount / draft.cost[k], 1.0)
            amount -= draft.cost[k]
    return paid if amount <= 0.0 else np.inf


@compiled
def host(draft: Draft, k: int) -> tuple[int, float]:
    """The channel where making way for key k costs least, and that price; -1 if there is none."""
    best, least = -1, np.inf
    for d in range(len(draft.load)):
        if d != draft.channel[k] and draft.cost[k] <= draft.high[d] and draft.count[d] < draft.most:
            paid = price_of(draft, d, draft.load[d] + draft.cost[k] - draft.high[d])
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
def gather(draft: Draft, wanted: float, taken: Indices) -> int:
    """Take keys off channels that can spare them, least price per cost first and none larger than what is still wanted, then the cheapest
    that is; returns how many.
    """
    at = draft.ends[:-1].copy()
    number = 0
    while wanted > 0.0:
        best, least = -1, np.inf
        for d in range(len(at)):
            while at[d] < draft.ends[d + 1] and not spare(draft, d, draft.order[at[d]], wanted):
                at[d] += 1
            if at[d] < draft.ends[d + 1]:
                k = draft.order[at[d]]
                if draft.price[k] / draft.cost[k] < least:
                    best, least = k, draft.price[k] / draft.cost[k]
        if best < 0:
            best = cheapest_spare(draft)
        if best < 0:
            break
        wanted -= draft.cost[best]
        taken[number] = best
        number += 1
        leave(draft, best)
    return number


@compiled
def spare(draft: Draft, d: int, k: int, most: float) -> bool:
    """Whether key k costs no more than `most`, channel d is high enough without it, and a channel that is too low has room for it."""
    if draft.fixed[k] or draft.cost[k] > most or draft.load[d] - draft.cost[k] < draft.low[d]:
        return False
    for t in range(len(draft.load)):  # noqa: SIM110 - a generator is nothing for the compiler
        if lacks(draft, t) > 0.0 and fits(draft, k, t):
            return True
    return False


@compiled
def cheapest_spare(draft: Draft) -> int:
    """The key of least price that can be spared; -1 if there is none."""
    best, least = -1, np.inf
    for d in range(len(draft.load)):
        for i in range(draft.ends[d], draft.ends[d + 1]):
            k = draft.order[i]
            if draft.price[k] < least and spare(draft, d, k, np.inf):
                best, least = k, draft.price[k]
    return best


@compiled
def place(draft: Draft, pool: Indices) -> None:
    """Put the keys of the pool, given heaviest first, on channels with room: at home if the others can still fill what is too low,
    else where there is most room, else where making way for them costs least.
    """
    left, lacking = 0.0, 0.0
    for k in pool:
        left += draft.cost[k]
    for d in range(len(draft.load)):
        lacking += lacks(draft, d)
    for k in pool:
        c, target = draft.cost[k], draft.home[k]
        wasted = c - min(c, lacks(draft, target))
        if target == draft.channel[k] or not fits(draft, k, target) or wasted > left - lacking:
            target = roomiest(draft, k)
        if target < 0:
            target = host(draft, k)[0]
        if target < 0:
            target = least_harm(draft, k)
        left -= c
        lacking -= min(c, lacks(draft, target))
        arrive(draft, k, target)


@compiled
def roomiest(draft: Draft, k: int) -> int:
    """The channel with most room, relative to its limit, that key k fits on; not where it comes from; -1 if none."""
    best, most = -1, -np.inf
    for d in range(len(draft.load)):
        if d != draft.channel[k] and draft.high[d] > 0 and fits(draft, k, d):
            room = 1.0 - draft.load[d] / draft.high[d]
            if room > most:
                best, most = d, room
    return best


@compiled
def least_harm(draft: Draft, k: int) -> int:
    """The open channel that is fullest by least with key k on it."""
    best, least = -1, np.inf
    for d in range(len(draft.load)):
        if draft.high[d] > 0 and (draft.load[d] + draft.cost[k]) / draft.high[d] < least:
            best, least = d, (draft.load[d] + draft.cost[k]) / draft.high[d]
    return best


@compiled
def take_back(draft: Draft, moved: Indices, origin: Ints) -> None:
    """Undo moves, given dearest first, that turned out not to be needed."""
    for k in moved:
        d, now = origin[k], draft.channel[k]
        spared = draft.load[now] - draft.cost[k] >= draft.low[now]
        if d >= 0 and d != now and spared and fits(draft, k, d):
            leave(draft, k)
            arrive(draft, k, d)
