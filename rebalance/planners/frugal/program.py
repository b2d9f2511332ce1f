"""Few keys as a mixed-integer program, solved by HiGHS: the last step of Frugal where one key more or less matters. Read `frugal` first.

x(k, d) = 1 if movable key k is on channel d: least Σ state of what is not where it was, so that every key is somewhere, every channel
within its limits, and the table within max_routes. Solving stops within 1 % of the best there is, or after some nodes of the search tree: a number, not
a time, so that the same request always has the same plan. Of the answer only the channel of each key is taken, the one with the largest x:
what it moves and misses is measured anew, exactly, so that what the solver allows itself counts for nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rebalance.planners.frugal.task import Task
from rebalance.planning.model import Floats, Indices, Ints

if TYPE_CHECKING:
    import highspy

#: Of each key and each open channel whether they belong together.
Pairs = np.ndarray[tuple[int, int], np.dtype[np.bool_]]

#: Most variables, keys times channels: seconds as a rule, up to a minute where θ_max is next to nothing.
MOST_VARIABLES = 4000
#: How near to the best a plan must be proven to be, as a share.
_GAP = 0.01
#: Nodes of the search tree after which the best plan found is taken, and after which it is given up where there is none to begin with.
_NODES = 200
_NODES_FROM_NOTHING = 5
#: What a route is worth, as a share of the mean state: of plans that move the same the one with the smaller table is taken.
_ROUTE = 1e-4
#: Loads are in those of the largest channel, and limits hold as exactly as the solver can.
_TOLERANCE = 1e-9


def solved(task: Task, channel: Ints, max_routes: int, *, feasible: bool) -> Ints | None:
    """The cheapest assignment found, from this one if it is feasible; None if none was found."""
    keys = np.flatnonzero(task.movable)
    # The same program, and so the same plan, in whatever order the keys come.
    keys = keys[np.lexsort((keys, task.state[keys], -task.cost[keys]))]
    open_channels = np.flatnonzero(task.high > 0)
    if not len(keys) or not len(open_channels) or len(keys) * len(open_channels) > MOST_VARIABLES:
        return None
    start = channel[keys, None] == open_channels if feasible else None
    x = _optimise(_program(task, channel, max_routes, keys, open_channels), start)
    if x is None:
        return None
    found = channel.copy()
    found[keys] = open_channels[x.reshape(len(keys), -1).argmax(axis=1)]
    return found


def _program(task: Task, channel: Ints, max_routes: int, keys: Indices, open_channels: Indices) -> highspy.HighsLp:
    """One column for each key and open channel; rows: each key once, the load of each channel, its number of keys, and the routes."""
    import highspy

    away, moved = task.home[keys, None] != open_channels, task.current[keys, None] != open_channels
    number, columns = len(open_channels), away.size
    unit = max(float(task.high.max()), np.finfo(float).tiny)
    load, count, routes = _others(task, channel, keys)
    k, d = np.divmod(np.arange(columns), number)
    rows = np.stack([k, len(keys) + d, len(keys) + number + d, np.full(columns, len(keys) + 2 * number)], axis=1)
    values = np.stack([np.ones(columns), task.cost[keys][k] / unit, np.ones(columns), away.ravel()], axis=1)
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = columns, len(keys) + 2 * number + 1
    state = task.state[keys, None] / max(float(task.state[keys].mean()), np.finfo(float).tiny)
    lp.col_cost_ = (state * moved + _ROUTE * away).ravel()
    lp.col_lower_, lp.col_upper_ = np.zeros(columns), np.ones(columns)
    once, none = np.ones(len(keys)), np.zeros(number)
    lp.row_lower_ = np.concatenate([once, (task.low - load)[open_channels] / unit, none, [0.0]])
    room = np.minimum(task.most - count[open_channels], len(keys))
    lp.row_upper_ = np.concatenate([once, (task.high - load)[open_channels] / unit, room, [max_routes - routes]])
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_ = np.concatenate([[0], np.cumsum((values != 0).sum(axis=1))]).astype(np.int32)
    lp.a_matrix_.index_, lp.a_matrix_.value_ = rows[values != 0].astype(np.int32), values[values != 0]
    lp.integrality_ = [highspy.HighsVarType.kInteger] * columns
    return lp


def _others(task: Task, channel: Ints, keys: Indices) -> tuple[Floats, Indices, int]:
    """Load and number of keys of each channel and the routes that are there besides those keys."""
    others = np.ones(len(channel), dtype=np.bool_)
    others[keys] = False
    where, number = channel[others], len(task.high)
    load = task.other_load + np.bincount(where, weights=task.cost[others], minlength=number)
    count = task.other_count + np.bincount(where, minlength=number)
    return load, count, task.other_routes + int(np.count_nonzero(where != task.home[others]))


def _optimise(lp: highspy.HighsLp, start: Pairs | None) -> Floats | None:
    """The best solution found, from the one given if there is one."""
    import highspy

    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    for name, value in {
        "output_flag": False,
        "threads": 1,
        "mip_rel_gap": _GAP,
        "mip_max_nodes": _NODES_FROM_NOTHING if start is None else _NODES,
        "mip_feasibility_tolerance": _TOLERANCE,
        "primal_feasibility_tolerance": _TOLERANCE,
    }.items():
        solver.setOptionValue(name, value)
    solver.passModel(lp)
    if start is not None:
        given = highspy.HighsSolution()
        given.col_value = start.ravel().astype(float).tolist()
        solver.setSolution(given)
    solver.run()
    if solver.getInfo().primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return None
    return np.asarray(solver.getSolution().col_value)
