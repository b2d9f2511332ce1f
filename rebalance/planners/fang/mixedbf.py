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

from rebalance.planners.fang.llfd import settle
from rebalance.planners.fang.minmig import check_beta, migration_priority
from rebalance.planners.fang.mixed import table_note
from rebalance.planners.fang.records import Records, Settled, check_r, propose_on_records
from rebalance.planning.model import Proposal, Request


@dataclass(frozen=True)
class MixedBF:
    """Phase I: the best number of keys of A. ψ = largest γ first."""

    name: ClassVar[str] = "mixedbf"
    splits_keys: ClassVar[bool] = False

    #: Weight of computation against state; no unit, 1 to 2.
    beta: float = 1.5
    #: Plan on compact records with R = 2^r; None = exactly, on the keys themselves.
    r: int | None = None

    def __post_init__(self) -> None:
        check_beta(self.beta)
        check_r(self.r)

    def propose(self, request: Request) -> Proposal:
        """Balance, cleaning every possible number of routes."""
        return propose_on_records(request, self.r, self.plan)

    def plan(self, records: Records) -> tuple[Settled, tuple[str, ...]]:
        """All three phases for every n."""
        best, merit = self._trial(records, 0)
        for n in range(1, records.routed() + 1):
            trial, trial_merit = self._trial(records, n)
            if trial_merit < merit:
                best, merit = trial, trial_merit
        excess, table = merit[0], merit[3]
        return best, (*best.notes(), table_note(table, records.max_routes)) if excess else best.notes()

    def _trial(self, records: Records, n: int) -> tuple[Settled, tuple[int, bool, float, int]]:
        """The result for one n, and its merit: smaller is better."""
        cleaned = records.cleaned(n)
        settled = settle(cleaned, migration_priority(cleaned.cost, cleaned.state, self.beta))
        table = settled.table_size()
        return settled, (max(0, table - records.max_routes), settled.refused > 0, settled.migration(), table)
