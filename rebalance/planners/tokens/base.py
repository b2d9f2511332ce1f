"""What `halving` and `doubling` share: a ring of tokens, the trigger and the rounds.

Reference: the load balancer for actors of a streaming map-reduce that watches queue lengths and redistributes keys by consistent
hashing, its section 4 (policy and redistribution) and 6 (skew, workloads, table 1).

- Channel d owns the tokens `token-{d}-{j}`, j = 1..count, each at its canonical MurmurHash3; a key belongs to the first token
  clockwise. The circle is cut into slots as every ring here is (`partition.ring`). The paper does not say that tokens count from
  1: of the ways to count channels and tokens from 0 or 1 it is the only one that, with this hash, fits its table 1 (docs/papers.md).
- Trigger: with Q the load of each channel, x the largest and s the second largest, x is rebalanced iff Q_x > Q_s · (1 + τ).
- A round changes the tokens (how, is the planner's). Each channel is rebalanced at most `rounds` times per plan. All rounds are
  simulated on the interval's statistics, so only the last ring is ever moved to.

What becomes of state after a change is a setting of the pipeline (`planning.consistency`), not of the planner: `move` takes it along
before the next interval (the paper's future work); `merge` leaves it where it was made and merges partial states at the end (the
paper's own, mergeable operators only).

Ours, beyond the paper:

- Q is the cost of the interval, not a queue length, divided by the channel's capacity. Ties go to the smaller channel.
- Every key goes where the ring says. Pinned keys stay, by a route; excluded channels own no token.
- A new channel claims tokens, as the paper says of new reducers (section 7), before the trigger looks at the loads. How many, it leaves
  open; nodes begin with equal numbers (4.2), so here it is the power of two nearest to the mean of the channels that are there. Before
  the trigger keys move to the new channel only. A channel that goes gives its tokens up, and only its keys move.
- A channel has at most `MOST_TOKENS`: beyond that a token no longer owns a slot of its own and doubling only costs time.

Cost: one pass over the keys, then O(tokens · log tokens + slots) per round.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rebalance.errors import ConfigError
from rebalance.partition import SLOTS, ring_of
from rebalance.partition.hashing import ring_points
from rebalance.planning.exact import clearly_less, first_greatest
from rebalance.planning.model import Floats, Ints, Proposal, Request

#: More tokens than this a channel never gets.
MOST_TOKENS = 4096
#: Under this name the memo holds how many tokens each channel has.
TOKENS = "tokens"


@dataclass(frozen=True)
class TokenRing(ABC):
    """A ring of tokens that a loaded channel loses ground on."""

    splits_keys: ClassVar[bool] = False
    judges_itself: ClassVar[bool] = False

    #: τ: how far the largest load must be above the second largest, 0.2 = 20 %.
    tau: float = 0.2
    #: How often one channel may be rebalanced in one plan.
    rounds: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.tau < float("inf"):
            raise ConfigError(f"tau is {self.tau}; it must be a number of at least 0, for example 0.2")
        if not (isinstance(self.rounds, int) and 1 <= self.rounds <= 100):
            raise ConfigError(f"rounds is {self.rounds}; it must be a whole number from 1 to 100")

    @property
    @abstractmethod
    def start(self) -> int:
        """Tokens each channel starts with."""

    @abstractmethod
    def relieve(self, counts: Sequence[int], x: int) -> tuple[int, ...]:
        """The tokens after a round for channel x; unchanged when there is no further round to be had."""

    @abstractmethod
    def exhausted(self, counts: Sequence[int], x: int) -> str:
        """What to tell a person when `relieve` changes nothing."""

    def first_ring(self, channels: int, excluded: Collection[int]) -> Ints:
        """Every open channel with the tokens it starts with."""
        return token_ring(self._counts({}, channels, excluded))

    def next_ring(
        self, memo: Mapping[str, Any], channels: int, excluded: Collection[int]
    ) -> tuple[Ints, Mapping[str, Any]]:
        """Those who stay keep their tokens, newcomers claim some."""
        counts = self._counts(memo, channels, excluded)
        return token_ring(counts), {TOKENS: list(counts)} if TOKENS in memo else {}

    def propose(self, request: Request) -> Proposal:
        """Rounds of the trigger on the interval's loads, then every key where the last ring sends it."""
        counts = self._counts(request.memo, request.channels, np.flatnonzero(~request.open).tolist())
        ring = token_ring(counts)
        loads = Loads(request)
        done = [0] * request.channels
        notes: list[str] = []
        while (x := overloaded(loads.under(ring), request.open_capacity, self.tau)) is not None:
            if done[x] == self.rounds:
                notes.append(f"channel {x} is still above the others after {_times(self.rounds)} (rounds)")
                break
            changed = self.relieve(counts, x)
            if changed == counts:
                notes.append(self.exhausted(counts, x))
                break
            notes.append(f"channel {x}: tokens {_told(counts)} → {_told(changed)}")
            counts, ring = changed, token_ring(changed)
            done[x] += 1
        return Proposal(
            channel=np.where(request.movable, ring[request.stats.slots], request.current).astype(np.int32),
            ring=None if np.array_equal(ring, request.ring) else ring,
            memo={**request.memo, TOKENS: list(counts)} if any(done) or TOKENS in request.memo else request.memo,
            notes=tuple(notes),
        )

    def _counts(self, memo: Mapping[str, Any], channels: int, excluded: Collection[int]) -> tuple[int, ...]:
        """Tokens of each channel: what it has by the memo, none if it is closed, what it claims or starts with if it is new."""
        known = list(memo.get(TOKENS, ()))[:channels]
        kept = [0 if d in excluded else count for d, count in enumerate(known)] + [0] * (channels - len(known))
        new = claimed(kept) if any(kept) else self.start
        return tuple(0 if d in excluded else count or new for d, count in enumerate(kept))


def claimed(counts: Sequence[int]) -> int:
    """Tokens a new channel claims: the power of two nearest, by ratio, to the mean of those who have any.

    >>> claimed([64, 64, 32, 64]), claimed([1, 2, 2, 0])
    (64, 2)
    """
    there = [count for count in counts if count]
    power = 1
    while 2 * (power * len(there)) ** 2 < sum(there) ** 2:  # in whole numbers: the mean is above √2 · power
        power *= 2
    return power


class Loads:
    """The load of each channel under any ring: keys added up by slot once, pinned keys where they are."""

    def __init__(self, request: Request) -> None:
        free, stays = request.movable, ~request.movable
        cost, slots = request.stats.cost, request.stats.slots
        self._channels = request.channels
        self._by_slot = np.bincount(slots[free], weights=cost[free], minlength=SLOTS)
        self._pinned = np.bincount(request.current[stays], weights=cost[stays], minlength=request.channels)

    def under(self, ring: Ints) -> Floats:
        """L(d) with every key where this ring sends it."""
        loads = np.bincount(ring, weights=self._by_slot, minlength=self._channels) + self._pinned
        return np.asarray(loads, dtype=np.float64)


def overloaded(loads: Floats, capacity: Floats, tau: float) -> int | None:
    """x if Q_x > Q_s · (1 + τ), else None; channels without capacity do not count.

    >>> overloaded(np.array([12.0, 10.0, 3.0]), np.ones(3), tau=0.2), overloaded(np.array([12.1, 10.0, 3.0]), np.ones(3), tau=0.2)
    (None, 0)
    """
    open_channels = np.flatnonzero(capacity > 0)
    if len(open_channels) < 2:
        return None
    q = loads[open_channels] / capacity[open_channels]
    x = first_greatest(q)
    second = float(np.delete(q, x).max())
    return int(open_channels[x]) if clearly_less(second * (1 + tau), float(q[x])) else None


def token_ring(counts: Sequence[int]) -> Ints:
    """The slot table of channels with these numbers of tokens."""
    return ring_of([(channel, token_points(channel, count)) for channel, count in enumerate(counts) if count])


@lru_cache(maxsize=4096)
def token_points(channel: int, count: int) -> NDArray[np.uint32]:
    """Where the tokens of one channel are."""
    points = ring_points(f"token-{channel}-{j}" for j in range(1, count + 1))
    points.flags.writeable = False
    return points


def _told(counts: Sequence[int]) -> str:
    """Tokens for a person: all of them, or their range where there are many channels."""
    return "/".join(map(str, counts)) if len(counts) <= 8 else f"{min(counts)}..{max(counts)}"


def _times(rounds: int) -> str:
    return "one round" if rounds == 1 else f"{rounds} rounds"
