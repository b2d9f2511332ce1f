"""`readj`: tracked keys start where they are; moves and swaps that lower the imbalance, the one with the largest gain first.

Reference: Gedik, "Partitioning functions for stateful data parallelism in stream processing", VLDB Journal 23(4), 2014,
section 4.2.4, algorithm 4. Resources, tracking, penalties, limits and departures: `base`.

1. Tracked keys start at p_old, those of channels that are gone at h_new; γ starts with what the keys of D_o move.
2. Over all moves (d1: i→j) and swaps (d1: i→j, d2: j→i) that lower ρ strictly, take the one with the largest gain
   (U_now - U_then) / |f(d1) - f(d2)|, f of no key being 0; swaps of equal f are skipped. γ counts only what differs from p_old, so
   moving a key back lowers it.
3. Stop when none is left. A key moves at most c times.

U_now is the utility before the step (in the listing it is overwritten while candidates are compared, which is a slip). The gain may be
negative: any step that lowers ρ is taken.

Strictly means by more than the tolerance of `planning.exact`. U_now - U_then may be tiny against both, so it is the utilities that have
a tolerance, a share of U_now: candidates are compared one after the other, and the later one counts only if its gain is larger by
more than that share over the smaller |f(d1) - f(d2)| of the two. So ties go to the smaller rank of d1, d1 being the more frequent key of a swap, then to the
smaller channel of d1, then to the move before the swap, then to the smaller rank of d2; rank is by decreasing f, then by key.

As written O(R²·log N) for each of up to c·R steps with R tracked keys. Here a step with equal capacities costs O(R·N + R·log R) and
the candidates that fit, at most O(R²/N) of them and far fewer near the end (`readj_search`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rebalance.errors import ConfigError
from rebalance.planners.gedik.base import Gedik
from rebalance.planners.gedik.readj_search import Search
from rebalance.planners.gedik.table import Problem
from rebalance.planning.model import Ints


@dataclass(frozen=True)
class Readj(Gedik):
    """Readjusts instead of placing anew."""

    name: ClassVar[str] = "readj"

    #: How often a key may move while one plan is made.
    c: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.c < 1:
            raise ConfigError(f"c is {self.c}; it must be at least 1, for readj plans only by moving keys")

    def place(self, problem: Problem) -> Ints:
        """Algorithm 4."""
        search = Search(problem, self.c)
        while step := search.best_step():
            search.take(step)
        return search.channel
