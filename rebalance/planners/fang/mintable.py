"""MinTable: the smallest routing table. Every routed key goes home first, then the costliest keys are placed anew.

Reference: Fang et al., "Parallel stream processing against workload skewness and variance", section III; phases as in `llfd`.

- Phase I: move back all of A (virtually: what ends where it was has not moved).
- ψ: largest c first, so that few keys are enough.

Departure: pinned keys are not moved back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rebalance.planners.fang.base import Fang
from rebalance.planners.fang.llfd import place
from rebalance.planners.fang.records import Placement, Records


@dataclass(frozen=True)
class MinTable(Fang):
    """Phase I: all of A. ψ = largest c first."""

    name: ClassVar[str] = "mintable"

    def plan(self, records: Records) -> tuple[Placement, tuple[str, ...]]:
        """All three phases, from where the ring alone would put the keys."""
        placement = place(records.all_home(), records.cost)
        return placement, placement.notes()
