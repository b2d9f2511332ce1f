"""The explicit table while scan, redist and readj build it, and the penalties of a candidate. Read `base` first.

Candidates are evaluated many at a time as arrays. Every load is a multiple of one power of two (`exact.on_grid`), so loads, totals and
moved state can be kept up to date by adding and subtracting without rounding, and equal situations have equal penalties to
the last bit. The largest and smallest load after a placement follow from the two outermost channels on either side: no
tree is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from rebalance.planning.exact import TOLERANCE
from rebalance.planning.model import Floats, Indices, Ints, Mask

UTILITIES = ("A", "APM", "APLM", "ATM", "ATLM")
#: Where nothing weighs anything both spread and mean are 0, and so is the penalty.
_TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True, eq=False)
class Problem:
    """R tracked keys in decreasing frequency for N ≥ 2 open channels; K resources that are not constant share C columns."""

    #: f of each key, in tuples.
    frequency: Floats
    #: β of each column, key and channel, divided by the channel's capacity.
    weight: Floats
    capacity: Floats
    #: Column of each resource.
    column: tuple[int, ...]
    theta: tuple[float, ...]
    #: p_old of each key, -1 where that channel is not open any more.
    old: Ints
    #: h_new of each key.
    home: Ints
    #: Keys that stay where they are.
    fixed: Mask
    #: β_s of each key: what γ counts when it moves.
    state: Floats
    #: β_s that the untracked keys move.
    moved: float
    #: β_s of all of D_a over N: a γ of 1.
    ideal: float
    #: Bytes of each key, bytes that move whatever is planned, bytes that may move.
    size: Floats
    spent: float
    budget: float
    utility: str

    def balance_penalty(self, spread: Floats, total: Floats) -> Floats:
        """ρ of many candidates; first axis: columns. Loads no farther apart than the tolerance count as that far apart."""
        penalties: list[Floats] = []
        for column, theta in zip(self.column, self.theta, strict=True):
            allowed = theta * (total[column] / len(self.capacity))
            penalties.append(np.maximum(spread[column] / np.maximum(allowed, _TINY), TOLERANCE / theta))
        if len(penalties) == 1:
            return penalties[0]
        product = prod(penalties)
        return np.asarray(np.sqrt(product) if len(penalties) == 2 else np.cbrt(product))

    def total_utility(self, rho: Floats, moved: Floats | float) -> Floats:
        """U(ρ, γ), lower is better."""
        gamma = moved / self.ideal if self.ideal > 0.0 else np.float64(0.0)
        if self.utility == "A":
            return rho
        if self.utility == "APM":
            return rho + gamma
        if self.utility == "APLM":
            return rho + np.log1p(gamma)
        if self.utility == "ATM":
            return rho * (1.0 + gamma)
        return rho * (1.0 + np.log1p(gamma))


class Table:
    """What scan and redist have placed so far: at first only the keys that stay."""

    def __init__(self, problem: Problem) -> None:
        columns, keys, channels = problem.weight.shape
        self.problem = problem
        self.channel = np.full(keys, -1, dtype=np.int32)
        self.load = np.zeros((columns, channels))
        self.total = np.zeros(columns)
        self.moved = problem.moved
        self.spent = problem.spent
        self.everywhere = np.arange(channels)
        for d in np.flatnonzero(problem.fixed).tolist():
            self._add(d, int(problem.old[d]))
        self._find_edges()

    def place(self, d: int, channel: int) -> None:
        """Key d goes to the channel for good."""
        self._add(d, channel)
        self._find_edges()
        if channel != self.problem.old[d]:
            self.moved += self.problem.state[d]
            self.spent += self.problem.size[d] if self.problem.old[d] >= 0 else 0.0

    def _add(self, d: int, channel: int) -> None:
        self.channel[d] = channel
        self.load[:, channel] += self.problem.weight[:, d, channel]
        self.total += self.problem.weight[:, d, channel]

    def _find_edges(self) -> None:
        #: Each column's loads in order, and for each channel the largest and smallest load on another one.
        self.ordered = np.sort(self.load, axis=1)
        lowest, second_lowest = self.ordered[:, :1], self.ordered[:, 1:2]
        second_highest, highest = self.ordered[:, -2:-1], self.ordered[:, -1:]
        self.rest_high = np.where(self.load == highest, second_highest, highest)
        self.rest_low = np.where(self.load == lowest, second_lowest, lowest)

    def utilities(self, keys: Indices) -> Floats:
        """U of the table with one more key placed, for each of these keys (rows) and each channel; infinite if not allowed."""
        problem = self.problem
        weight = problem.weight[:, keys, :]
        load = self.load[:, None, :] + weight
        spread = np.maximum(load, self.rest_high[:, None, :]) - np.minimum(load, self.rest_low[:, None, :])
        rho = problem.balance_penalty(spread, self.total[:, None, None] + weight)
        moves: NDArray[np.bool_] = problem.old[keys, None] != self.everywhere
        utility = problem.total_utility(rho, self.moved + moves * problem.state[keys, None])
        if problem.budget < np.inf:
            unaffordable = (problem.old[keys] >= 0) & (self.spent + problem.size[keys] > problem.budget)
            utility = np.where(moves & unaffordable[:, None], np.inf, utility)
        return utility
