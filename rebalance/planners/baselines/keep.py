"""`keep`: the baseline that never moves anything it does not have to.

Keys stay on their channel; only keys of channels that vanished or are to be drained go to the ring's answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rebalance.planning.model import Proposal, Request


@dataclass(frozen=True)
class Keep:
    """Leaves every key where it is."""

    name: ClassVar[str] = "keep"
    splits_keys: ClassVar[bool] = False
    some_keys: ClassVar[bool] = True

    def propose(self, request: Request) -> Proposal:
        """The active assignment."""
        return Proposal(channel=request.start)
