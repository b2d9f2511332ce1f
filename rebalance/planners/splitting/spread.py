"""What the splitting planners share: which keys may spill, the fluid they are, and the function that comes of it.

The published schemes decide tuple by tuple. A plan is made once per interval, so here the interval's counts stand for the tuples:

1. Light keys, all but the `max_splits` costliest, go by the ring; so do all keys of an operator whose states do not merge. Pinned keys stay.
2. The heavy keys come one after the other. A key's tuples are a fluid that fills the channels the scheme would offer it, by the
   scheme's rule (`spread_kernel`). Where the rule is the least load, the costliest come first (ties: the smaller key) and the others even
   out what they leave. Where it is room below a bound, they come last: the others keep their homes, and the costliest spill.
   (But 1 % of each key is at home before: the first tuples of a key find room there, and where one tuple was, the state may stay.)
3. A key that ends on one channel is whole (a route if that is not its home); one on several is split, with the amounts as shares.

Departures common to all of them: a scheme's "load so far" is the load at the end of the interval, and heavy keys find the light ones
already there; hashes are of the key's ring slot, for planners see no keys; a key's first hash is the ring; loads are measured in cost and
per capacity where capacities differ (the papers count tuples on equal workers). A split key's state, merged at the end of
an interval, stays where it is if that is one of the key's channels.

The function has at most max_splits routes and split keys. Time: O(K) for K keys, plus what the scheme takes for max_splits keys.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from math import isfinite
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from rebalance.errors import ConfigError
from rebalance.partition import Share
from rebalance.planners.baselines.consistent import hashed, open_ring
from rebalance.planning.exact import TOLERANCE, first_greatest, total
from rebalance.planning.heaviest import heaviest
from rebalance.planning.measure import channel_loads
from rebalance.planning.model import Floats, Indices, Ints, Proposal, Request

if TYPE_CHECKING:
    from rebalance.planners.splitting.spread_kernel import Bins, Coming


@dataclass(frozen=True, eq=False)
class Spill:
    """Light keys in their place, and the heavy ones about to come."""

    request: Request
    #: Every key by the ring, pinned ones where they are.
    hashed: Proposal
    #: The heavy keys, costliest first.
    keys: Indices
    #: L(d) without the heavy keys.
    load: Floats
    #: Channels that may take a share.
    open: Ints

    @property
    def cost(self) -> Floats:
        """Cost of each heavy key."""
        return self.request.stats.cost[self.keys]

    @property
    def slots(self) -> Ints:
        """Ring slot of each heavy key."""
        return self.request.stats.slots[self.keys]

    @property
    def ring(self) -> Ints:
        """The slot table."""
        return self.request.ring if self.hashed.ring is None else self.hashed.ring

    @property
    def home(self) -> Ints:
        """Where the ring sends each heavy key."""
        return self.hashed.channel[self.keys]

    def coming(self, first: Ints) -> Coming:
        """The heavy keys for the compiled loops, with the bin each tries first."""
        from rebalance.planners.splitting.spread_kernel import Coming

        return Coming(self.cost, self.slots, first)

    def amounts(self) -> Floats:
        """Room for the cost of each heavy key on each channel."""
        return np.zeros((len(self.keys), self.request.channels))

    def proposal(self, amount: Floats) -> Proposal:
        """The function in which each heavy key is spread like its row of `amount`."""
        channel, splits = self.hashed.channel.copy(), {}
        at_home = amount[np.arange(len(amount)), self.home]
        away = np.flatnonzero(at_home < (1 - TOLERANCE) * self.cost)
        for k, parts in zip(self.keys[away].tolist(), amount[away], strict=True):
            shares = shares_of(parts, self.request.current[k], self.hashed.channel[k])
            channel[k] = shares[0].channel
            if len(shares) > 1:
                splits[k] = shares
        return replace(self.hashed, channel=channel, splits=splits)


def spill(request: Request, max_splits: int, ring: Ints | None = None) -> Spill:
    """Step 1, with this ring or that of the request."""
    everything = hashed(request, open_ring(request) if ring is None else ring)
    keys = costliest(request, max_splits) if request.mergeable else np.empty(0, dtype=np.int64)
    light = request.stats.cost.copy()
    light[keys] = 0.0
    return Spill(
        request=request,
        hashed=everything,
        keys=keys,
        load=channel_loads(light, everything.channel, request.channels),
        open=np.flatnonzero(request.open).astype(np.int32),
    )


def costliest(request: Request, most: int) -> Indices:
    """The keys that may spill, costliest first: at most so many, none pinned, none whose cost is lost in the sum of all."""
    cost = request.stats.cost
    keys = np.flatnonzero((cost > TOLERANCE * cost.sum()) & request.movable)
    return keys[heaviest(cost[keys], most)]


def shares_of(parts: Floats, current: int, home: int) -> tuple[Share, ...]:
    """The shares of a key of which each channel gets such a part; one that is lost in the sum of all is none.

    First comes the channel its state is on, so that nothing moves; else its home; else the one with the largest share.

    >>> shares_of(np.array([1.0, 0.0, 3.0]), current=2, home=0)
    (Share(channel=2, share=0.75), Share(channel=0, share=0.25))
    """
    used = np.flatnonzero(parts > TOLERANCE * total(parts)).tolist()
    first = next((d for d in (current, home) if d in used), used[first_greatest(parts[used])])
    whole = total(parts[used])
    return tuple(Share(d, float(parts[d] / whole)) for d in sorted(used, key=lambda d: (d != first, d)))


@dataclass(frozen=True)
class Splitting(ABC):
    """Lets the heaviest keys spill; each scheme adds how they run to the channels."""

    splits_keys: ClassVar[bool] = True
    #: Whether the costliest key comes after all others, or before them.
    costliest_last: ClassVar[bool] = False

    #: Most keys that may be on several channels.
    max_splits: int = 1000

    def __post_init__(self) -> None:
        if self.max_splits < 1:
            raise ConfigError(
                f"max_splits is {self.max_splits}; it must be at least 1. To split nothing use another planner"
            )

    def propose(self, request: Request) -> Proposal:
        """Light keys by the ring, heavy ones as the scheme spreads them."""
        return self.spilt(spill(request, self.max_splits))

    def spilt(self, heavy: Spill) -> Proposal:
        """Steps 2 and 3."""
        if self.costliest_last:
            heavy = replace(heavy, keys=heavy.keys[::-1].copy())
        return heavy.proposal(self.spread(heavy))

    @abstractmethod
    def spread(self, heavy: Spill) -> Floats:
        """The cost of each heavy key on each channel."""


@dataclass(frozen=True)
class Bounded(Splitting):
    """Channels take no more than (1 + ε) times their fair load; what does not fit goes elsewhere."""

    costliest_last: ClassVar[bool] = True

    #: ε: by how much a load may exceed the fair one; 0.01 = 1 %.
    epsilon: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        check_epsilon(self.epsilon)

    def channels(self, heavy: Spill) -> Bins:
        """The channels as bins."""
        from rebalance.planners.splitting.spread_kernel import Bins

        owner = np.arange(heavy.request.channels, dtype=np.int32)
        return Bins(heavy.load.copy(), (1 + self.epsilon) * heavy.request.fair, owner, heavy.open)


def check_epsilon(epsilon: float) -> None:
    """Refuse a slack that is none."""
    if not (epsilon > 0 and isfinite(epsilon)):
        raise ConfigError(f"epsilon is {epsilon}; it must be above 0, for example 0.01 for 1 % above the mean load")


def least_loaded(heavy: Spill, choices: Ints) -> Floats:
    """Each heavy key to the least loaded of so many channels."""
    from rebalance.planners.splitting import spread_kernel as kernel

    load, amount = heavy.load.copy(), heavy.amounts()
    kernel.fill_least(load, heavy.request.capacity, heavy.coming(heavy.home), choices, heavy.open, amount)
    return amount
