"""`wchoices`: W-Choices, all channels for the head and two for the rest.

Reference: Nasir et al., "When two choices are not enough: balancing at scale in distributed stream processing", ICDE 2016. The head is the keys
with a share of at least θ = 1/(5 N) of the load. Tuples of the head go to the least loaded of all channels, the others by partial key
grouping. There are at most 5 N keys in the head.

Departures: see `spread`. The paper finds the head by a sketch while the stream runs; here the interval's counts are known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rebalance.errors import ConfigError
from rebalance.planners.splitting.pkg import with_choices
from rebalance.planners.splitting.spread import MAX_SPLITS, Spill, check_max_splits, spill
from rebalance.planning.model import Mask, Proposal, Request

#: θ · N, the paper's choice.
HEAD = 0.2


@dataclass(frozen=True)
class WChoices:
    """The least loaded of all channels for the head, of two for the rest."""

    name: ClassVar[str] = "wchoices"
    splits_keys: ClassVar[bool] = True

    #: θ · N: share of the fair load from which a key belongs to the head.
    theta: float = HEAD
    #: Most keys that are split.
    max_splits: int = MAX_SPLITS

    def __post_init__(self) -> None:
        check_theta(self.theta)
        check_max_splits(self.max_splits)

    def propose(self, request: Request) -> Proposal:
        """The head everywhere, other heavy keys on two channels."""
        heavy = spill(request, self.max_splits)
        return with_choices(heavy, np.where(head(heavy, self.theta), len(heavy.open), 2).astype(np.int32))


def head(heavy: Spill, theta: float) -> Mask:
    """Which of the heavy keys have at least the share θ/N of the load."""
    mask: Mask = heavy.cost * len(heavy.open) >= theta * heavy.request.stats.cost.sum()
    return mask


def check_theta(theta: float) -> None:
    """Refuse a head that is everything."""
    if not theta > 0:
        raise ConfigError(f"theta must be positive, got {theta}. The paper's head begins at 0.2 fair loads.")
