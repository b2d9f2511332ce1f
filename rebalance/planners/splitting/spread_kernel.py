"""How tuples of heavy keys run to channels under the splitting schemes, as machine code. Read `spread` first.

Every function takes `load` (what the bins hold already; it is added to), the keys that come, and a table `amount` of keys × channels
that it fills in. A key's tuples are a fluid: where a scheme sends one tuple after the other to the bin with the least load, the fluid
rises in these bins to one level.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rebalance.compiled import compiled
from rebalance.planning.exact import TOLERANCE
from rebalance.planning.exact_kernel import clearly_less
from rebalance.planning.model import Floats, Ints

#: Salts tried per bin before bins are taken in their order.
SALTS_PER_BIN = 8
#: Parts per channel into which a key is cut where every tuple draws channels of its own.
PARTS_PER_CHANNEL = 8
#: Part of a key that its first bin takes before any other key comes, as far as there is room.
FIRST = 0.01


class Coming(NamedTuple):
    """The keys in the order in which they come."""

    cost: Floats
    #: Ring slot: what is hashed.
    slot: Ints
    #: The bin each tries first.
    first: Ints


class Bins(NamedTuple):
    """What bins hold, and may hold."""

    load: Floats
    bound: Floats
    #: The channel of each bin.
    owner: Ints
    #: The bins that may take something.
    open: Ints


@compiled
def choice(slot: int, salt: int, bins: int) -> int:
    """hash(slot, salt) mod bins, by the finaliser of splitmix64: any two salts give independent answers."""
    h = np.uint64(slot) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(salt) * np.uint64(0xD1B54A32D192ED03)
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    h = h ^ (h >> np.uint64(31))
    return int(h % np.uint64(bins))


@compiled
def fill_least(load: Floats, weight: Floats, keys: Coming, choices: Ints, bins: Ints, amount: Floats) -> None:
    """Each key to the least loaded of its choices: its first bin and hashes of it, or all bins if it has as many choices.

    Loads are compared after division by the bins' weights.
    """
    some = np.empty(len(bins), dtype=np.int32)
    for k in range(len(keys.cost)):
        if choices[k] >= len(bins):
            size = len(bins)
            some[:size] = bins
        else:
            some[0], size = keys.first[k], 1
            for salt in range(1, choices[k]):
                d = bins[choice(keys.slot[k], salt, len(bins))]
                if not (some[:size] == d).any():
                    some[size] = d
                    size += 1
        raise_level(load, weight, keys.cost[k], some[:size], amount[k])


@compiled
def raise_level(load: Floats, weight: Floats, cost: float, some: Ints, amount: Floats) -> None:
    """Pour `cost` into some bins: those with the least load per weight rise to one level."""
    order = by_level(load, weight, some)
    held, width, level = cost, 0.0, 0.0
    filled = 0
    for d in order:
        if filled > 0 and not clearly_less(load[d] / weight[d], level):
            break
        held += load[d]
        width += weight[d]
        level = held / width
        filled += 1
    for d in order[:filled]:
        rise = max(level * weight[d] - load[d], 0.0)
        load[d] += rise
        amount[d] += rise


@compiled
def by_level(load: Floats, weight: Floats, some: Ints) -> Ints:
    """The bins, least load per weight first; equal ones in the order given. There are few: insertion."""
    order = some.copy()
    for i in range(1, len(order)):
        d, j = order[i], i
        while j > 0 and clearly_less(load[d] / weight[d], load[order[j - 1]] / weight[order[j - 1]]):
            order[j] = order[j - 1]
            j -= 1
        order[j] = d
    return order


@compiled
def fill_bounded(bins: Bins, keys: Coming, amount: Floats) -> None:
    """Each key to its first bin up to the bound, what is left to the bins of hash(slot, 1), hash(slot, 2), …"""
    waiting = begin(bins, keys, amount)
    number = len(bins.open)
    for k in range(len(keys.cost)):
        nothing = TOLERANCE * keys.cost[k]
        left = pour(bins, amount[k], keys.first[k], waiting[k])
        for salt in range(1, SALTS_PER_BIN * number):
            if left <= nothing:
                break
            left = pour(bins, amount[k], bins.open[choice(keys.slot[k], salt, number)], left)
        rest(bins, amount[k], keys.first[k], left, nothing)


@compiled
def fill_clockwise(bins: Bins, keys: Coming, ring: Ints, amount: Floats) -> None:
    """Each key to its own bin up to the bound, what is left to the owners of the slots that follow on the ring."""
    waiting = begin(bins, keys, amount)
    for k in range(len(keys.cost)):
        nothing = TOLERANCE * keys.cost[k]
        left, step, before = waiting[k], 0, -1
        while step < len(ring) and left > nothing:
            d = ring[(keys.slot[k] + step) % len(ring)]
            if d != before:
                left = pour(bins, amount[k], d, left)
            step, before = step + 1, d
        rest(bins, amount[k], keys.first[k], left, nothing)


@compiled
def begin(bins: Bins, keys: Coming, amount: Floats) -> Floats:
    """The first tuples of every key find room in its first bin, the last key's before all others'; returns what is still to come."""
    waiting = np.empty(len(keys.cost))
    for k in range(len(keys.cost) - 1, -1, -1):
        part = FIRST * keys.cost[k]
        waiting[k] = keys.cost[k] - part + pour(bins, amount[k], keys.first[k], part)
    return waiting


@compiled
def pour(bins: Bins, amount: Floats, d: int, left: float) -> float:
    """As much as bin d still takes; returns what is left."""
    if not clearly_less(bins.load[d], bins.bound[d]):
        return left
    part = float(min(left, bins.bound[d] - bins.load[d]))
    bins.load[d] += part
    amount[bins.owner[d]] += part
    return left - part


@compiled
def rest(bins: Bins, amount: Floats, last: int, left: float, nothing: float) -> None:
    """What no hash found room for: the bins in their order; what is left even then, or next to nothing, stays with the last."""
    for d in bins.open:
        if left <= nothing:
            break
        left = pour(bins, amount, d, left)
    bins.load[last] += left
    amount[bins.owner[last]] += left


@compiled
def fill_pairs(load: Floats, weight: Floats, keys: Coming, bins: Ints, amount: Floats) -> None:
    """Each key in equal parts, each of which goes to the less loaded of two bins of its own."""
    parts = PARTS_PER_CHANNEL * len(bins)
    for k in range(len(keys.cost)):
        part = keys.cost[k] / parts
        for p in range(parts):
            a = bins[choice(keys.slot[k], 2 * p + 1, len(bins))]
            b = bins[choice(keys.slot[k], 2 * p + 2, len(bins))]
            if clearly_less(load[b] / weight[b], load[a] / weight[a]):
                a = b
            load[a] += part
            amount[k, a] += part
