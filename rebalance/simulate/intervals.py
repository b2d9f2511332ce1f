"""Run a planner over the intervals of a workload: each plan starts from the function the plan before it left.

A key's cost is its number of tuples, and so is the state it adds in an interval; S(k,w) is the sum over the last w intervals.
Plans are made by `rebalance.planning.decide.decide`, the same as in a pipeline.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rebalance.partition import PartitionFunction
from rebalance.planning.decide import decide
from rebalance.planning.interface import Planner, first_function, ring_to_build_on
from rebalance.planning.model import Decision, Floats, KeyStats, Limits, Plan, Request
from rebalance.simulate.workload import Interval, Workload

#: Tuples of an interval; they have no unit here, only ratios matter.
TUPLES = 1e6


@dataclass(frozen=True)
class Record:
    """What one interval's plan came to."""

    interval: int
    decision: Decision
    reason: str
    theta_before: float
    #: Of the function that is active next: that of the plan if it is applied, else as before.
    theta_after: float
    skewness_before: float
    skewness_after: float
    #: Routes of the function that is active next.
    routes: int
    moved_keys: int
    moved_bytes: float
    #: Least bytes any plan must move to come within θ_max.
    bound: float
    #: All state held, in bytes.
    state_bytes: float
    seconds: float


def simulate(
    planner: Planner,
    workload: Workload,
    intervals: int,
    *,
    limits: Limits | None = None,
    window: int = 1,
    capacity: Floats | None = None,
    guard: bool = True,
) -> list[Record]:
    """One record per interval, the first one planned from the ring alone."""
    return [
        record_of(interval.number, request, plan)
        for interval, request, plan in steps(
            planner, workload, intervals, limits=limits, window=window, capacity=capacity, guard=guard
        )
    ]


def steps(
    planner: Planner,
    workload: Workload,
    intervals: int,
    *,
    limits: Limits | None = None,
    window: int = 1,
    capacity: Floats | None = None,
    guard: bool = True,
) -> Iterator[tuple[Interval, Request, Plan]]:
    """Each interval with what was asked and what was planned."""
    plain = PartitionFunction(version=1, channels=workload.channels, slots=workload.ring)
    function = first_function(planner, plain, ())
    current = function.slots[workload.slots]
    held: deque[Floats] = deque(maxlen=window)
    for interval in workload.intervals(intervals):
        cost = interval.frequency * TUPLES
        held.append(cost)
        request = Request(
            stats=KeyStats(
                keys=workload.names, slots=workload.slots, tuples=cost, cost=cost, state=np.sum(held, axis=0)
            ),
            current=current,
            ring=ring_to_build_on(planner, function, workload.ring, workload.channels, ()),
            capacity=np.ones(workload.channels) if capacity is None else capacity,
            limits=limits or Limits(),
            mergeable=planner.splits_keys,
        )
        plan = decide(planner, request, function, guard=guard)
        yield interval, request, plan
        function = plan.function
        if plan.decision is Decision.APPLY:
            current = current.copy()
            current[plan.moved] = plan.moved_to


def record_of(interval: int, request: Request, plan: Plan) -> Record:
    """The figures of a plan that outlive its arrays."""
    applied = plan.decision is Decision.APPLY
    after = plan.after if applied else plan.before
    return Record(
        interval=interval,
        decision=plan.decision,
        reason=plan.reason,
        theta_before=plan.before.theta,
        theta_after=after.theta,
        skewness_before=plan.before.skewness,
        skewness_after=after.skewness,
        routes=after.routes,
        moved_keys=len(plan.moved) if applied else 0,
        moved_bytes=plan.moved_bytes if applied else 0.0,
        bound=plan.bound,
        state_bytes=float(request.stats.state.sum()),
        seconds=plan.seconds,
    )
