"""`cg`: Consistent Grouping, which finds out what each channel can take from how busy it is.

Reference: Nasir et al., "Load balancing for skewed streams on heterogeneous cluster", 2017.

- There are α virtual workers per channel, all of equal size. A key belongs to one by its slot; what does not fit there spills to others by
  `porc` with ε. A channel gets what its virtual workers get.
- After each interval channels ask for fewer or for more, queue, and pair off (`rebalance.planners.splitting.delegation`): one virtual worker moves per pair, and only in
  pairs, so their number is constant.
- Capacities are never read: they show themselves in the utilisation. Virtual workers per channel converge to α*(d) ∝ cap(d).

Guarantees: α · N virtual workers at all times, at least one per channel. With `settle`, an addition to the paper, it comes to rest, and then every
channel is within one virtual worker of α*(d) = α N cap(d)/Σ cap, if all α*(d) are at least one and utilisation is exact; ε and noise add theirs.
Without, it may stop anywhere inside the band between `idle` and `busy`, and where somebody is idle but nobody busy.

Departures: see `spread`. The paper moves no state; here the keys of a virtual worker take theirs along, so the one with least state moves. Channels that
ask in the same interval queue by number. The owner of each virtual worker is read from the ring, the queues from the memo.

Utilisation is what the paper's thresholds mean: the share of the interval's length that a channel was at work. A batch that takes 20 s of its hour
leaves every channel idle, so by the paper's rule nothing moves: no channel is behind. But a batch is ready when its slowest channel is, and
`settle` compares the channels with each other, however idle they are. Where nothing was measured, load per capacity stands in, scaled to a mean of
0.8 (`measure.relative_utilisation`): of what a channel can take nothing is known then, so the mean counts as normal.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from rebalance.errors import ConfigError
from rebalance.partition import SLOTS
from rebalance.planners.splitting.delegation import Rule, check_thresholds
from rebalance.planners.splitting.spread import Bounded, Spill, spill
from rebalance.planning.measure import channel_loads, relative_utilisation
from rebalance.planning.model import Floats, Ints, Proposal, Request


@dataclass(frozen=True)
class CG(Bounded):
    """Virtual workers, which take no more than (1 + ε) times their mean load, move from busy to idle channels."""

    name: ClassVar[str] = "cg"
    judges_itself: ClassVar[bool] = True

    #: α: virtual workers per channel.
    alpha: int = 10
    #: Utilisation above which a channel asks for less.
    busy: float = 0.85
    #: Utilisation below which a channel asks for more.
    idle: float = 0.75
    #: Whether to go on until every channel is within one virtual worker of its optimum; False is the paper to the letter.
    settle: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.alpha < 1:
            raise ConfigError(f"alpha is {self.alpha}; it must be at least 1, the virtual workers of each channel")
        check_thresholds(self.busy, self.idle)

    def first_ring(self, channels: int, excluded: Collection[int]) -> Ints:
        """Virtual workers dealt out in turn."""
        workers = self.alpha * channels
        if workers > SLOTS:
            raise ConfigError(
                f"alpha = {self.alpha} makes {workers:,} virtual workers; there are {SLOTS:,} ring slots. Lower it."
            )
        owners = np.array([d for d in range(channels) if d not in excluded], dtype=np.int32)
        return ring_of(owners[np.arange(workers) % len(owners)])

    def next_ring(
        self, memo: Mapping[str, Any], channels: int, excluded: Collection[int]
    ) -> tuple[Ints, Mapping[str, Any]]:
        """Dealt out again, for there are α · N of them."""
        return self.first_ring(channels, excluded), {}

    def propose(self, request: Request) -> Proposal:
        """Pair busy and idle channels, then let the heavy keys spill."""
        owner, busy, idle, moved = self._pair(request)
        ring = ring_of(owner)
        ring = request.ring if np.array_equal(ring, request.ring) else ring
        proposal = self.spilt(spill(request, self.max_splits, ring))
        notes = (f"virtual workers moved: {', '.join(f'{a} → {b}' for a, b in moved)}",) if moved else ()
        return replace(proposal, memo={"busy": busy, "idle": idle}, notes=notes)

    def _pair(self, request: Request) -> tuple[Ints, list[int], list[int], list[tuple[int, int]]]:
        """Owner of each virtual worker after the pairs, what is left in both queues, and who gave to whom."""
        workers = self.alpha * request.channels
        closed = set(np.flatnonzero(~request.open).tolist())
        owner = request.ring[:workers].copy()
        if not np.array_equal(ring_of(owner), request.ring) or closed & set(owner.tolist()):
            # A ring of somebody else's making: what was measured says nothing about virtual workers.
            return self.first_ring(request.channels, closed)[:workers], [], [], []
        utilisation = _utilisation(request)
        if utilisation is None:
            return owner, [], [], []
        rule = Rule(self.busy, self.idle, self.settle, keep=1)
        paired = rule.slot_ends(
            np.where(request.open, utilisation, np.nan),
            np.bincount(owner, minlength=request.channels),
            request.memo.get("busy", ()),
            request.memo.get("idle", ()),
        )
        state = np.where(request.movable, request.stats.state, 0.0)
        on_worker = np.bincount(request.stats.slots % workers, weights=state, minlength=workers)
        for giver, taker in paired.pairs:
            own = np.flatnonzero(owner == giver)
            owner[own[on_worker[own].argmin()]] = taker
        return owner, paired.giving, paired.taking, paired.pairs

    def spread(self, heavy: Spill) -> Floats:
        """PoRC over the virtual workers."""
        from rebalance.planners.splitting import spread_kernel as kernel

        request, number = heavy.request, self.alpha * heavy.request.channels
        light = np.where(request.movable, request.stats.cost, 0.0)
        bound = np.full(number, (1 + self.epsilon) * light.sum() / number)
        light[heavy.keys] = 0.0
        load = np.bincount(request.stats.slots % number, weights=light, minlength=number).astype(np.float64)
        workers = kernel.Bins(load, bound, heavy.ring[:number], np.arange(number, dtype=np.int32))
        amount = heavy.amounts()
        kernel.fill_bounded(workers, heavy.coming(heavy.slots % np.int32(number)), amount)
        return amount


def ring_of(owner: Ints) -> Ints:
    """The slot table in which virtual worker v has the slots v, v + V, v + 2 V, …"""
    return owner[np.arange(SLOTS) % len(owner)]


def _utilisation(request: Request) -> Floats | None:
    if request.utilisation is not None:
        return request.utilisation
    splits = {k: s for k, s in request.splits.items() if max(share.channel for share in s) < request.channels}
    load = channel_loads(request.stats.cost, request.start, request.channels, splits)
    return relative_utilisation(load / request.capacity, request.open)
