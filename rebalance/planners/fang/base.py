"""What the planners of LLFD's family share: they plan on records, one per key or compact ones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from rebalance.errors import ConfigError
from rebalance.planners.fang.compact import compact_records, concrete_channels
from rebalance.planners.fang.records import Placement, Records, key_records
from rebalance.planning.model import Proposal, Request


@dataclass(frozen=True)
class Fang(ABC):
    """Each planner adds how it cleans the table and in which order ψ keys leave."""

    splits_keys: ClassVar[bool] = False
    some_keys: ClassVar[bool] = True

    #: Plan on compact records with R = 2^r; None = exactly, on the keys themselves.
    r: int | None = None

    def __post_init__(self) -> None:
        if self.r is not None and not 0 <= self.r <= 32:
            raise ConfigError(f"r is {self.r}; it must be from 0 to 32 (R = 2^r), or left out for exact planning")

    def propose(self, request: Request) -> Proposal:
        """Where the plan on records puts the keys."""
        if self.r is not None:
            compact = compact_records(request, self.r)
            placement, notes = self.plan(compact.records)
            return Proposal(channel=concrete_channels(compact, placement), notes=notes)
        placement, notes = self.plan(key_records(request))
        channel = placement.records.planned.copy()
        channel[placement.placed[:, 0]] = placement.placed[:, 1]
        return Proposal(channel=channel, notes=notes)

    @abstractmethod
    def plan(self, records: Records) -> tuple[Placement, tuple[str, ...]]:
        """All phases: what is proposed, and what a person should know of it."""
