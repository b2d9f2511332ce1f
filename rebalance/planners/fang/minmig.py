"""MinMig: least migration. No cleaning; keys leave in the order of cost per state.

Reference: Fang et al., "Parallel stream processing against workload skewness and variance", section III; phases as in `llfd`.

- Phase I: nothing.
- ψ: largest γ(k) = c(k)^β / S(k,w) first, so that much load leaves with little state.

β weighs computation against state: with β = 1 keys are chosen by cost per byte alone; a larger β picks larger keys and gives a
smaller table. The algorithm does not limit the table: it grows with every plan.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rebalance.planners.fang.llfd import settle
from rebalance.planners.fang.records import Records, Settled, check_r, propose_on_records
from rebalance.planning.model import Floats, Proposal, Request


@dataclass(frozen=True)
class MinMig:
    """ψ = largest γ = c^β / S first."""

    name: ClassVar[str] = "minmig"
    splits_keys: ClassVar[bool] = False

    #: Weight of computation against state; no unit, 1 to 2.
    beta: float = 1.5
    #: Plan on compact records with R = 2^r; None = exactly, on the keys themselves.
    r: int | None = None

    def __post_init__(self) -> None:
        check_beta(self.beta)
        check_r(self.r)

    def propose(self, request: Request) -> Proposal:
        """Balance from where the keys are."""
        return propose_on_records(request, self.r, self.plan)

    def plan(self, records: Records) -> tuple[Settled, tuple[str, ...]]:
        """Phases II and III."""
        settled = settle(records, migration_priority(records.cost, records.state, self.beta))
        return settled, settled.notes()


def check_beta(beta: float) -> None:
    """Refuse what is no weight."""
    if not 0 < beta < float("inf"):
        raise ValueError(f"beta is {beta}; it must be a positive number, 1 to 2 as a rule")


def migration_priority(cost: Floats, state: Floats, beta: float) -> Floats:
    """γ = c^β / S. A key without state counts as one byte: it is the cheapest to move, but not infinitely so.

    >>> migration_priority(np.array([4.0, 4.0, 9.0]), np.array([2.0, 0.0, 27.0]), beta=1.5)
    array([4., 8., 1.])
    """
    return np.asarray(cost**beta / np.where(state > 0, state, 1.0), dtype=np.float64)
