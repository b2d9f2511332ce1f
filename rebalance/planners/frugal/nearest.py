"""Where the wanted θ is not to be had, or not within max_routes and max_bytes: the least θ at which there is a plan. Read `frugal` first.

The least θ is looked for by halving what lies between the bound, or the wanted θ, and the best that some plan reaches. Some plans are there
to begin with: those of Fang's planners, and longest processing time first, both with all keys dealt anew and with only those that do not fit where they
are. Each is stripped of the moves it can do without. Of all plans seen, the cheapest counts that is about as near as any.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from rebalance.planners.fang.llfd import LLFD
from rebalance.planners.fang.mintable import MinTable
from rebalance.planners.fang.mixed import Mixed
from rebalance.planners.frugal.draft import with_moves_taken_back
from rebalance.planners.frugal.search import Case, Plan
from rebalance.planning.heaviest import heaviest
from rebalance.planning.measure import channel_loads
from rebalance.planning.model import Ints, Limits, Request

#: How often θ is halved between what there is and what is asked.
_HALVINGS = 8
#: Loads this near to each other, as a share of the fair load, are not worth another look.
_NEAR = 0.002


def nearest(case: Case, low: float, plans: list[Plan]) -> Plan | None:
    """The cheapest plan within the limits at about the least θ above `low` that there is one; None if there is none."""
    task, limits = case.task, case.request.limits
    plans = [*plans, *rivals(case, low)]
    if not any(plan.within(limits) for plan in plans):
        plans.append(case.draft(max(task.nearness(task.load(np.where(task.start < 0, task.home, task.start))), low)))
    for _ in range(_HALVINGS):
        high = min((plan.theta for plan in plans if plan.within(limits)), default=np.inf)
        if high == np.inf or high - low <= _NEAR * (1 + high):
            break
        middle = (low + high) / 2
        plans.append(case.draft(middle))
        if plans[-1].missed > 0.0 or not plans[-1].within(limits):
            low = middle
    best = cheapest(plans, low, limits)
    return best and cheapest([best, case.plan(max(best.theta, low))], low, limits)


def cheapest(plans: Iterable[Plan], low: float, limits: Limits) -> Plan | None:
    """Of the plans within the limits and about as near as any, or within `low`, the one that moves least."""
    plans = [plan for plan in plans if plan.within(limits) and plan.theta < np.inf]
    if not plans:
        return None
    best = min(max(plan.theta, low) for plan in plans)
    return min(
        (plan for plan in plans if plan.theta <= best + _NEAR * (1 + best)), key=lambda plan: (plan.bytes, plan.theta)
    )


def rivals(case: Case, theta: float) -> list[Plan]:
    """What plainer planners make of it, without the moves that are not needed for what they reach."""
    asked = case.asked
    channels = []
    for wanted in sorted({theta, asked.limits.theta_max}):
        limited = replace(asked, limits=replace(asked.limits, theta_max=wanted), splits={})
        channels += [planner.propose(limited).channel for planner in (Mixed(), MinTable(), LLFD())]
    channels += [longest_first(asked, case.task.most, stay) for stay in (0.0, 1.0 + theta)]
    return [_stripped(case, theta, channel[case.order]) for channel in channels]


def _stripped(case: Case, theta: float, channel: Ints) -> Plan:
    plan = case.described(theta, channel)
    if plan.theta == np.inf:
        return plan
    task, moved = case.task.at(max(theta, plan.theta)), plan.moved
    moved = moved[
        (task.start[moved] == task.home[moved]) | (channel[moved] != task.home[moved])
    ]  # the table stays as small
    moved = moved[heaviest(task.state[moved])]
    return case.described(theta, with_moves_taken_back(task, channel, moved))


def longest_first(request: Request, most: int, stay: float) -> Ints:
    """Longest processing time first: each key stays where it is if its channel is not fuller than `stay` with it, else it goes where there is
    most room.
    """
    from rebalance.planners.frugal.lpt_kernel import longest_first as kernel

    cost, fair, channel = request.stats.cost, request.fair, request.start.copy()
    placed = ~request.movable | (cost == 0)
    load = channel_loads(cost[placed], channel[placed], request.channels)
    count = np.bincount(channel[placed], minlength=request.channels)
    order = np.flatnonzero(~placed)
    order = order[heaviest(cost[order])]
    kernel(order, cost, request.start, channel, load, count, stay * fair, fair, most)
    return channel
