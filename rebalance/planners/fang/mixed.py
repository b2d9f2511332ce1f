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

from rebalance.planners.fang.minmig import ByGamma
from rebalance.planners.fang.records import Placement, Records


@dataclass(frozen=True)
class Mixed(ByGamma):
    """Phase I: as few keys of A as needed for the table to fit. ψ = largest γ first."""

    name: ClassVar[str] = "mixed"

    def plan(self, records: Records) -> tuple[Placement, tuple[str, ...]]:
        """All three phases, from n = 0 upwards, cleaning more of the table each time until the new one fits."""
        a, a_max = records.routed(), records.max_routes
        smallest: tuple[int, Placement] | None = None
        n = 0
        while True:
            placement = self.place(records.cleaned(n))
            table = placement.table_size()
            if table <= a_max:
                return placement, placement.notes()
            if smallest is None or table < smallest[0]:
                smallest = table, placement
            if n == a:
                return smallest[1], (*smallest[1].notes(), table_note(smallest[0], a_max))
            n = min(a, n + (table - a_max))


def table_note(table: int, a_max: int) -> str:
    """What a person should know of a table that is too large."""
    return f"max_routes was not reachable: the smallest table found has {table:,} routes, max_routes is {a_max:,}"
