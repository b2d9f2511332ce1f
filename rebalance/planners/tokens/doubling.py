"""Token doubling: every channel but the one that stands out gets twice as many tokens.

The ring, the trigger, the rounds and the departures: `base`. Every channel starts with one token, so the first arcs are of very
different length: the ring starts out uneven and evens out as tokens are added.

What may move: a key whose first token clockwise is a new one goes to the owner of that token. New tokens belong to any channel but
x, so no key moves to x; keys leave x, and keys of the other channels are reshuffled among them too. A heavy key moves whole or
stays, and may land on a channel that is then the next to stand out.

A channel never gets more than `base.MOST_TOKENS`; when the others are there, the plan says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rebalance.planners.tokens.base import MOST_TOKENS, TokenRing


@dataclass(frozen=True)
class Doubling(TokenRing):
    """All but x get twice as many tokens."""

    name: ClassVar[str] = "doubling"

    @property
    def start(self) -> int:
        """One token each."""
        return 1

    def relieve(self, counts: Sequence[int], x: int) -> tuple[int, ...]:
        """Twice the tokens for the others, as far as there may be more."""
        return tuple(count if channel == x else min(2 * count, MOST_TOKENS) for channel, count in enumerate(counts))

    def exhausted(self, counts: Sequence[int], x: int) -> str:
        """The others have all the tokens they may have."""
        return f"channel {x} stands out but the others have {MOST_TOKENS:,} tokens and get no more: use another planner"
