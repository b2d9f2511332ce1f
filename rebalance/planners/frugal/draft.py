"""One way to bring every channel within its limits: shed, gather, place, take back. Read `frugal` first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rebalance.planners.frugal.prices import Prices
from rebalance.planners.frugal.task import Task
from rebalance.planners.frugal.work import Work
from rebalance.planning.exact import total
from rebalance.planning.heaviest import ascending, heaviest
from rebalance.planning.model import Floats, Indices, Ints

if TYPE_CHECKING:
    from rebalance.planners.frugal.draft_kernel import Draft

#: Heaviest keys of a channel of which every combination is tried.
_WHOLE = 10
#: Rounds of shedding, gathering and placing: a handful as a rule; many only where θ_max is next to nothing, and of little use there.
_ROUNDS = 50
_FEW_ROUNDS = 5
#: What a round, and each channel that sheds in it, takes of the work, in looks, besides what it takes for each key.
_LOOKS = 500


def drafted(task: Task, prices: Prices, banned: Indices, work: Work) -> tuple[Ints, float]:
    """Place what is nowhere, shed what is over, gather what is lacking, place that, and so on, until nothing is left to do.

    Returns the channel of each key and by how much the channels miss their limits in all. The banned keys stay.
    """
    from rebalance.planners.frugal import draft_kernel as kernel

    fixed = prices.fixed.copy()
    fixed[banned] = True
    fixed[prices.pool] = True
    draft = kernel.Draft(
        cost=task.cost,
        price=prices.price,
        home=task.home,
        channel=prices.channel.copy(),
        fixed=fixed,
        order=prices.order,
        ends=prices.ends,
        load=prices.load.copy(),
        low=task.low,
        high=task.high,
        count=prices.count.copy(),
        most=task.most,
    )
    pool, moved = prices.pool, [np.empty(0, dtype=np.int64)]
    stuck = np.zeros(len(task.high), dtype=np.bool_)
    scratch = np.empty(len(prices.order), dtype=np.int64)
    for _ in range(_ROUNDS if work.looks > 0 else _FEW_ROUNDS):
        kernel.place(draft, pool)
        over = (draft.load > draft.high) | (draft.count > draft.most)
        taken = [_shed(draft, int(d)) for d in np.flatnonzero(over & ~stuck)]
        stuck |= draft.load > draft.high
        pool = np.concatenate(taken) if taken else moved[0]
        lacking = total(np.maximum(draft.low - draft.load, 0.0)) - float(draft.cost[pool].sum())
        pool = np.concatenate([pool, scratch[: kernel.gather(draft, lacking, scratch)]])
        if not len(pool):
            break
        pool = pool[heaviest(task.cost[pool])]
        moved.append(pool)
        work.take(_LOOKS * (len(taken) + 1) + 2 * len(prices.order))
    else:
        kernel.place(draft, pool)
    undone = np.concatenate(moved)
    kernel.take_back(draft, undone[heaviest(prices.price[undone])], prices.channel)
    return draft.channel, task.missed(draft.load)


def with_moves_taken_back(task: Task, channel: Ints, keys: Indices) -> Ints:
    """The same with these keys, one after the other, back where they started, wherever both channels allow it."""
    from rebalance.planners.frugal import draft_kernel as kernel

    draft = kernel.Draft(
        cost=task.cost,
        price=task.state,
        home=task.home,
        channel=channel.copy(),
        fixed=np.ones(len(channel), dtype=np.bool_),
        order=np.empty(0, dtype=np.int32),
        ends=np.zeros(len(task.high) + 1, dtype=np.int64),
        load=task.load(channel),
        low=task.low,
        high=task.high,
        count=task.count(channel),
        most=task.most,
    )
    kernel.take_back(draft, keys, task.start)
    return draft.channel


def _shed(draft: Draft, d: int) -> Indices:
    """Take keys off channel d: enough cost to bring it to its limit, and enough of them."""
    from rebalance.planners.frugal import draft_kernel as kernel

    keys, prices = _by_price(draft, d)
    least = draft.load[d] - draft.high[d]
    chosen = np.zeros(len(keys), dtype=np.bool_)
    if least > 0.0:
        chosen[choose(draft.cost[keys], prices, least, max(least, draft.load[d] - draft.low[d]))] = True
    surplus = int(draft.count[d]) - draft.most - int(chosen.sum())
    if surplus > 0:
        others = np.flatnonzero(~chosen)
        chosen[others[np.argsort(prices[others], kind="stable")[:surplus]]] = True
    for k in keys[chosen]:
        kernel.leave(draft, k)
    return keys[chosen]


def _by_price(draft: Draft, d: int) -> tuple[Indices, Floats]:
    """The keys channel d may shed, least price per cost first, with their prices; a key too heavy for any room bears the price of
    the keys that must make way for it.
    """
    from rebalance.planners.frugal import draft_kernel as kernel

    keys = draft.order[draft.ends[d] : draft.ends[d + 1]].astype(np.int64)
    keys = keys[~draft.fixed[keys]]
    prices = draft.price[keys]
    heavy = np.flatnonzero(draft.cost[keys] > (draft.high - draft.load).max())
    if not len(heavy):
        return keys, prices
    prices[heavy] += [kernel.host(draft, k)[1] for k in keys[heavy]]
    ranked = ascending(prices / draft.cost[keys])
    ranked = ranked[np.isfinite(prices[ranked])]
    return keys[ranked], prices[ranked]


def choose(cost: Floats, prices: Floats, least: float, most: float) -> Indices:
    """Positions of keys, given least price per cost first, to shed so that least ≤ Σ cost ≤ most for little price; none if there are none.

    Every combination of the heaviest keys is completed from the others, most promising first, until none can be better even if the
    others could be cut into pieces.
    """
    from rebalance.planners.frugal import draft_kernel as kernel

    whole = heaviest(cost, _WHOLE)
    whole = np.sort(whole[cost[whole] > least / 64])
    light = np.ones(len(cost), dtype=np.bool_)
    light[whole] = False
    rest = np.flatnonzero(light)
    rest_cost, rest_prices = cost[rest], prices[rest]
    shed, paid = _sums_of_subsets(cost[whole]), _sums_of_subsets(prices[whole])
    # Heavy keys may take the channel below its low limit: others will fill it again, for no less than the cheapest costs.
    paid += np.maximum(shed - most, 0.0) * (prices[0] / cost[0] if len(cost) else 0.0)
    promise = paid + _in_pieces(rest_cost, rest_prices, least - shed)
    best, chosen = np.inf, np.empty(0, dtype=np.int64)
    scratch = np.empty(len(rest), dtype=np.int64)
    for subset in np.argsort(promise, kind="stable"):
        if not promise[subset] < best:
            break
        number, price = kernel.complete(rest_cost, rest_prices, least - shed[subset], most - shed[subset], scratch)
        if paid[subset] + price < best:
            best = paid[subset] + price
            taken = whole[subset >> np.arange(len(whole)) & 1 == 1]
            chosen = np.concatenate([taken, rest[scratch[:number]]])
    return chosen


def _sums_of_subsets(values: Floats) -> Floats:
    """The sum of every subset: value i is in subset s if bit i of s is set."""
    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate([sums, sums + value])
    return sums


def _in_pieces(cost: Floats, prices: Floats, wanted: Floats) -> Floats:
    """Least price at which keys, given least price per cost first and cut into pieces, shed so much; infinite if they cannot."""
    shed, paid = (np.concatenate([[0.0], np.cumsum(column)]) for column in (cost, prices))
    last = np.maximum(np.searchsorted(shed, wanted) - 1, 0)
    part = np.maximum(wanted - shed[last], 0.0) * np.append(prices / cost, 0.0)[last]
    return np.where(wanted > shed[-1], np.inf, paid[last] + part)
