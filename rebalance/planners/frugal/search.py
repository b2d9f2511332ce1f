"""The cheapest plan found for one θ: step 1 to 8 of Frugal, put together. Read `frugal` first."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rebalance.planners.frugal.draft import drafted, with_moves_taken_back
from rebalance.planners.frugal.exchange import MOST_KEYS, exchanged
from rebalance.planners.frugal.prices import Prices, prices_of, shortlist
from rebalance.planners.frugal.program import solved
from rebalance.planners.frugal.table import fewest_routes
from rebalance.planners.frugal.task import Task
from rebalance.planners.frugal.work import Work
from rebalance.planning.bounds import least_migration
from rebalance.planning.heaviest import heaviest
from rebalance.planning.model import Indices, Ints, Limits, Request

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


@dataclass(frozen=True, eq=False)
class Plan:
    """Where the keys go, and what that comes to."""

    channel: Ints
    #: Load above and below the limits of the channels, in all.
    missed: float
    #: The least θ that it comes within.
    theta: float
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


@dataclass(frozen=True, eq=False)
class Case:
    """What is asked, as a task for all keys, and what may be looked at for it."""

    #: As it was asked, and the order in which its keys are looked at.
    asked: Request
    order: Indices
    #: The same in that order.
    request: Request
    task: Task
    work: Work

    @property
    def route(self) -> float:
        """The least price of a route."""
        return _ROUTE * float(self.request.stats.state.sum()) / max(self.request.keys_in_all, 1) or 1.0

    def described(self, theta: float, channel: Ints) -> Plan:
        """A plan that was made elsewhere, held to this θ."""
        return described(self.task.at(theta), channel)

    def draft(self, theta: float) -> Plan:
        """The first plan that comes to mind, for a look at what can be had."""
        return self._with_all_keys(theta, thoughtful=False)

    def plan(self, theta: float) -> Plan:
        """The cheapest plan found with a table that fits, else with the smallest table found."""
        return self._by_program(theta, self._with_all_keys(theta, thoughtful=True))

    def _with_all_keys(self, theta: float, *, thoughtful: bool) -> Plan:
        task = self.task.at(theta)
        if len(task.cost) > MOST_KEYS:
            keys = shortlist(task, self.route)
            plan = self._search(task.only(keys), theta, thoughtful=thoughtful)
            if plan.missed == 0.0:
                channel = task.current.astype(np.int32)
                channel[keys] = plan.channel
                return replace(plan, channel=channel, moved=np.flatnonzero(channel != task.current))
        return self._search(task, theta, thoughtful=thoughtful)

    def _search(self, task: Task, theta: float, *, thoughtful: bool) -> Plan:
        max_routes, small = self.request.limits.max_routes, len(self.task.cost) <= MOST_KEYS
        good = (1 + _GOOD) * least_migration(self.request, theta) if small and thoughtful else 0.0
        search = Search(task, self.work, self.route)
        prices = prices_of(task, self.route)
        plan = search.attempt(prices, max_routes)
        if thoughtful:
            plan = search.second_thoughts(plan, prices, len(self.task.cost), good)
        if plan.routes > max_routes >= fewest_routes(task):
            plan, prices = search.with_smaller_table(plan, prices, max_routes)
            if thoughtful:
                plan = search.second_thoughts(plan, prices, max_routes, good)
            plan = search.fill_table(plan, max_routes)
        return plan

    def _by_program(self, theta: float, plan: Plan) -> Plan:
        """The plan, or a cheaper one if there are few enough keys to look for the cheapest."""
        if len(self.task.cost) > MOST_KEYS:
            return plan
        if plan.missed == 0.0 and plan.bytes <= (1 + _GOOD) * least_migration(self.request, theta):
            return plan
        task, max_routes = self.task.at(theta), self.request.limits.max_routes
        feasible = plan.missed == 0.0 and plan.routes <= max_routes
        channel = solved(task, plan.channel, max_routes, self.work, feasible=feasible)
        if channel is None:
            return plan
        found = described(task, channel)
        return min(plan, found, key=lambda way: (max(way.routes, max_routes), *way.worth(0.0)))


def described(task: Task, channel: Ints, missed: float | None = None) -> Plan:
    """What an assignment comes to."""
    moved = np.flatnonzero(channel != task.current)
    missed = task.missed_by(channel) if missed is None else missed
    return Plan(channel, missed, task.theta_of(channel), moved, float(task.state[moved].sum()), task.routes(channel))


@dataclass(frozen=True, eq=False)
class Search:
    """One task, at any price of a route."""

    task: Task
    work: Work
    #: The least price of a route.
    route: float

    @property
    def small(self) -> bool:
        """Whether exchanges are worth while: there are few keys, and these are all."""
        return len(self.task.cost) <= MOST_KEYS and not self.task.other_count.any()

    @property
    def exhausted(self) -> bool:
        """Whether no more attempts are to be made. Where there are many keys, few are made anyway."""
        return self.small and self.work.looks <= 0

    def attempt(self, prices: Prices, max_routes: int, banned: tuple[int, ...] = ()) -> Plan:
        """Step 2 to 5 with these keys staying."""
        task = self.task
        channel, missed = drafted(task, prices, np.array(banned, dtype=np.int64), self.work)
        if self.small:
            channel, missed = exchanged(task, channel, max(task.routes(channel), max_routes), self.work)
        return replace(described(task, channel, missed), banned=banned)

    def second_thoughts(self, plan: Plan, prices: Prices, max_routes: int, good: float) -> Plan:
        """Plans in which one heavy key stays after all, each on top of the last that was better, until one is good; fewer where there are many
        keys, for there the first plan is hardly ever far off.
        """
        task, cost, small = self.task, self.task.cost, self.small
        number = max(_SECOND_THOUGHTS, _MORE_THOUGHTS // len(task.high) if small else 0)
        heavy = plan.moved[heaviest(cost[plan.moved], number)]
        for k in heavy[cost[heavy] > (0.0 if small else (task.high - prices.load).max() / 4)].tolist():
            if (plan.missed == 0.0 and plan.bytes <= good) or self.exhausted:
                return plan
            other = self.attempt(prices, max_routes, (*plan.banned, k))
            if other.worth(prices.route) < plan.worth(prices.route) and other.routes <= max_routes:
                plan = other
        if small:
            most = max(plan.routes, max_routes)
            channel, missed = exchanged(task, plan.channel, most, self.work, thorough=True)
            plan = replace(described(task, channel, missed), banned=plan.banned)
        return plan

    def with_smaller_table(self, plan: Plan, prices: Prices, max_routes: int) -> tuple[Plan, Prices]:
        """The best of some ways to make the table fit: fewer keys leave home, or more go back, or something between."""
        task = self.task
        if not self.small:
            # If the table does not fit whatever a route costs, no price in between is worth a look.
            dearest = prices_of(task, *[4 * max(float(task.state.max(initial=0.0)), prices.route)] * 2)
            smallest = self.attempt(dearest, max_routes)
            if smallest.routes > max_routes:
                return (smallest, dearest) if smallest.routes < plan.routes else (plan, prices)
        states = np.sort(task.state[task.current != task.home])
        guess = float(states[min(plan.routes - max_routes, len(states) - 1)]) * 1.01 if len(states) else 0.0
        best = plan, prices
        for share in _SHARES:
            found = self._at_higher_price(plan, max_routes, share, max(guess, 2 * prices.route))
            best = min(best, found, key=lambda way: (max(way[0].routes, max_routes), *way[0].worth(0.0)))
        return best

    def _at_higher_price(self, plan: Plan, max_routes: int, share: float, price: float) -> tuple[Plan, Prices]:
        """Raise the price of a route until the table fits, then lower it while it still does. Keys that leave home pay a share of it."""
        low, high = self.route, np.inf
        found: list[tuple[Plan, Prices]] = []
        for _ in range(_PRICES):
            prices = prices_of(self.task, max(self.route, share * price), price)
            found += [(self.attempt(prices, max_routes, banned), prices) for banned in sorted({(), plan.banned})]
            routes = min(way[0].routes for way in found[-2:])
            if max_routes * _FULL <= routes <= max_routes or self.exhausted:
                break
            low, high = (low, price) if routes <= max_routes else (price, high)
            price = 4 * low if high == np.inf else (low + high) / 2
        return min(found, key=lambda way: (max(way[0].routes, max_routes), *way[0].worth(0.0)))

    def fill_table(self, plan: Plan, max_routes: int) -> Plan:
        """Let keys that went home only for the table stay away after all, dearest first, as long as there is room in it."""
        task = self.task
        back = plan.moved[(plan.channel[plan.moved] == task.home[plan.moved]) & (task.start[plan.moved] >= 0)]
        back = back[heaviest(task.state[back], max_routes - plan.routes)]
        return described(task, with_moves_taken_back(task, plan.channel, back), plan.missed)
