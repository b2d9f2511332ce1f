"""Which keys a plan may need, from records alone: of many alike, the record says how many there are.

Reference: Fang et al., "Parallel stream processing against workload skewness and variance", section IV.

A record is the paper's (d, d_h, v_c, v_S, #): so many keys, on the same channel, at home on the same channel, with the same discretized cost and state.
A plan moves at most max_routes keys from home, so of each channel only so many can matter: the first in the order of the
paper's criterion γ = c^β / S, β = 1.5, which move most cost for little state, and the heaviest, of which few are needed.
Here it is decided how many keys of each record that are; Spark picks them (`rebalance.spark.key_sums`).

Departures: the paper plans on the records and picks keys afterwards, so that a plan is as rough as its records are. Here records only
narrow the keys down, and planners get those that are left as they are; a channel's other keys are one entry that stays. And v_c and v_S are
no representatives, chosen in the order of all values: keys are alike whose values differ by less than a part 1/R within a power of
two, and the record has their sums. So no channel's load is off at all, and the records of all keys are one aggregation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from rebalance.errors import ConfigError
from rebalance.planning.exact import rounded
from rebalance.planning.model import Floats, Indices

#: Keys that are less than this part of a channel's fair load together are not worth picking some of a record.
_LEAST = 1e-4


@dataclass(frozen=True, eq=False)
class Records:
    """Arrays over the records, in ascending order of their codes."""

    #: One number for (d, d_h, v_c, v_S).
    code: Indices
    #: d.
    channel: Indices
    #: #: how many keys there are.
    count: Indices
    #: Cost of all of them.
    cost: Floats
    #: Bytes of state of all of them.
    state: Floats


def keys_to_name(records: Records, most: int, fair: float) -> Indices:
    """How many keys of each record a plan may need, where it can give routes to `most` keys; `fair` is a channel's mean load.

    >>> one, two = np.array([3, 90, 900]), np.array([30.0, 90.0, 90.0])
    >>> records = Records(np.arange(3), np.zeros(3, dtype=np.int64), one, two, np.zeros(3))
    >>> keys_to_name(records, most=50, fair=100.0).tolist()
    [3, 47, 0]
    """
    cost, state = records.cost / records.count, records.state / records.count
    wanted = np.zeros(len(cost), dtype=np.int64)
    for worth in (gamma(cost, state), cost):
        order = np.lexsort((-rounded(worth), records.channel))
        order = order[records.cost[order] > 0]
        count, channel = records.count[order], records.channel[order]
        before = np.cumsum(count) - count
        starts = np.searchsorted(channel, channel)
        room = np.clip(most - (before - before[starts]), 0, count)
        room[(room < count) & (room * cost[order] < _LEAST * fair)] = 0
        wanted[order] = np.maximum(wanted[order], room)
    return wanted


def gamma(cost: Floats, state: Floats) -> Floats:
    """γ = c^1.5 / S; no state counts as one byte."""
    return cost * np.sqrt(cost) / np.maximum(state, 1.0)


class Costs(Protocol):
    """What says what keys cost: an operator."""

    @property
    def name(self) -> str:
        """Its name, for messages."""
        ...

    def cost(self, new_rows: Floats, window_rows: Floats) -> Floats:
        """What each key costs, by its number of new rows and of rows in the window."""
        ...


class Weights(NamedTuple):
    """The cost of a key, where that is so much a new row and so much a row in the window."""

    new_row: float
    window_row: float

    def of(self, tuples: NDArray[np.int64], held_rows: NDArray[np.int64]) -> Floats:
        """The cost of keys, or of sums of keys, with so many new rows and so many older ones."""
        new = tuples.astype(np.float64)
        return self.new_row * new + self.window_row * (new + held_rows)


def weights_of(operator: Costs, statistics: str = "compact") -> Weights:
    """The operator's cost of a new row and of a row in the window; refused where the cost of a key is not the sum of these."""
    new, window = np.array([1.0, 0.0, 3.0, 1000.0, 7.0, 0.0]), np.array([0.0, 1.0, 3.0, 5e6, 1e9, 0.0])
    with np.errstate(all="ignore"):
        found = np.broadcast_to(np.asarray(operator.cost(new, window), dtype=np.float64), new.shape)
    if not np.allclose(found, found[0] * new + found[1] * window, rtol=1e-9, atol=0.0):
        raise ConfigError(
            f"planning.statistics = {statistics!r} adds up what keys cost, but the cost of operator {operator.name!r} is not so much for a new row and "
            "so much for a row in the window. Let it be a weighted sum of both, or set planning.statistics = 'exact'."
        )
    return Weights(float(found[0]), float(found[1]))
