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

UTILITIES = ("A", "APM", "APLM", "ATM", "ATLM", "BTM")
#: Where nothing weighs anything both spread and mean are 0, and so is the penalty.
TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True, eq=False)
class Problem:
    """R tracked keys in decreasing frequency for N ≥ 2 open channels; the resources that count share C columns."""

    #: f of each key, in tuples.
    frequency: Floats
    #: β of each column, key and channel, divided by the channel's capacity.
    weight: Floats
    capacity: Floats
    #: Column of each resource.
    column: tuple[int, ...]
    #: θ_k of each resource; for BTM α_k.
    allowed: tuple[float, ...]
    #: Load of each column and channel before a tracked key is placed: for BTM that of all other keys, else none.
    load: Floats
    #: p_old of each key, -1 where that channel is not open any more.
    old: Ints
    #: h_new of each key.
    home: Ints
    #: Keys that stay where they are.
    fixed: Mask
    #: β_s of each key: what γ counts when it moves.
    state: Floats
    #: β_s that D_o moves, for BTM all untracked keys.
    moved: float
    #: β_s of all of D_a over N, for BTM of all of D: a γ or m of 1.
    ideal: float
    #: Bytes of each key, bytes that move whatever is planned, bytes that may move.
    size: Floats
    spent: float
    budget: float
    utility: str

    def balance_penalty(self, high: Floats, low: Floats, total: Floats) -> Floats:
        """ρ, or b for BTM, of many candidates by their largest, smallest and total loads; first axis: columns."""
        penalties: list[Floats] = []
        for c, allowed in zip(self.column, self.allowed, strict=True):
            mean = total[c] / len(self.capacity)
            if self.utility == "BTM":
                least = np.maximum(np.maximum(low[c], TOLERANCE * mean), TINY)
                penalties.append(np.where(high[c] > 0.0, high[c] / least, 1.0) / allowed)
            else:
                spread = np.maximum(high[c] - low[c], 0.0)
                penalties.append(np.maximum(spread / np.maximum(allowed * mean, TINY), TOLERANCE / allowed))
        if len(penalties) == 1:
            return penalties[0]
        product = prod(penalties)
        return np.asarray(np.sqrt(product) if len(penalties) == 2 else np.cbrt(product))

    def total_utility(self, rho: Floats, moved: Floats | float) -> Floats:
        """U(ρ, γ), or b·(1+m), lower is better."""
        gamma = moved / self.ideal if self.ideal > 0.0 else np.float64(0.0)
        if self.utility == "A":
            return rho
        if self.utility == "APM":
            return rho + gamma
        if self.utility == "APLM":
            return rho + np.log1p(gamma)
        if self.utility in ("ATM", "BTM"):
            return rho * (1.0 + gamma)
        return rho * (1.0 + np.log1p(gamma))


class Table:
    """What scan and redist have placed so far: at first only the keys that stay."""

    def __init__(self, problem: Problem) -> None:
        _, keys, channels = problem.weight.shape
        self.problem = problem
        self.channel = np.full(keys, -1, dtype=np.int32)
        self.load = problem.load.copy()
        self.total = self.load.sum(axis=1)
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
        high, low = np.maximum(load, self.rest_high[:, None, :]), np.minimum(load, self.rest_low[:, None, :])
        rho = problem.balance_penalty(high, low, self.total[:, None, None] + weight)
        moves: NDArray[np.bool_] = problem.old[keys, None] != self.everywhere
        utility = problem.total_utility(rho, self.moved + moves * problem.state[keys, None])
        if problem.budget < np.inf:
            unaffordable = (problem.old[keys] >= 0) & (self.spent + problem.size[keys] > problem.budget)
            utility = np.where(moves & unaffordable[:, None], np.inf, utility)
        return utility
