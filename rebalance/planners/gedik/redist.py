"""`redist`: over all unplaced tracked keys and all channels, always the placement with the least utility per frequency.

Reference: Gedik, "Partitioning functions for stateful data parallelism in stream processing", VLDB Journal 23(4), 2014,
section 4.2.3, algorithm 3. Resources, tracking, penalties, limits and departures: `base`.

1. h_new is the ring for N_new; γ starts with what the keys of D_o move.
2. While a tracked key is unplaced: for each such key and each channel, U of the table so far with the key placed there, over
   the key's f; place the least.

Ties (`planning.exact`) go to the more frequent key, then to the smaller key, then to the smaller channel. As written O(R²·N·log N) for R
tracked keys; here each step bounds every unplaced key in constant time and tries the N channels only for keys that could win
or tie, O(R² + R·T·N) with T the keys tried in a step, a handful as a rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rebalance.planners.gedik.base import Gedik
from rebalance.planners.gedik.table import Problem, Table
from rebalance.planning.exact import TOLERANCE, first_least
from rebalance.planning.model import Floats, Ints

#: Bounds are lowered by this share: once the tolerance, for keys that tie with the best, and once more for the bounds' own rounding.
_SLACK = 2 * TOLERANCE


@dataclass(frozen=True)
class Redist(Gedik):
    """The best key as well as the best channel at every step."""

    name: ClassVar[str] = "redist"

    def place(self, problem: Problem) -> Ints:
        """Algorithm 3."""
        table = Table(problem)
        bounds = Bounds(problem)
        for _ in range(np.count_nonzero(~problem.fixed)):
            table.place(*best_placement(table, bounds))
        return table.channel


def best_placement(table: Table, bounds: Bounds) -> tuple[int, int]:
    """The key and the channel with the least U/f."""
    frequency = table.problem.frequency
    bound = bounds.least_utilities(table) / frequency
    bound[table.channel >= 0] = np.inf
    hopeful = int(bound.argmin())
    utilities = table.utilities(np.array([hopeful])) / frequency[hopeful]
    tried = np.flatnonzero(bound <= utilities.min())
    if len(tried) > 1:
        utilities = table.utilities(tried) / frequency[tried, None]
    # The first of equal ones is the more frequent key, then the smaller channel.
    row, channel = divmod(first_least(utilities.ravel()), utilities.shape[1])
    return int(tried[row]), channel


class Bounds:
    """What each key could have at best if it were placed next."""

    def __init__(self, problem: Problem) -> None:
        self.lightest = problem.weight.min(axis=2)
        self.heaviest = problem.weight.max(axis=2)
        # A key whose channel is gone moves wherever it is placed.
        self.moved = np.where(problem.old < 0, problem.state, 0.0)

    def least_utilities(self, table: Table) -> Floats:
        """No channel gives a key a lower U: the best balance any of them could give, and no migration that can be avoided."""
        lowest, second_lowest, highest = table.ordered[:, :1], table.ordered[:, 1:2], table.ordered[:, -1:]
        high = np.maximum(highest, lowest + self.lightest)
        low = np.minimum(second_lowest, lowest + self.heaviest)
        rho = table.problem.balance_penalty(high, low, table.total[:, None] + self.heaviest)
        return table.problem.total_utility(rho, table.moved + self.moved) * (1.0 - _SLACK)
