"""Mixed: little migration within a limited table.

Reference: Fang et al., "Parallel stream processing against workload skewness and variance", section III; phases as in `llfd`.

- Phase I: move back the n routed keys with the smallest S (ties: the smaller key).
- ψ: largest γ = c^β / S first, as in `minmig`.
- n starts at 0. While the new table is larger than A_max, try again from the original A with n ← min(|A|, n + (|A'| - A_max)).

Departures: the paper's listing sets n = |A'| - A_max, which can repeat itself for ever; here n grows strictly, and at n = |A| the
smallest table found is returned with a note. Pinned keys are not moved back. A is every key that is not at home, so after a
change of the ring it also holds the keys whose home moved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rebalance.planners.fang.llfd import settle
from rebalance.planners.fang.minmig import check_beta, migration_priority
from rebalance.planners.fang.records import Records, Settled, check_r, propose_on_records
from rebalance.planning.model import Proposal, Request


@dataclass(frozen=True)
class Mixed:
    """Phase I: as few keys of A as needed for the table to fit. ψ = largest γ first."""

    name: ClassVar[str] = "mixed"
    splits_keys: ClassVar[bool] = False

    #: Weight of computation against state; no unit, 1 to 2.
    beta: float = 1.5
    #: Plan on compact records with R = 2^r; None = exactly, on the keys themselves.
    r: int | None = None

    def __post_init__(self) -> None:
        check_beta(self.beta)
        check_r(self.r)

    def propose(self, request: Request) -> Proposal:
        """Balance, cleaning more of the table each time until the new one fits."""
        return propose_on_records(request, self.r, self.plan)

    def plan(self, records: Records) -> tuple[Settled, tuple[str, ...]]:
        """All three phases, from n = 0 upwards."""
        a, a_max = records.routed(), records.max_routes
        smallest: tuple[int, Settled] | None = None
        n = 0
        while True:
            cleaned = records.cleaned(n)
            settled = settle(cleaned, migration_priority(cleaned.cost, cleaned.state, self.beta))
            table = settled.table_size()
            if table <= a_max:
                return settled, settled.notes()
            if smallest is None or table < smallest[0]:
                smallest = table, settled
            if n == a:
                return smallest[1], (*smallest[1].notes(), table_note(smallest[0], a_max))
            n = min(a, n + (table - a_max))


def table_note(table: int, a_max: int) -> str:
    """What a person should know of a table that is too large."""
    return f"max_routes was not reachable: the smallest table found has {table:,} routes, max_routes is {a_max:,}"
