"""The planning problem as a mixed-integer program, solved by HiGHS: the optimum of problems too large to search through."""

from __future__ import annotations

from typing import NamedTuple

import highspy
import numpy as np

from rebalance.planning.model import Request


class Solved(NamedTuple):
    #: Bytes the best plan found moves; infinite if none was found.
    bytes: float
    #: Bytes any plan moves at least.
    bound: float


def solve(request: Request, *, gap: float = 1e-4, seconds: float = 20.0) -> Solved:
    """Least state moved so that every channel is within θ_max on both sides and the table within max_routes.

    x(k, d) = 1 if key k is on channel d. Nothing pinned, excluded or vanished.
    """
    cost, state, theta = request.stats.cost, request.stats.state, request.limits.theta_max
    keys, channels = len(cost), request.channels
    model = highspy.Highs()
    model.setOptionValue("output_flag", False)
    model.setOptionValue("mip_rel_gap", gap)
    model.setOptionValue("time_limit", seconds)
    model.setOptionValue("threads", 1)
    x = [[model.addBinary() for _ in range(channels)] for _ in range(keys)]
    for k in range(keys):
        model.addConstr(sum(x[k]) == 1)
    for d in range(channels):
        load = sum(float(cost[k]) * x[k][d] for k in range(keys))
        model.addConstr(load <= float((1 + theta) * request.fair[d]))
        model.addConstr(load >= float((1 - theta) * request.fair[d]))
    at_home = sum(x[k][int(request.home[k])] for k in range(keys))
    model.addConstr(at_home >= max(keys - request.limits.max_routes, 0))
    kept = sum(float(state[k]) * x[k][int(request.current[k])] for k in range(keys))
    model.maximize(kept)
    info = model.getInfo()
    total = float(state.sum())
    found = info.primal_solution_status == 2
    return Solved(total - info.objective_function_value if found else np.inf, total - info.mip_dual_bound)
