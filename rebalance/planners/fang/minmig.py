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

from rebalance.errors import ConfigError
from rebalance.planners.fang.base import Fang
from rebalance.planners.fang.llfd import place
from rebalance.planners.fang.records import Placement, Records
from rebalance.planning.exact import power, rounded
from rebalance.planning.model import Floats


@dataclass(frozen=True)
class ByGamma(Fang):
    """Planners in which the keys with the largest γ = c^β / S leave first."""

    #: Weight of computation against state; no unit, 1 to 2.
    beta: float = 1.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.beta < float("inf"):
            raise ConfigError(f"beta is {self.beta}; it must be a positive number, 1 to 2 as a rule")

    def place(self, records: Records) -> Placement:
        """Phases II and III."""
        return place(records, migration_priority(records.cost, records.state, self.beta))


@dataclass(frozen=True)
class MinMig(ByGamma):
    """No cleaning, ψ = largest γ first."""

    name: ClassVar[str] = "minmig"

    def plan(self, records: Records) -> tuple[Placement, tuple[str, ...]]:
        """Phases II and III, from where the keys are."""
        placement = self.place(records)
        return placement, placement.notes()


def migration_priority(cost: Floats, state: Floats, beta: float) -> Floats:
    """γ = c^β / S, rounded so that keys tie alike on every processor.

    A key without state counts as one byte: it is the cheapest to move, but not infinitely so.

    >>> migration_priority(np.array([4.0, 4.0, 9.0]), np.array([2.0, 0.0, 27.0]), beta=1.5)
    array([4., 8., 1.])
    """
    return rounded(power(cost, beta) / np.where(state > 0, state, 1.0))
