"""Compact records: keys that are alike, counted, so that planning does not grow with the number of keys.

Reference: Fang et al., "Parallel stream processing against workload skewness and variance", section IV.

Keys with the same (d, d_h, v_c, v_S) are one record, v_c and v_S being cost and state discretized by `hlhe`. Planners of LLFD's family run on
the records (`records`); at the end every record's keys are given to the channels its counts went to, in
the order of ring slot and key. There are at most N² · |v_c| · |v_S| records, whatever the number of keys.

Guarantee: each channel gets exactly the numbers of keys the planner decided. Its estimated load before planning is off by at most R times
the smallest cost, if it has many keys of little cost.

Departure: HLHE keeps its deviation for each channel d, not for all keys together. With one deviation the sum of all loads is right but
single channels of the papers' workload are off by up to 2 % at R = 256, and planning is about single channels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rebalance.planners.fang.hlhe import discretize
from rebalance.planners.fang.records import Placement, Records
from rebalance.planning.exact import TOLERANCE, on_grid
from rebalance.planning.model import Indices, Ints, Request


@dataclass(frozen=True, eq=False)
class Compact:
    """Records and what is needed to come back from them."""

    records: Records
    #: Keys in the order of their records.
    keys: Indices


def compact_records(request: Request, r: int) -> Compact:
    """Group the keys of a request into records with R = 2^r."""
    cost = on_grid(discretize(request.stats.cost, r, part=request.current))
    state = on_grid(discretize(request.stats.state, r, part=request.current))
    start, movable = request.start, request.movable
    # Where a key starts follows from its channel, its home and whether it may move.
    code = _joint_code(movable, request.current, request.home, cost, state)
    # Which keys of a record move must not depend on what they cost: the order of their hashes is as good as any and always the same.
    by_slot = np.argsort(request.stats.slots.astype(np.uint16), kind="stable")
    keys = by_slot[np.argsort(code[by_slot], kind="stable")]
    starts = np.flatnonzero(np.diff(code[keys], prepend=-1))
    first = keys[starts]
    count = np.diff(np.append(starts, len(keys)))
    fair = request.open_capacity / request.open_capacity.sum() * cost.sum()
    return Compact(
        Records(
            planned=start[first],
            current=request.current[first],
            home=request.home[first],
            cost=cost[first],
            state=state[first],
            count=count.astype(np.int32),
            movable=movable[first],
            origin=np.arange(len(first), dtype=np.int32),
            capacity=request.open_capacity,
            limit=(1.0 + request.limits.theta_max) * fair * (1.0 + TOLERANCE),
            max_routes=request.limits.max_routes,
        ),
        keys,
    )


def concrete_channels(compact: Compact, placement: Placement) -> Ints:
    """The channel of each key: of every record as many keys as were planned for each channel."""
    records = placement.records
    stays = np.flatnonzero(placement.stay)
    row = np.concatenate([stays, placement.placed[:, 0]])
    to = np.concatenate([records.planned[stays], placement.placed[:, 1]])
    count = np.concatenate([placement.stay[stays], placement.placed[:, 2]])
    order = np.lexsort((to, records.origin[row]))
    channel = np.empty(len(compact.keys), dtype=np.int32)
    channel[compact.keys] = np.repeat(to[order], count[order])
    return channel


def _joint_code(*columns: NDArray[Any]) -> Indices:
    """One number per row, equal exactly where all columns are, and in the order of the columns."""
    joint = np.zeros(len(columns[0]), dtype=np.int64)
    size = 1
    for column in columns:
        values, code = np.unique(column, return_inverse=True)
        if size * len(values) >= 2**62:
            known, joint = np.unique(joint, return_inverse=True)
            size = len(known)
        joint = joint * len(values) + code
        size *= len(values)
    return joint
