"""`wchoices`: W-Choices, all channels for the head and two for the rest.

Reference: Nasir et al., "When two choices are not enough: balancing at scale in distributed stream processing", ICDE 2016. The head is the keys
with a share of at least θ = 1/(5 N) of the load. Tuples of the head go to the least loaded of all channels, the others by partial key
grouping. There are at most 5 N keys in the head.

Departures: see `spread`. The paper finds the head by a sketch while the stream runs; here the interval's counts are known.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from math import isfinite
from typing import ClassVar

import numpy as np

from rebalance.errors import ConfigError
from rebalance.planners.splitting.spread import Spill, Splitting, least_loaded
from rebalance.planning.exact import TOLERANCE
from rebalance.planning.model import Floats, Mask


@dataclass(frozen=True)
class Head(Splitting):
    """More than two channels for the head, two for the rest; each scheme adds how many."""

    #: θ · N: share of the fair load from which a key belongs to the head; 0.2 is the paper's choice.
    theta: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.theta > 0 and isfinite(self.theta)):
            raise ConfigError(f"theta is {self.theta}; it must be above 0, for example 0.2 fair loads as in the paper")

    def spread(self, heavy: Spill) -> Floats:
        """The head on its channels, other heavy keys on two."""
        in_head = head(heavy, self.theta)
        return least_loaded(heavy, np.where(in_head, self.choices(heavy, in_head), 2).astype(np.int32))

    @abstractmethod
    def choices(self, heavy: Spill, in_head: Mask) -> int:
        """Channels of each key of the head."""


@dataclass(frozen=True)
class WChoices(Head):
    """The least loaded of all channels for the head, of two for the rest."""

    name: ClassVar[str] = "wchoices"

    def choices(self, heavy: Spill, in_head: Mask) -> int:
        """All."""
        return len(heavy.open)


def head(heavy: Spill, theta: float) -> Mask:
    """Which of the heavy keys have at least the share θ/N of the load."""
    mask: Mask = heavy.cost * len(heavy.open) >= theta * heavy.request.stats.cost.sum() * (1 - TOLERANCE)
    return mask
