"""MixedBF: Mixed with every n tried, to know how much its few trials miss.

Reference: Fang et al., "Parallel stream processing against workload skewness and variance", section III; phases as in `llfd`.

- Phase I and ψ as in `mixed`, for every n = 0..|A|.
- The best result is kept: feasible first (table within A_max, every key accepted), then least migration, then the smaller
  table, then the smaller n.

Time: |A| + 1 times LLFD; meant for experiments and small tables.

Departure: if no result is feasible, the least excess over A_max comes first, then one in which every key was accepted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rebalance.planners.fang.minmig import ByGamma
from rebalance.planners.fang.mixed import table_note
from rebalance.planners.fang.records import Placement, Records


@dataclass(frozen=True)
class MixedBF(ByGamma):
    """Phase I: the best number of keys of A. ψ = largest γ first."""

    name: ClassVar[str] = "mixedbf"

    def plan(self, records: Records) -> tuple[Placement, tuple[str, ...]]:
        """All three phases for every n."""
        best, merit = self._trial(records, 0)
        for n in range(1, records.routed() + 1):
            trial, trial_merit = self._trial(records, n)
            if trial_merit < merit:
                best, merit = trial, trial_merit
        excess, table = merit[0], merit[3]
        return best, (*best.notes(), table_note(table, records.max_routes)) if excess else best.notes()

    def _trial(self, records: Records, n: int) -> tuple[Placement, tuple[int, bool, float, int]]:
        """The result for one n, and its merit: smaller is better."""
        placement = self.place(records.cleaned(n))
        table = placement.table_size()
        return placement, (max(0, table - records.max_routes), placement.refused > 0, placement.migration(), table)
