"""Hybrid: splits only the keys that no channel can hold, and places all others whole, moving as little state as Frugal does.

The algorithm is our own. A key that costs more than a channel's fair load overloads any channel it is on; splitting it is the only remedy, and a cheap
one: other shares of a split key move load without moving state. So split keys also even out what the whole ones leave uneven:

1. *Which.* A key is split when it costs more than `split_above` fair loads (of the largest channel), if states merge and it is not pinned. It
   stays split until it costs less than `merge_below` of them, so it does not change to and fro.
2. *As they are.* If the shares the keys have now bring every channel within θ_max, nothing changes.
3. *Shares.* Whole keys stay where they are. The cost of the split keys fills the channels up to one level; keys, costliest first, take
   the room on the channel their state is on, then on channels they have already, then where there is most. A key always keeps 1 % on the
   channel its state is on, so that it need not move. If every channel is within θ_max then, no state moves at all.
4. *Moves.* Otherwise `frugal` places the whole keys, with what step 3 gives to split keys taken off the channels' capacities, and step 3 is
   done again on the result.

Guarantees: splits at most N / merge_below keys, into at most N shares more than two for each of them; moves the state of a split key only
when its channel vanished or must be emptied; without mergeable states or heavy keys the plan is Frugal's.

Cost: O(K) and, in step 4, Frugal's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from rebalance.errors import ConfigError
from rebalance.partition import Share
from rebalance.planners.frugal.frugal import Frugal
from rebalance.planners.splitting.spread import shares_of
from rebalance.planning.exact import TOLERANCE, clearly_less
from rebalance.planning.heaviest import heaviest
from rebalance.planning.measure import channel_loads, thetas
from rebalance.planning.model import Floats, Indices, Ints, Mask, Proposal, Request

#: Share of a split key that stays on the channel its state is on.
_FIRST = 0.01
#: Capacity left to whole keys where split ones take all of it, as a share of the fair load.
_LEAST = 1e-6


@dataclass(frozen=True)
class Hybrid:
    """Splits what is larger than a channel, places the rest by Frugal."""

    name: ClassVar[str] = "hybrid"
    splits_keys: ClassVar[bool] = True
    some_keys: ClassVar[bool] = True

    #: A key is split when it costs more than so many fair loads.
    split_above: float = 1.0
    #: A split key is made whole again when it costs less than so many fair loads.
    merge_below: float = 0.8

    def __post_init__(self) -> None:
        if not 0 < self.merge_below <= self.split_above:
            raise ConfigError(
                f"merge_below is {self.merge_below} and split_above is {self.split_above}; merge_below must be above 0 and at "
                f"most split_above"
            )

    def propose(self, request: Request) -> Proposal:
        """The cheapest of: the same shares, other shares, other shares and moves."""
        heavy = self._heavy(request)
        if not len(heavy):
            return Frugal().propose(request)
        first = request.start
        whole = np.ones(len(first), dtype=np.bool_)
        whole[heavy] = False
        task = _Task(request, heavy, whole, first)
        return task.as_it_is() or task.with_other_shares() or task.with_moves()

    def _heavy(self, request: Request) -> Indices:
        """Step 1, costliest first."""
        if not request.mergeable:
            return np.empty(0, dtype=np.int64)
        # A key that costs just what a channel should have is not above it.
        cost, channel = request.stats.cost, request.fair.max() * (1 + TOLERANCE)
        heavy = cost > self.split_above * channel
        split = list(request.splits)
        heavy[split] |= cost[split] > self.merge_below * channel
        keys = np.flatnonzero(heavy & request.movable)
        return keys[heaviest(cost[keys])]


@dataclass(frozen=True, eq=False)
class _Task:
    request: Request
    #: Keys to split, costliest first.
    heavy: Indices
    whole: Mask
    #: Where each key is to begin with.
    channel: Ints

    def as_it_is(self) -> Proposal | None:
        """Step 2."""
        splits = {k: self.request.splits.get(k, ()) for k in self.heavy.tolist()}
        if not all(self._stands(k, shares) for k, shares in splits.items()):
            return None
        return self._if_good(self.channel, splits)

    def with_other_shares(self) -> Proposal | None:
        """Step 3 alone."""
        return self._if_good(self.channel, self._shares(self._load(self.channel)))

    def with_moves(self) -> Proposal:
        """Step 4."""
        request, whole = self.request, self.whole
        taken = self._room(self._load(self.channel)) + self._reserved()
        reduced = replace(
            request.only(np.flatnonzero(whole)),
            capacity=np.where(request.fair > 0, np.maximum(request.fair - taken, _LEAST * request.fair), 1.0),
        )
        if not whole.any() or not reduced.stats.cost.sum() > 0:
            return Proposal(channel=self.channel, splits=self._shares(self._load(self.channel)))
        placed = Frugal().propose(reduced)
        channel = self.channel.copy()
        channel[whole] = placed.channel
        return replace(placed, channel=channel, splits=self._shares(self._load(channel)))

    def _if_good(self, channel: Ints, splits: Mapping[int, tuple[Share, ...]]) -> Proposal | None:
        """The proposal if it is within θ_max and max_routes."""
        request = self.request
        load = channel_loads(request.stats.cost, channel, request.channels, splits)
        routes = np.count_nonzero((channel != request.home) & self.whole)
        theta = float(thetas(load, request.fair).max())
        if routes > request.limits.max_routes or clearly_less(request.limits.theta_max, theta):
            return None
        return Proposal(channel=channel, splits=splits)

    def _stands(self, k: int, shares: tuple[Share, ...]) -> bool:
        """Whether a key's present split may stay: its channels are there and open, and its state is on the first."""
        parts = [share.channel for share in shares]
        return bool(parts) and parts[0] == self.channel[k] and self.request.is_open(parts)

    def _load(self, channel: Ints) -> Floats:
        """L(d) of the whole keys."""
        return np.bincount(
            channel[self.whole], weights=self.request.stats.cost[self.whole], minlength=self.request.channels
        ).astype(np.float64)

    def _reserved(self) -> Floats:
        """What the split keys keep on their first channels."""
        cost = _FIRST * self.request.stats.cost[self.heavy]
        return np.bincount(self.channel[self.heavy], weights=cost, minlength=self.request.channels).astype(np.float64)

    def _room(self, load: Floats) -> Floats:
        """What each channel takes of the split keys beyond that, so that those who take any end at one level."""
        fair = self.request.fair
        held = load + self._reserved()
        poured = (1 - _FIRST) * float(self.request.stats.cost[self.heavy].sum())
        is_open = np.flatnonzero(fair > 0)
        order = is_open[np.argsort(held[is_open] / fair[is_open], kind="stable")]
        levels = (poured + np.cumsum(held[order])) / np.cumsum(fair[order])
        # The last channel that is below the level which it and all lower ones would reach.
        last = int(np.flatnonzero(held[order] / fair[order] < levels)[-1])
        room = np.zeros(len(fair))
        room[order[: last + 1]] = np.maximum(levels[last] * fair[order] - held[order], 0.0)[: last + 1]
        return room

    def _shares(self, load: Floats) -> dict[int, tuple[Share, ...]]:
        """Step 3: who takes which part of the room."""
        room, splits = self._room(load), {}
        for k in self.heavy.tolist():
            cost, first = float(self.request.stats.cost[k]), int(self.channel[k])
            has = [s.channel for s in self.request.splits.get(k, ()) if s.channel < len(room)]
            parts = np.zeros(len(room))
            parts[first] = _FIRST * cost
            left = (1 - _FIRST) * cost
            channels = np.arange(len(room))
            for d in np.lexsort((channels, -room, ~np.isin(channels, has), channels != first)).tolist():
                part = min(left, room[d])
                parts[d] += part
                room[d] -= part
                left -= part
            shares = shares_of(parts, first, first)
            if len(shares) > 1:
                splits[k] = shares
        return splits
