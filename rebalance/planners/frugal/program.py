"""Few keys as a mixed-integer program, solved by HiGHS: the last step of Frugal where one key more or less matters. Read `frugal` first.

x(k, d) = 1 if movable key k is on channel d: least Σ state of what is not where it was, so that every key is somewhere, every channel
within its limits, and the table within max_routes. Solving stops within 1 % of the best there is, or once its solver has asked so often whether to go
on: a number, not a time, so that the same request always has the same plan. Unless the effort is to be "exact", only as many keys may change their
place as make a small program. Of the answer only the channel of each key is taken, the one with the largest x:
what it moves and misses is measured anew, exactly, so that what the solver allows itself counts for nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rebalance.planners.frugal.task import Task
from rebalance.planners.frugal.work import Work
from rebalance.planning.heaviest import heaviest
from rebalance.planning.model import Floats, Indices, Ints

if TYPE_CHECKING:
    import highspy

#: Of each key and each open channel whether they belong together.
Pairs = np.ndarray[tuple[int, int], np.dtype[np.bool_]]

#: Most variables, keys times channels: seconds as a rule, minutes where θ_max is next to nothing.
MOST_VARIABLES = 4000
#: How near to the best a plan must be proven to be, as a share.
_GAP = 0.01
#: What a route is worth, as a share of the mean state: of plans that move the same the one with the smaller table is taken.
_ROUTE = 1e-4
#: Loads are in those of the largest channel, and limits hold as exactly as the solver can.
_TOLERANCE = 1e-9


def solved(task: Task, channel: Ints, max_routes: int, work: Work, *, feasible: bool) -> Ints | None:
    """The cheapest assignment found, from this one if it is feasible; None if none was found."""
    open_channels = np.flatnonzero(task.high > 0)
    most = work.variables // max(len(open_channels), 1)
    keys = _chosen(task, channel, most) if feasible else np.flatnonzero(task.movable)
    # The same program, and so the same plan, in whatever order the keys come.
    keys = keys[np.lexsort((keys, task.state[keys], -task.cost[keys]))]
    columns = len(keys) * len(open_channels)
    if columns == 0 or columns > min(MOST_VARIABLES, work.variables) or work.columns < 0:
        return None
    start = channel[keys, None] == open_channels if feasible else None
    x = _optimise(_program(task, channel, max_routes, keys, open_channels), start, work)
    if x is None:
        return None
    found = channel.copy()
    found[keys] = open_channels[x.reshape(len(keys), -1).argmax(axis=1)]
    return found


def _chosen(task: Task, channel: Ints, most: int) -> Indices:
    """So many keys at most that a cheaper plan may be about: the dearest of those that move, and the cheapest per cost of those that do not."""
    moved = np.flatnonzero(task.movable & (channel != task.current))
    moved = moved[heaviest(task.state[moved], most // 2)]
    others = task.movable & (task.cost > 0)
    others[moved] = False
    stay = np.flatnonzero(others)
    stay = stay[np.argsort(task.state[stay] / task.cost[stay], kind="stable")]
    return np.concatenate([moved, stay[: most - len(moved)]])


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


def _optimise(lp: highspy.HighsLp, start: Pairs | None, work: Work) -> Floats | None:
    """The best solution found, from the one given if there is one."""
    import highspy

    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    for name, value in {
        "output_flag": False,
        "threads": 1,
        "mip_rel_gap": _GAP,
        "mip_heuristic_run_rens": work.variables >= MOST_VARIABLES,  # it may take a second without asking
        "mip_feasibility_tolerance": _TOLERANCE,
        "primal_feasibility_tolerance": _TOLERANCE,
    }.items():
        solver.setOptionValue(name, value)

    def stop_in_time(event: Any) -> None:
        work.columns -= int(lp.num_col_)
        event.data_in.user_interrupt = work.columns < 0

    solver.cbMipInterrupt.subscribe(stop_in_time)
    solver.passModel(lp)
    if start is not None:
        given = highspy.HighsSolution()
        given.col_value = start.ravel().astype(float).tolist()
        solver.setSolution(given)
    solver.run()
    if solver.getInfo().primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return None
    return np.asarray(solver.getSolution().col_value)
