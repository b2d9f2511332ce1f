"""`sg`: shuffle grouping, every heavy key over all channels.

Reference: the baseline of Nasir et al., "Load balancing for skewed streams on heterogeneous cluster" (Consistent Grouping) and of every
paper on key splitting. Tuples are dealt out in turn, whatever their key: the best balance there is and the largest memory footprint, for
every key is on every channel. It is no keyed partitioning at all, a yardstick.

Departures: see `spread`; only the `max_splits` costliest keys are dealt out, in proportion to the capacities.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rebalance.planners.splitting.spread import MAX_SPLITS, check_max_splits, spill
from rebalance.planning.model import Proposal, Request


@dataclass(frozen=True)
class SG:
    """Round robin."""

    name: ClassVar[str] = "sg"
    splits_keys: ClassVar[bool] = True

    #: Most keys that are split.
    max_splits: int = MAX_SPLITS

    def __post_init__(self) -> None:
        check_max_splits(self.max_splits)

    def propose(self, request: Request) -> Proposal:
        """Every heavy key everywhere."""
        heavy = spill(request, self.max_splits)
        return heavy.proposal(np.outer(heavy.cost, request.open_capacity / request.open_capacity.sum()))
