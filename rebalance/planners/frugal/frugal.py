"""Frugal: within θ_max on both sides for little more state than any plan must move, in a table that stays within max_routes.

The problem is that of Mixed (least migration subject to θ_max and max_routes); the algorithm is our own. Mixed takes keys off a full
channel until it is below its limit, and whatever the keys do where they land, others make up for. Frugal knows
from `rebalance.planning.bounds` what a plan must cost at least, and looks for the plan that costs just that:

1. *Prices.* Moving a key costs its state S(k) and, if it leaves home, the price μ of a route. Keys that are away from home with
   S(k) < μ go home first: their route is worth more than their state.
2. *Shed.* A channel above (1 + θ_max) · fair sheds keys, least price per cost first. The few heaviest are decided by trying every
   combination, completed from the others as cheaply as it goes (`choose`): a knapsack, almost exact. A key that is too heavy for any
   room bears the price of the keys that must make way for it.
3. *Gather.* If what was shed cannot fill the channels below (1 - θ_max) · fair, the cheapest keys of channels that can spare them join.
4. *Place*, heaviest first: at home where that leaves enough to fill what is too low, else where there is most room, else where
   making way costs least. Then 2 again, until no channel is over. What moved does not move again, so it ends.
5. *Take back* moves that turned out not to be needed, dearest first.
6. *Second thoughts.* Plans in which one of the heaviest moved keys stays, if they cost less. Of few keys (`exchange.MOST_KEYS`), where
   one more or less matters, also small exchanges.
7. *Table.* μ starts low, just enough to prefer few large keys among equals. If the table is larger than max_routes, μ is raised until it
   fits: fewer keys leave home, and more of those whose state has become small go back.
8. *Program.* Of very few keys (`program.MOST_VARIABLES`), unless the plan is at its bound already, HiGHS goes on from the plan until it is proven
   to be within 1 % of the best, or for so many nodes of its search tree.

Guarantees: deterministic, on every processor (`rebalance.planning.exact`): loads are exact, and all else is plain arithmetic from left to
right, in loops or in sorts that are stable; moves nothing within the limits; routes ≤ max_routes where keys can go home; a second plan on the result moves
nothing. No guarantee to come within θ_max whenever that is possible (it is NP-hard), but the plan's certified gap says how
far from the best it is at most. Where a key is too heavy for any channel it gets one to itself and the others share what is left.
If max_bytes or max_routes cannot be met within θ_max, the least θ at which they are is looked for.

Time: O(K) to find the keys a plan may need (about an eighth of 10^6), then O(n log n) for those n, once per price tried, plus N per moved
key; with very few keys seconds for the program, up to a minute where θ_max is next to nothing. Memory: about 6 arrays of the keys' length.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from rebalance.errors import ConfigError
from rebalance.planners.frugal.draft import drafted, with_moves_taken_back
from rebalance.planners.frugal.exchange import MOST_KEYS, exchanged, missed_by
from rebalance.planners.frugal.prices import Prices, prices_of, shortlist
from rebalance.planners.frugal.program import solved
from rebalance.planners.frugal.table import fewest_routes, least_theta
from rebalance.planners.frugal.task import Task, task_of
from rebalance.planning.bounds import least_migration
from rebalance.planning.heaviest import heaviest
from rebalance.planning.measure import channel_loads, thetas
from rebalance.planning.model import Indices, Ints, Limits, Proposal, Request

#: The least price of a route, as a share of the mean state of a key: enough to prefer one large key to many small ones.
_ROUTE = 0.05
#: A table this much below max_routes is full: no need to look for a better price of a route.
_FULL = 0.98
#: How often a price of a route is tried before the best plan that fits is taken.
_PRICES = 8
#: Which share of that price keys pay that leave home, compared with those that may go back.
_SHARES = (1.0, 0.3, 0.0)
#: How many of the heaviest moved keys are tried without where there are many keys; where there are few, so many by their channels.
_SECOND_THOUGHTS = 8
_MORE_THOUGHTS = 400
#: A plan this near to the bound needs no second thoughts.
_GOOD = 0.001
#: How often θ is halved between what there is and what is asked, where limits do not allow the latter.
_RELAXATIONS = 8
#: Limits of channels this near to each other, as a share, are not worth another look.
_NEAR = 0.005


@dataclass(frozen=True)
class Frugal:
    """Least migration within θ_max and max_routes, near the certified bound."""

    name: ClassVar[str] = "frugal"
    splits_keys: ClassVar[bool] = False

    #: Most keys a channel may hold; None = any number.
    max_keys: int | None = None

    def __post_init__(self) -> None:
        if self.max_keys is not None and self.max_keys < 1:
            raise ConfigError(f"max_keys is {self.max_keys}; it must be at least 1. Leave it out for any number")

    def propose(self, request: Request) -> Proposal:
        """The cheapest plan found; of few keys in an order that does not depend on what they are called, for exchanges take the first that helps."""
        if len(request.stats) > MOST_KEYS:
            return self._planned(request)
        order = np.lexsort((request.home, request.current, request.stats.state, -request.stats.cost))
        planned = self._planned(request.only(order))
        channel = np.empty_like(planned.channel)
        channel[order] = planned.channel
        return replace(planned, channel=channel)

    def _planned(self, request: Request) -> Proposal:
        most = len(request.stats) if self.max_keys is None else self.max_keys
        wanted = request.limits.theta_max
        plan, theta = _within_limits(request, most)
        notes = []
        if theta > wanted:
            notes.append(f"max_bytes or max_routes do not allow θ_max {wanted:g}: planned for {theta:.3f}")
        if plan.missed > 0:
            notes.append("θ_max was not reachable for every channel: planned for the nearest found")
        return Proposal(channel=plan.channel, notes=tuple(notes))


@dataclass(frozen=True, eq=False)
class _Plan:
    channel: Ints
    #: Load above and below the limits of the channels, in all.
    missed: float
    moved: Indices
    bytes: float
    routes: int
    #: Keys that were told to stay.
    banned: tuple[int, ...] = ()

    def within(self, limits: Limits) -> bool:
        """Whether it holds to max_routes and max_bytes."""
        return self.routes <= limits.max_routes and (limits.max_bytes is None or self.bytes <= limits.max_bytes)

    def worth(self, route: float) -> tuple[float, float]:
        """Less is better: first come within the limits of the channels, then cost little."""
        return self.missed, self.bytes + route * self.routes


def _plan(request: Request, theta: float, most: int) -> _Plan:
    """The cheapest plan found for this θ with a table that fits, else with the smallest table found."""
    task = task_of(request, theta, most)
    route = _ROUTE * float(request.stats.state.mean()) or 1.0
    if len(task.cost) > MOST_KEYS:
        keys = shortlist(task, route)
        plan = _search(request, task.only(keys), route, theta)
        if plan.missed == 0.0:
            channel = task.current.astype(np.int32)
            channel[keys] = plan.channel
            return replace(plan, channel=channel)
    return _search(request, task, route, theta)


def _search(request: Request, task: Task, route: float, theta: float) -> _Plan:
    """The cheapest plan found for this task."""
    max_routes = request.limits.max_routes
    small = len(request.stats) <= MOST_KEYS
    good = (1 + _GOOD) * least_migration(request, theta) if small else 0.0
    prices = prices_of(task, route)
    plan = _second_thoughts(task, _attempt(task, prices, max_routes), prices, len(request.stats), good)
    if plan.routes > max_routes >= fewest_routes(task):
        plan, prices = _with_smaller_table(task, plan, prices, max_routes)
        plan = _second_thoughts(task, plan, prices, max_routes, good)
        plan = _fill_table(task, plan, max_routes)
    return plan


def _attempt(task: Task, prices: Prices, max_routes: int, banned: tuple[int, ...] = ()) -> _Plan:
    """Step 2 to 5 with these keys staying."""
    channel, missed = drafted(task, prices, np.array(banned, dtype=np.int64))
    if _small(task):
        channel, missed = exchanged(task, channel, max(_routes(task, channel), max_routes))
    return replace(_described(task, channel, missed), banned=banned)


def _routes(task: Task, channel: Ints) -> int:
    return task.other_routes + int(np.count_nonzero(channel != task.home))


def _small(task: Task) -> bool:
    """Whether exchanges are worth while: there are few keys, and these are all."""
    return len(task.cost) <= MOST_KEYS and not task.other_count.any()


def _described(task: Task, channel: Ints, missed: float) -> _Plan:
    moved = np.flatnonzero(channel != task.current)
    return _Plan(channel, missed, moved, float(task.state[moved].sum()), _routes(task, channel))


def _with_smaller_table(task: Task, plan: _Plan, prices: Prices, max_routes: int) -> tuple[_Plan, Prices]:
    """The best of some ways to make the table fit: fewer keys leave home, or more go back, or something between."""
    if not _small(task):
        # If the table does not fit whatever a route costs, no price in between is worth a look.
        dearest = prices_of(task, *[4 * max(float(task.state.max(initial=0.0)), prices.route)] * 2)
        smallest = _attempt(task, dearest, max_routes)
        if smallest.routes > max_routes:
            return (smallest, dearest) if smallest.routes < plan.routes else (plan, prices)
    states = np.sort(task.state[task.current != task.home])
    guess = float(states[min(plan.routes - max_routes, len(states) - 1)]) * 1.01 if len(states) else 0.0
    best = plan, prices
    for share in _SHARES:
        found = _at_higher_price(task, plan, prices.route, max_routes, share, max(guess, 2 * prices.route))
        best = min(best, found, key=lambda way: (max(way[0].routes, max_routes), *way[0].worth(0.0)))
    return best


def _at_higher_price(
    task: Task, plan: _Plan, least: float, max_routes: int, share: float, price: float
) -> tuple[_Plan, Prices]:
    """Raise the price of a route until the table fits, then lower it while it still does. Keys that leave home pay a share of it."""
    low, high = least, np.inf
    found: list[tuple[_Plan, Prices]] = []
    for _ in range(_PRICES):
        prices = prices_of(task, max(least, share * price), price)
        found += [(_attempt(task, prices, max_routes, banned), prices) for banned in sorted({(), plan.banned})]
        routes = min(way[0].routes for way in found[-2:])
        if max_routes * _FULL <= routes <= max_routes:
            break
        low, high = (low, price) if routes <= max_routes else (price, high)
        price = 4 * low if high == np.inf else (low + high) / 2
    return min(found, key=lambda way: (max(way[0].routes, max_routes), *way[0].worth(0.0)))


def _fill_table(task: Task, plan: _Plan, max_routes: int) -> _Plan:
    """Let keys that went home only for the table stay away after all, dearest first, as long as there is room in it."""
    back = plan.moved[(plan.channel[plan.moved] == task.home[plan.moved]) & (task.start[plan.moved] >= 0)]
    back = back[heaviest(task.state[back], max_routes - plan.routes)]
    return _described(task, with_moves_taken_back(task, plan.channel, back), plan.missed)


def _second_thoughts(task: Task, plan: _Plan, prices: Prices, max_routes: int, good: float) -> _Plan:
    """Plans in which one heavy key stays after all, each on top of the last that was better, until one is good; fewer where there are many
    keys, for there the first plan is hardly ever far off.
    """
    cost, small = task.cost, _small(task)
    number = max(_SECOND_THOUGHTS, _MORE_THOUGHTS // len(task.high) if small else 0)
    heavy = plan.moved[heaviest(cost[plan.moved], number)]
    for k in heavy[cost[heavy] > (0.0 if small else (task.high - prices.load).max() / 4)].tolist():
        if plan.missed == 0.0 and plan.bytes <= good:
            return plan
        other = _attempt(task, prices, max_routes, (*plan.banned, k))
        if other.worth(prices.route) < plan.worth(prices.route) and other.routes <= max_routes:
            plan = other
    if small:
        channel, missed = exchanged(task, plan.channel, max(plan.routes, max_routes), thorough=True)
        plan = replace(_described(task, channel, missed), banned=plan.banned)
    return plan


def _within_limits(request: Request, most: int) -> tuple[_Plan, float]:
    """The plan for θ_max if the limits allow it, else for about the least θ at which they do, and that θ; for θ_max if they do at none."""
    wanted, high = request.limits.theta_max, _theta(request)
    low = least_theta(request, most, high)
    plan = _by_program(request, low, most, _plan(request, low, most))
    if plan.within(request.limits):
        return plan, low
    best = _plan(request, high, most), high
    if not best[0].within(request.limits):
        return (plan, wanted) if low == wanted else (_plan(request, wanted, most), wanted)
    for _ in range(_RELAXATIONS):
        theta = (low + high) / 2
        if high - low <= _NEAR * (1 + high):
            break
        tried = _plan(request, theta, most)
        if tried.within(request.limits):
            best, high = (tried, theta), theta
        else:
            low = theta
    return _by_program(request, best[1], most, best[0]), best[1]


def _by_program(request: Request, theta: float, most: int, plan: _Plan) -> _Plan:
    """The plan, or a cheaper one if there are few enough keys to look for the cheapest."""
    small = len(request.stats) <= MOST_KEYS
    if not small or (plan.missed == 0.0 and plan.bytes <= (1 + _GOOD) * least_migration(request, theta)):
        return plan
    task, max_routes = task_of(request, theta, most), request.limits.max_routes
    feasible = plan.missed == 0.0 and plan.routes <= max_routes
    channel = solved(task, plan.channel, max_routes, feasible=feasible)
    if channel is None:
        return plan
    found = _described(task, channel, missed_by(task, channel))
    return min(plan, found, key=lambda way: (max(way.routes, max_routes), *way.worth(0.0)))


def _theta(request: Request) -> float:
    """max θ(d) as things are, of the open channels."""
    stays = ~request.stranded(request.current)
    load = channel_loads(request.stats.cost[stays], request.current[stays], request.channels)
    return float(thetas(load, request.fair)[request.open].max(initial=request.limits.theta_max))
