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

from dataclasses import dataclass, replace

import numpy as np

from rebalance.errors import ConfigError
from rebalance.partition import Share
from rebalance.planners.baselines.consistent import hashed, open_ring
from rebalance.planning.measure import channel_loads
from rebalance.planning.model import Floats, Indices, Ints, Proposal, Request

#: How many keys may spill, unless the pipeline says otherwise.
MAX_SPLITS = 1000
#: A smaller part of a key, or a key with a smaller part of all cost, is a rounding error.
_NO_PART = 1e-9


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
    def home(self) -> Ints:
        """Where the ring sends each heavy key."""
        return self.hashed.channel[self.keys]

    def costliest_last(self) -> Spill:
        """The same with the heavy keys in the other order."""
        return replace(self, keys=self.keys[::-1].copy())

    def amounts(self) -> Floats:
        """Room for the cost of each heavy key on each channel."""
        return np.zeros((len(self.keys), self.request.channels))

    def proposal(self, amount: Floats) -> Proposal:
        """The function in which each heavy key is spread like its row of `amount`."""
        channel, splits = self.hashed.channel.copy(), {}
        at_home = amount[np.arange(len(amount)), self.home]
        away = np.flatnonzero(at_home < (1 - _NO_PART) * amount.sum(axis=1))
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
    keys = np.flatnonzero((cost > _NO_PART * cost.sum()) & request.movable)
    if len(keys) > most:
        least = np.partition(cost[keys], len(keys) - most)[len(keys) - most]
        keys = keys[cost[keys] >= least]
    return keys[np.argsort(-cost[keys], kind="stable")][:most]


def shares_of(parts: Floats, current: int, home: int) -> tuple[Share, ...]:
    """The shares of a key of which each channel gets such a part.

    First comes the channel its state is on, so that nothing moves; else its home; else the one with the largest share.

    >>> shares_of(np.array([1.0, 0.0, 3.0]), current=2, home=0)
    (Share(channel=2, share=0.75), Share(channel=0, share=0.25))
    """
    used = np.flatnonzero(parts > _NO_PART * parts.sum())
    share = parts[used] / parts[used].sum()
    order = np.lexsort((used, -share, used != home, used != current))
    return tuple(Share(int(used[i]), float(share[i])) for i in order[:1].tolist()) + tuple(
        Share(int(used[i]), float(share[i])) for i in sorted(order[1:].tolist())
    )


def check_max_splits(max_splits: int) -> None:
    """Refuse a number of splits that is none."""
    if max_splits < 1:
        raise ConfigError(f"max_splits must be at least 1, got {max_splits}. To split nothing use another planner.")


def check_epsilon(epsilon: float) -> None:
    """Refuse a slack that is none."""
    if not 0 < epsilon < np.inf:
        raise ConfigError(
            f"epsilon must be positive, got {epsilon}. It is by how much a load may exceed the mean: 0.01 = 1 %."
        )
