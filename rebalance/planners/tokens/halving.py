"""Token halving: the channel that stands out loses half of its tokens.

The ring, the trigger, the rounds and the departures: `base`. Every channel starts with a power of two of tokens. Channel x keeps the
lower half of its tokens, j ≤ count/2, so the tokens of a channel are always the first so many and its count says which.

What may move: taking tokens away gives their arcs to the next token clockwise, so only keys of x move, to any other
channel (or nowhere, where the next token is x's own). Half of the arcs of x go, about half of its keys, whatever they cost: one
heavy key moves whole or stays. With one token left x cannot be halved any more; the plan says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rebalance.errors import ConfigError
from rebalance.planners.tokens.base import MOST_TOKENS, TokenRing


@dataclass(frozen=True)
class Halving(TokenRing):
    """x loses half of its tokens."""

    name: ClassVar[str] = "halving"

    #: Tokens each channel starts with; a power of two.
    tokens: int = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (isinstance(self.tokens, int) and 1 <= self.tokens <= MOST_TOKENS and self.tokens.bit_count() == 1):
            raise ConfigError(f"tokens is {self.tokens}; it must be a power of two from 1 to {MOST_TOKENS}")

    @property
    def start(self) -> int:
        """As many as asked for."""
        return self.tokens

    def relieve(self, counts: Sequence[int], x: int) -> tuple[int, ...]:
        """The lower half of x's tokens stays."""
        return tuple(max(count // 2, 1) if channel == x else count for channel, count in enumerate(counts))

    def exhausted(self, counts: Sequence[int], x: int) -> str:
        """x has one token."""
        return (
            f"channel {x} stands out but has one token left and cannot be halved: use more tokens, or another planner"
        )
