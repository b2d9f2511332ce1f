"""`scan`: tracked keys in decreasing frequency, each to the channel with the best utility.

Reference: Gedik, "Partitioning functions for stateful data parallelism in stream processing", VLDB Journal 23(4), 2014,
section 4.2.2, algorithm 2. Resources, tracking, penalties, limits and departures: `base`.

1. h_new is the ring for N_new; γ starts with what the keys of D_o move.
2. For each tracked key in decreasing f: for each channel, U of the table so far with the key placed there; take the least.

Ties (`planning.exact`) go to the smaller channel. Time O(R·N) for R tracked keys: the paper's log N for keeping the largest and smallest load is
not needed, they follow from the two outermost channels on either side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rebalance.planners.gedik.base import Gedik
from rebalance.planners.gedik.table import Problem, Table
from rebalance.planning.exact import first_least
from rebalance.planning.model import Ints


@dataclass(frozen=True)
class Scan(Gedik):
    """One pass over the tracked keys."""

    name: ClassVar[str] = "scan"

    def place(self, problem: Problem) -> Ints:
        """Algorithm 2."""
        table = Table(problem)
        for d in np.flatnonzero(~problem.fixed).tolist():
            table.place(d, first_least(table.utilities(np.array([d]))[0]))
        return table.channel
