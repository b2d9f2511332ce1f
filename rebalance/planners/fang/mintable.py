"""MinTable: the smallest routing table. Every routed key goes home first, then the costliest keys are placed anew.

Reference: Fang et al., "Parallel stream processing against workload skewness and variance", section III; phases as in `llfd`.

- Phase I: move back all of A (virtually: what ends where it was has not moved).
- ψ: largest c first, so that few keys are enough.

Departure: pinned keys are not moved back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rebalance.planners.fang.llfd import settle
from rebalance.planners.fang.records import Records, Settled, check_r, propose_on_records
from rebalance.planning.model import Proposal, Request


@dataclass(frozen=True)
class MinTable:
    """Phase I: all of A. ψ = largest c first."""

    name: ClassVar[str] = "mintable"
    splits_keys: ClassVar[bool] = False

    #: Plan on compact records with R = 2^r; None = exactly, on the keys themselves.
    r: int | None = None

    def __post_init__(self) -> None:
        check_r(self.r)

    def propose(self, request: Request) -> Proposal:
        """Balance from where the ring alone would put the keys."""
        return propose_on_records(request, self.r, self.plan)

    def plan(self, records: Records) -> tuple[Settled, tuple[str, ...]]:
        """All three phases."""
        settled = settle(records.all_home(), records.cost)
        return settled, settled.notes()
