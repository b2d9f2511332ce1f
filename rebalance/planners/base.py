"""The interface of a planner: one method, pure."""

from __future__ import annotations

from typing import ClassVar, Protocol

from rebalance.model import Proposal, Request


class Planner(Protocol):
    """HOW a better function is found.

    A planner is a frozen dataclass: its fields are its parameters, in the paper's letters, checked in `__post_init__`. `propose`
    has no clock, no I/O, no unseeded randomness and does not change its request, so the same request gives the same proposal.
    """

    #: The name in a pipeline file.
    name: ClassVar[str]
    #: Whether it may spread one key over several channels; then the operator's states must merge.
    splits_keys: ClassVar[bool]

    def propose(self, request: Request) -> Proposal:
        """Where each key of the request should go."""
        ...
