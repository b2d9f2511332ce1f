"""What the default planner is held against: plans of plainer planners, and how plans compare."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from rebalance.planners.registry import make_planner
from rebalance.planning.bounds import bound
from rebalance.planning.bounds_theta import reach
from rebalance.planning.model import Ints, Request

#: θ nearer than this, as a share of a channel's load, is as good.
NEAR = 0.005


class Reached(NamedTuple):
    """What counts of a plan: less is better, the first number first."""

    #: The largest θ, not counting channels that nobody can fill; no less than what is asked, or than any plan reaches.
    theta: float
    bytes: float

    def beaten_by(self, other: Reached) -> bool:
        """Whether the other is clearly nearer, or as near and moves less."""
        if other.theta < self.theta - NEAR * (1 + self.theta):
            return True
        return other.theta <= self.theta + 1e-9 and other.bytes < self.bytes * (1 - 1e-9) - 1e-9


def floor_of(request: Request) -> float:
    """The θ that a plan may be expected to come within."""
    return max(request.limits.theta_max, reach(request).above)


def reached(request: Request, channel: Ints) -> Reached:
    """What a plan for these channels comes to."""
    used = request.fair > 0
    share = np.bincount(channel, weights=request.stats.cost, minlength=request.channels)[used] / request.fair[used]
    below = 1.0 - float(share.min())
    below = below if below > reach(request).below + 1e-9 else 0.0
    theta = max(float(share.max()) - 1.0, below, floor_of(request))
    return Reached(theta, float(request.stats.state[channel != request.current].sum()))


def is_within(request: Request, channel: Ints) -> bool:
    """Whether the plan holds to max_routes and max_bytes."""
    limits, moved = request.limits, float(request.stats.state[channel != request.current].sum())
    routes = np.count_nonzero(channel != request.home)
    return bool(routes <= limits.max_routes and moved <= (np.inf if limits.max_bytes is None else limits.max_bytes))


def longest_first(request: Request, stay: float) -> Ints:
    """Longest processing time first: a key stays if its channel is not fuller than `stay` with it, else it goes to the emptiest one,
    of equal ones to its own."""
    channel, fair = request.start.copy(), request.fair
    load = [0.0] * request.channels
    for k in np.argsort(-request.stats.cost, kind="stable").tolist():
        cost, d = float(request.stats.cost[k]), int(channel[k])
        if cost > 0 and load[d] + cost > stay * fair[d]:
            here = d
            d = min(range(request.channels), key=lambda t: ((load[t] + cost) / fair[t], t != here))
        channel[k] = d
        load[d] += cost
    return channel


def rivals(request: Request) -> Iterator[tuple[str, Reached]]:
    """What the rivals reach, those within the limits."""
    plans = {name: make_planner(name).propose(request).channel for name in ("mixed", "mintable", "llfd")}
    plans["longest first"] = longest_first(request, 0.0)
    plans["longest first from where they are"] = longest_first(request, 1.0 + floor_of(request))
    for name, channel in plans.items():
        if is_within(request, channel):
            yield name, reached(request, channel)


def ratio_to_bound(request: Request, plan: Reached) -> float | None:
    """Bytes over the certified bound on them; None where the plan does not come as near as the bound asks."""
    certified = bound(request)
    if plan.theta > max(certified.theta, request.limits.theta_max) + 1e-8:
        return None
    return plan.bytes / certified.bytes if certified.bytes > 0 else 1.0 if plan.bytes == 0 else float("inf")
