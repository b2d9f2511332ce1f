"""The least price of shedding what channels hold too much of. The proof is in `bounds`, bound 1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rebalance.planning.exact import total
from rebalance.planning.model import Floats, Indices, Ints, Mask

#: Heaviest keys of a channel that are not cut into pieces: all their combinations are looked at.
_WHOLE = 12
#: Channels with most room whose room gets a price.
ROOMS = 3
#: Prices of a room that are tried, as shares of the highest that holds.
_ROOM_PRICES = (0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 1.0)


@dataclass(frozen=True, eq=False)
class Curve:
    """One channel's movable keys, least price per cost first: what shedding costs there."""

    keys: Indices
    cost: Floats
    price: Floats

    def sums(self) -> tuple[Floats, Floats]:
        """Cost shed and price paid after 0, 1, 2, … keys."""
        return np.concatenate([[0.0], np.cumsum(self.cost)]), np.concatenate([[0.0], np.cumsum(self.price)])

    def price_of(self, amount: Floats) -> Floats:
        """G(x): the least price of shedding x if keys could be cut; infinite beyond what they come to."""
        shed, paid = self.sums()
        return np.where(amount > shed[-1], np.inf, np.interp(amount, shed, paid))

    def credited(self, least: Floats, rho: float) -> Floats:
        """min over x ≥ least of G(x) - ρ · (x - least)."""
        shed, _ = self.sums()
        at = np.maximum(least, shed[np.searchsorted(self.price / self.cost, rho)])
        credited: Floats = self.price_of(at) - rho * (at - least)
        return credited

    def slope(self) -> float:
        """What the first bit costs, per cost."""
        return float(self.price[0] / self.cost[0])


def curves(cost: Floats, price: Floats, channel: Ints, chosen: Mask, channels: Indices) -> dict[int, Curve]:
    """The curves of these channels, of the chosen keys; keys without cost shed nothing."""
    keys = np.flatnonzero(chosen & (cost > 0))
    where = channel[keys]
    order = np.argsort(where.astype(np.int16) if len(where) and where.max() < 1 << 15 else where, kind="stable")
    keys, where = keys[order], where[order]
    first, last = np.searchsorted(where, channels, "left"), np.searchsorted(where, channels, "right")
    found = {}
    for d, a, b in zip(channels.tolist(), first, last, strict=True):
        part = keys[a:b]
        part = part[np.argsort(price[part] / cost[part], kind="stable")]
        found[d] = Curve(part, cost[part], price[part])
    return found


@dataclass(frozen=True, eq=False)
class Combinations:
    """All ways for a channel to shed its excess: each combination of its heaviest keys, completed by pieces of the others."""

    #: The heaviest keys.
    whole: Indices
    #: Price of each combination, without charges and without the others.
    price: Floats
    #: What it leaves to the others, and by how much it sheds more than it must.
    left: Floats
    beyond: Floats
    others: Curve

    def least(self, charge: Floats, rho: float) -> float:
        """The least price if each heavy key is charged so much more and what is shed beyond the excess is credited at ρ."""
        others = self.others.credited(self.left, rho)
        return float((self.price + subset_sums(charge) + others - rho * self.beyond).min())


def subset_sums(values: Floats) -> Floats:
    """The sum of every combination of the values, 2^n of them.

    >>> subset_sums(np.array([1.0, 2.0, 4.0]))
    array([0., 1., 2., 3., 4., 5., 6., 7.])
    """
    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate([sums, sums + value])
    return sums


def combinations(curve: Curve, excess: float) -> Combinations:
    """The combinations of one channel that sheds."""
    whole = np.argsort(-curve.cost, kind="stable")[:_WHOLE]
    whole = whole[curve.cost[whole] > excess / 64]
    rest = np.ones(len(curve.cost), dtype=np.bool_)
    rest[whole] = False
    others = Curve(curve.keys[rest], curve.cost[rest], curve.price[rest])
    shed, price = subset_sums(curve.cost[whole]), subset_sums(curve.price[whole])
    left, beyond = np.maximum(excess - shed, 0.0), np.maximum(shed - excess, 0.0)
    return Combinations(curve.keys[whole], price, left, beyond, others)


@dataclass(frozen=True, eq=False)
class Hosts:
    """What the heavy keys cost where they land, for the channels that are not too full."""

    cost: Floats
    #: G(t, (c(k) - room(t))⁺) for each heavy key k and host t, the roomiest host first.
    way: Floats
    room: Floats
    #: The highest price of each room.
    highest: Floats

    def charges(self, room_price: Floats) -> Floats:
        """w(k) = min_t of the price of making way and of the part of the room it takes."""
        taken = np.minimum(self.cost[:, None], self.room) / np.maximum(self.room, 1e-300)
        charged: Floats = (self.way + taken * room_price).min(axis=1, initial=np.inf)
        return charged


def hosts(heavy_cost: Floats, room: Floats, hosting: dict[int, Curve]) -> Hosts:
    """The hosts of heavy keys of this cost, each with its room and what its own keys cost to shed."""
    channels = sorted(hosting, key=lambda d: (-room[d], d))
    way = [hosting[d].price_of(np.maximum(heavy_cost - room[d], 0.0)) for d in channels]
    highest = np.array([hosting[d].slope() * room[d] if len(hosting[d].cost) else 0.0 for d in channels])
    highest[ROOMS:] = 0.0
    columns = np.array(way).T if way else np.empty((len(heavy_cost), 0))
    return Hosts(heavy_cost, columns, room[channels], highest)


def best_charges(sources: list[Combinations], heavy: Indices, landing: Hosts, cost: Floats) -> float:
    """The largest bound found by putting a price on the rooms of the roomiest hosts, one after the other."""

    def value(room_price: Floats) -> float:
        rates = landing.charges(room_price) / cost[heavy]
        rho = float(rates[np.isfinite(rates)].max(initial=0.0))
        charge = np.minimum(rates, rho) * cost[heavy]
        charges = dict(zip(heavy.tolist(), charge.tolist(), strict=True))
        least = [source.least(np.array([charges.get(int(k), 0.0) for k in source.whole]), rho) for source in sources]
        return sum(least) - total(room_price)

    prices = np.zeros(len(landing.room))
    best = max(value(prices), sum(source.least(np.zeros(len(source.whole)), 0.0) for source in sources))
    for t in np.flatnonzero(landing.highest > 0):
        for share in _ROOM_PRICES:
            tried = prices.copy()
            tried[t] = share * landing.highest[t]
            if value(tried) > best:
                best, prices = value(tried), tried
    return best
