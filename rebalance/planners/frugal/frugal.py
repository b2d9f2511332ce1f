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
8. *Program.* Of few keys, unless the plan is at its bound already, HiGHS goes on from the plan (`program`): by default with the keys that
   most likely matter, with `effort = "exact"` with up to `program.MOST_VARIABLES` keys times channels and for minutes.
9. *Rivals.* A plan above its bound is held against those of plainer planners, stripped of the moves they can do without (`nearest.rivals`).

θ is θ_max, or, where no plan of whole keys comes within that, the least at which one may (`bounds_theta`): then the fullest channel is no fuller
than the heaviest key, and no key moves for more than that. Where that is not found either, or max_bytes or max_routes do not allow it, the
least θ is looked for at which there is a plan (`nearest`).

Guarantees: deterministic, on every processor (`rebalance.planning.exact`): loads are exact, and all else is plain arithmetic from left to
right, in loops or in sorts that are stable; moves nothing within the limits; routes ≤ max_routes where keys can go home; a second plan on the result moves
nothing. No guarantee to come within θ_max whenever that is possible (it is NP-hard), but the plan's certified gap says how
far from the best it is at most.

Time: O(K) to find the keys a plan may need (about an eighth of 10^6), then O(n log n) for those n, once per price tried, plus N per moved
key; what exchanges and the program look at is limited (`work`), to some tenths of a second with up to ten channels or 4,000 keys times channels. Memory: about 6 arrays of the keys' length.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from rebalance.errors import ConfigError
from rebalance.planners.frugal.exchange import MOST_KEYS
from rebalance.planners.frugal.nearest import cheapest, nearest, rivals
from rebalance.planners.frugal.program import MOST_VARIABLES
from rebalance.planners.frugal.search import Case, Plan
from rebalance.planners.frugal.table import least_theta
from rebalance.planners.frugal.task import task_of
from rebalance.planners.frugal.work import EFFORTS, work
from rebalance.planning.bounds import least_migration
from rebalance.planning.exact import clearly_less
from rebalance.planning.model import Indices, Proposal, Request

#: A plan this near to the bound, as a ratio, is left as it is: others save a few bytes by tables so large that the next plans pay for them.
_NEAR = 1.02
#: With more keys than this a plan is hardly ever far above its bound, and to know that takes longer than the plan.
_MANY = 10 * MOST_KEYS


@dataclass(frozen=True)
class Frugal:
    """Least migration within θ_max and max_routes, near the certified bound."""

    name: ClassVar[str] = "frugal"
    splits_keys: ClassVar[bool] = False
    some_keys: ClassVar[bool] = True

    #: Most keys a channel may hold; None = any number.
    max_keys: int | None = None
    #: "bounded", or "exact" to go on for minutes for the last percent.
    effort: str = "bounded"

    def __post_init__(self) -> None:
        if self.max_keys is not None and self.max_keys < 1:
            raise ConfigError(f"max_keys is {self.max_keys}; it must be at least 1. Leave it out for any number")
        if self.effort not in EFFORTS:
            raise ConfigError(f"effort is {self.effort!r}; it must be {' or '.join(EFFORTS)}")

    def propose(self, request: Request) -> Proposal:
        """The cheapest plan found; of few keys in an order that does not depend on what they are called, for exchanges take the first that helps."""
        stats = request.stats
        order = np.arange(len(stats))
        if len(stats) <= MOST_KEYS:
            order = np.lexsort((request.home, request.current, stats.state, -stats.cost))
        planned = self._planned(request, order)
        channel = np.empty_like(planned.channel)
        channel[order] = planned.channel
        return replace(planned, channel=channel)

    def _planned(self, asked: Request, order: Indices) -> Proposal:
        request = asked.only(order) if len(order) <= MOST_KEYS else asked
        limits, most = request.limits, len(order) if self.max_keys is None else self.max_keys
        task = task_of(request, limits.theta_max, most)
        large = len(order) * request.channels > MOST_VARIABLES
        case = Case(asked, order, request, task, work(self.effort, request.channels if large else 0))
        wanted = task.least_theta(limits.theta_max)
        plan, limited = _plan(case, wanted)
        notes = []
        if wanted > limits.theta_max:
            notes.append(f"no plan of whole keys is within θ_max {limits.theta_max:g}: at best θ is {wanted:.3f}")
        if clearly_less(1 + wanted, 1 + plan.theta):
            why = "max_bytes or max_routes do not allow" if limited else "no plan was found for"
            notes.append(f"{why} θ {wanted:.3g}: planned for {plan.theta:.3f}")
        return Proposal(channel=plan.channel, notes=tuple(notes))


def _plan(case: Case, wanted: float) -> tuple[Plan, bool]:
    """The plan for the wanted θ, or for about the least that is to be had, and whether that is for the limits' sake."""
    task, limits = case.task, case.request.limits
    highest = max(task.nearness(task.load(np.where(task.start < 0, task.home, task.start))), wanted)
    low = least_theta(task, wanted, highest, limits.max_routes)
    plan = case.plan(low)
    if plan.missed == 0.0 and plan.within(limits):
        if len(task.cost) <= _MANY and clearly_less(_NEAR * least_migration(case.request, low), plan.bytes):
            plan = cheapest([plan, *rivals(case, low)], low, limits) or plan
        return plan, low > wanted
    limited = low > wanted or plan.missed == 0.0
    found = nearest(case, low, [plan])
    if found is None and low > wanted:
        plan = case.plan(wanted)
    return found or plan, limited
