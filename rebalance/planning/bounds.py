"""Certified lower bounds: what no plan can do better than, whatever its algorithm.

**Imbalance** (`bounds_theta`). Some channel must hold the heaviest key, some channel j + 1 of the j·N + 1 heaviest, a pinned key's channel all
that is pinned there. N - j channels have none of the j heaviest keys and share what is left, so one of them has no more than its part of that.
And if all costs are multiples of one number, loads are too: 10 equal keys on 4 channels are 3, 3, 2, 2 at best. Capacities enter by the fair loads.

**Migration** to come within θ. Let A(d) be the keys that leave channel d, lo(d) and hi(d) = (1 ∓ θ) · fair(d), and G(d, x) the least state
with which d sheds cost x if its keys could be cut: least state per cost first, convex in x. The bound is the largest of six.

1. *Excess, with heavy keys whole.* A channel above hi must shed e(d) = L(d) - hi(d). If a key k that leaves is heavier than the room
   hi(t) - L(t) of every channel t that is not above hi, then wherever it lands others make way for it: at least
   w(k) = min_t G(t, c(k) - room(t)), counted once per key since G is convex and a room is used once. So k is charged
   S(k) + w(k). If it lands on another channel above hi, that one sheds so much more: for any ρ ≥ 0, the cost by which a channel
   sheds more than its excess is credited at ρ there, and w(k) is at most ρ · c(k). The bound is
   Σ_d min over A(d) with c(A) ≥ e(d) of Σ_A (S + w) - ρ · (c(A) - e(d)), the heaviest keys taken whole (`bounds_excess`), the rest in pieces.
2. *Filling.* θ is two-sided, so channels below lo must be filled, and only cost that leaves another channel fills them; of what leaves
   d at most L(d) - lo(d) does, since what leaves beyond that must be made up for on d itself:
   Σ_d min(c(A(d)), L(d) - lo(d)) over the channels above lo ≥ Σ_d (lo(d) - L(d)) over those below. With the excess and G this
   is exactly the linear relaxation of the planning problem without the table, and solved greedily.
3. *Table.* Every key away from home that stays there takes a route, so if there are more than max_routes the surplus goes home: at least the
   smallest states among them.
4. *Excess within the table.* For any price μ ≥ 0 of a route, any plan within max_routes moves at least
   μ · (routes now - max_routes) + Σ over moved keys of S(k) + μ (leaving home) or S(k) - μ (away, perhaps going home). Bound 1 with these
   prices; negative ones are counted whether they move or not. The best of a few μ.
5. *Excess and filling with heavy keys whole.* For any ν ≥ 0, by the inequality of 2, any plan moves at least
   ν · Σ (lo - L)⁺ + Σ_d (price(A(d)) - ν · min(c(A(d)), L(d) - lo(d))). Bound 1 with prices less ν · c on the channels above lo; on each of them
   negative prices are counted whether they move or not, but no more than ν · (L - lo). The best of two ν.
6. *Seats.* No channel holds two keys that are heavier than half of the largest hi. Such a key k on channel t leaves hi(t) - c(k) for the keys that are
   not so heavy, so what they hold beyond that must leave: G(t, ·) of them alone. k pays that and, if it moves, S(k), on the channel where both are least;
   of several such keys on one channel one may stay. The channels without such a key shed their excess. Where θ is so large only because of one
   heavy key, it is alone on its channel, and this is what emptying the channel costs.

Channels that vanished or are to be drained have lo = hi = 0. Pinned keys never leave. All hold for plans that split keys if a split key
counts as moved whole. Time: a sort of the keys on the channels that shed, of all keys where heavy ones are among them, and a few
of these where the table is full.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rebalance.planning.bounds_excess import ROOMS, Combinations, best_charges, combinations, curves, hosts
from rebalance.planning.bounds_seats import seat_bound
from rebalance.planning.bounds_theta import reach
from rebalance.planning.exact import TOLERANCE, total
from rebalance.planning.measure import channel_loads
from rebalance.planning.model import Floats, Ints, Mask, Request

#: Prices of a route that are tried, as quantiles of the state of the keys away from home.
_ROUTE_PRICES = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9)


@dataclass(frozen=True)
class Bound:
    """What any plan has to put up with."""

    #: No assignment has a smaller max θ(d).
    theta: float
    #: No plan that comes within max(θ_max, `theta`) moves fewer bytes.
    bytes: float


def bound(request: Request) -> Bound:
    """Both bounds for the request's own limits."""
    theta = least_theta(request)
    return Bound(theta, least_migration(request, max(theta, request.limits.theta_max)))


def least_theta(request: Request) -> float:
    """A lower bound on max θ(d) over all assignments of the keys."""
    least = reach(request)
    return float("inf") if least.closed else max(least.below, least.above)


def least_migration(request: Request, theta: float) -> float:
    """A lower bound on the bytes any plan moves that comes within θ and max_routes."""
    if not len(request.stats):
        return 0.0
    demand = _demand(request, theta)
    away = request.current != request.home
    surplus = int(np.count_nonzero(away)) - request.limits.max_routes
    filled, slopes = demand.fill_bound()
    priced, nu = max((demand.priced_bound(away, surplus, 0.0, nu), nu) for nu in (0.0, *slopes))
    if surplus + np.count_nonzero(demand.movable & (demand.over() > 0)[demand.channel]) > 0 and away.any():
        for mu in np.quantile(demand.state[away], _ROUTE_PRICES):
            tried = demand.priced_bound(away, surplus, float(mu), nu)
            if tried < priced:  # it is concave in μ: past the top
                break
            priced = tried
    return max(priced, filled, demand.seat_bound(), _table_bound(demand, away, surplus))


def _table_bound(demand: _Demand, away: Mask, surplus: int) -> float:
    """The least state that must go home for the table to fit."""
    states = demand.state[away & demand.movable]
    if surplus <= 0:
        return 0.0
    return float(states.sum() if surplus >= len(states) else np.partition(states, surplus)[:surplus].sum())


def _demand(request: Request, theta: float) -> _Demand:
    cost, channel = request.stats.cost, request.current
    channels = max(request.channels, int(channel.max()) + 1)
    fair = np.zeros(channels)
    fair[: request.channels] = request.fair
    return _Demand(
        cost,
        request.stats.state,
        channel,
        request.movable,
        channel_loads(cost, channel, channels),
        np.maximum(1 - theta, 0.0) * fair,
        np.where(fair > 0, (1 + theta) * np.maximum(fair, 1e-300), 0.0),
    )


@dataclass(frozen=True, eq=False)
class _Demand:
    """Keys and channels, those that vanished among them, with what θ asks of each channel."""

    cost: Floats
    state: Floats
    channel: Ints
    movable: Mask
    load: Floats
    low: Floats
    high: Floats

    @property
    def rounding(self) -> float:
        """What loads may be off by: the bounds give way by that much."""
        return TOLERANCE * float(self.load.sum())

    def over(self) -> Floats:
        """e(d): what each channel must shed."""
        movable = np.bincount(self.channel, weights=self.cost * self.movable, minlength=len(self.load))
        return np.maximum(np.minimum(self.load - self.high, movable) - self.rounding, 0.0)

    def lacking(self) -> float:
        """What all channels below lo lack."""
        return total(np.maximum(self.low - self.load - self.rounding, 0.0))

    def seat_bound(self) -> float:
        """Bound 6."""
        return seat_bound(self.cost, self.state, self.channel, self.movable, self.load, self.high, self.rounding)

    def priced_bound(self, away: Mask, surplus: int, mu: float, nu: float) -> float:
        """Bounds 1, 4 and 5: excess, with a route worth μ and a cost that fills worth ν."""
        price = self.state + mu * np.where(away, -1.0, 1.0) if mu > 0.0 else self.state
        spare = np.maximum(self.load - self.low, 0.0)
        full = price - nu * self.cost * (spare > 0)[self.channel] if nu > 0.0 else price
        gained = np.maximum(self._negative(full), self._negative(price) - nu * spare)
        return mu * surplus + nu * self.lacking() + total(gained) + self.excess_bound(np.maximum(full, 0.0))

    def _negative(self, price: Floats) -> Floats:
        """What the keys of each channel with a negative price come to."""
        weights = np.where(self.movable, np.minimum(price, 0.0), 0.0)
        return channel_loads(weights, self.channel, len(self.load))

    def excess_bound(self, price: Floats) -> float:
        """Bounds 1 and 4: the least price of shedding the excess."""
        over = self.over()
        idle = self.movable & (self.cost == 0) & (self.high == 0)[self.channel]
        shedding = np.flatnonzero(over)
        sheds = curves(self.cost, price, self.channel, self.movable & (over > 0)[self.channel], shedding)
        sources = [combinations(sheds[d], over[d]) for d in shedding.tolist()]
        return total(price[idle]) + self._with_charges(price, sources)

    def _with_charges(self, price: Floats, sources: list[Combinations]) -> float:
        """The bound with the heavy keys charged for the room they take, where there are such keys."""
        open_channels = np.flatnonzero((self.high > 0) & (self.over() == 0))
        room = self.high - self.load + self.rounding
        whole = np.concatenate([source.whole for source in sources] or [np.empty(0, dtype=np.int64)])
        smallest = np.sort(room[open_channels])[::-1][: ROOMS + 1].min(initial=np.inf)
        heavy = whole[self.cost[whole] > smallest]
        if not len(heavy):
            return sum(source.least(np.zeros(len(source.whole)), 0.0) for source in sources)
        hosting = curves(self.cost, price, self.channel, self.movable & (self.over() == 0)[self.channel], open_channels)
        return best_charges(sources, heavy, hosts(self.cost[heavy], room, hosting), self.cost)

    def fill_bound(self) -> tuple[float, tuple[float, ...]]:
        """Bound 2: excess and filling, keys in pieces; and the least and the last price per cost at which something fills."""
        least = self.over()
        most = np.maximum(self.load - self.low, least)
        wanted = self.lacking() - total(least)
        if wanted <= 0:
            return 0.0, ()  # filled by the excess
        paid = 0.0
        per_cost, offered = [np.empty(0)], [np.empty(0)]
        for d, curve in curves(self.cost, self.state, self.channel, self.movable, np.flatnonzero(most)).items():
            shed, _ = curve.sums()
            forced = np.diff(np.minimum(shed, least[d]))
            offered.append(np.diff(np.minimum(shed, most[d])) - forced)
            per_cost.append(curve.price / curve.cost)
            paid += total(forced * per_cost[-1])
        slope, amount = np.concatenate(per_cost), np.concatenate(offered)
        slope, amount = slope[amount > 0], amount[amount > 0]
        if not len(slope):
            return paid, ()
        cheapest = np.argsort(slope, kind="stable")
        filled = np.minimum(np.cumsum(amount[cheapest]), wanted)
        paid += total(np.diff(filled, prepend=0.0) * slope[cheapest])
        last = cheapest[min(int(np.searchsorted(filled, wanted)), len(slope) - 1)]
        return paid, (float(slope[cheapest[0]]), float(slope[last]))
