"""Consistent Grouping: virtual workers of equal size, given to channels by what the channels themselves can bear.

Reference: Nasir et al., "Load Balancing for Skewed Streams on Heterogeneous Cluster", section V.
1. Each channel starts with α virtual workers. A source sends a tuple to one of the α·n by PoRC, so all get about the same number.
2. At the end of a time slot a channel above `busy` of its capacity asks for fewer, one below `idle` for more (worker delegation). They queue, and
   pair off: one virtual worker moves per pair, and only in pairs, so their number stays; each channel at most once a slot.
Only tuples that arrive later go the new way. Capacities are never told: they show in the signals.

Settled here: channels that begin to signal in the same slot queue up in their order; one that no longer signals leaves its queue (else an
old signal would move a worker nobody can bear); of a busy channel the virtual worker with the highest number moves.

How sources hear of a signal: by default all of them at the end of the slot, so they route alike. With `piggyback`, the paper's way, a channel sends it
along with its acknowledgements. A source hears it with the first tuple of its own that goes to the channel in the next slot, and not
before; it has queues and a map of its own, so sources differ, by when they hear and in whose order. There is no network delay, as
everywhere here, and a tuple is acknowledged when it comes; acknowledged when done, one that waited since before would bring the signal about as
soon. A signal is one bit, so this goes with the paper's rule only. Ours: a source keeps one virtual worker of every channel. Without, it would
neither send to the channel nor hear of it ever again, and the maps drift apart until each source knows a few channels only.

Where it comes to rest: within one virtual worker of the optimum α·n·cap(d)/Σcap, by the rule `settle` that `rebalance.planners.splitting.delegation` adds to the paper's
and proves. The utilisation of a slot is not exact (PoRC evens virtual workers out over the stream, not in each slot), so in a run a channel may be
further off for a while. Without `settle` it stops as soon as no channel is busy or none is idle, which may leave others outside the band
between them; a channel whose optimum lies between two numbers, neither of them in the band, goes to and fro.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rebalance.errors import ConfigError
from rebalance.planners.splitting.delegation import Rule, check_thresholds
from rebalance.planning.model import Floats, Indices, Ints
from rebalance.simulate.grouping import Grouping, Router, Setting, check_bound, random_choices_over


@dataclass(frozen=True)
class ConsistentGrouping(Grouping):
    """CG: PoRC over virtual workers, which move between channels by their signals."""

    name: ClassVar[str] = "CG"
    #: Virtual workers per channel at the start.
    alpha: int = 10
    epsilon: float = 0.01
    #: Utilisation above which a channel asks for less.
    busy: float = 0.85
    #: Utilisation below which a channel asks for more.
    idle: float = 0.75
    #: Whether to go on until every channel is within one virtual worker of its optimum; False is the paper to the letter.
    settle: bool = True
    #: Whether a source hears of a channel only in the acknowledgements of its own tuples.
    piggyback: bool = False

    def __post_init__(self) -> None:
        if self.piggyback and self.settle:
            raise ConfigError(
                "signals on acknowledgements are one bit each, and settle needs utilisations: use piggyback with settle = False"
            )
        if self.alpha < 1:
            raise ConfigError(f"alpha is {self.alpha}; it must be at least 1, the virtual workers of each channel")
        check_bound(self.epsilon)
        check_thresholds(self.busy, self.idle)

    def start(self, setting: Setting) -> Router:
        """Keeps PoRC's loads per source, and a map from virtual workers to channels: one for all, or one per source."""
        if self.piggyback:
            return self._start_piggybacked(setting)
        delegation = Delegation(setting.channels, self.alpha, Rule(self.busy, self.idle, self.settle))
        worker = random_choices_over(setting, setting.channels * self.alpha, self.epsilon)
        return Router(
            route=lambda keys, first: delegation.owner[worker(keys, first)],
            end_slot=delegation.signal,
            virtual_workers=lambda: delegation.held.astype(np.int32),
        )

    def _start_piggybacked(self, setting: Setting) -> Router:
        signals = Signals(setting, self.alpha, self.busy, self.idle)
        worker = random_choices_over(setting, setting.channels * self.alpha, self.epsilon)
        return Router(
            route=lambda keys, first: signals.route(worker(keys, first), first),
            end_slot=signals.end_slot,
            virtual_workers=lambda: signals.views.held[0].astype(np.int32),
        )


class Delegation:
    """Who owns which virtual worker, and who waits to have fewer or more."""

    def __init__(self, channels: int, alpha: int, rule: Rule) -> None:
        #: Channel of each virtual worker.
        self.owner: Ints = np.tile(np.arange(channels, dtype=np.int32), alpha)
        #: Virtual workers of each channel, ascending.
        self.owned = [list(range(d, alpha * channels, channels)) for d in range(channels)]
        self.rule = rule
        self._giving: list[int] = []
        self._taking: list[int] = []

    @property
    def held(self) -> Indices:
        """How many each channel has."""
        return np.array([len(own) for own in self.owned], np.int64)

    def signal(self, utilisation: Floats) -> None:
        """A time slot is over: queue up, and pair off."""
        pairs, self._giving, self._taking = self.rule.slot_ends(utilisation, self.held, self._giving, self._taking)
        for giver, taker in pairs:
            moving = self.owned[giver].pop()
            insort(self.owned[taker], moving)
            self.owner[moving] = taker


class Signals:
    """What channels say in their acknowledgements, and what each source makes of what it has heard."""

    def __init__(self, setting: Setting, alpha: int, busy: float, idle: float) -> None:
        from rebalance.simulate.signals_kernel import Views

        sources, channels = setting.sources, setting.channels
        self.busy, self.idle, self.slot = busy, idle, 0
        #: What each channel says: -1 fewer, 1 more, 0 nothing.
        self.said: Indices = np.zeros(channels, np.int64)
        self.views = Views(
            owner=np.tile(np.arange(channels, dtype=np.int32), (sources, alpha)),
            held=np.full((sources, channels), alpha, np.int64),
            heard=np.zeros((sources, channels), np.int64),
            giving=np.zeros((sources, channels), np.int64),
            taking=np.zeros((sources, channels), np.int64),
            tickets=np.zeros(sources, np.int64),
        )

    def route(self, workers: Ints, first: int) -> Ints:
        """Each source by its own map, which changes with what it hears on the way."""
        from rebalance.simulate.signals_kernel import route_and_hear

        return route_and_hear(workers, first, self.said, self.slot, self.views)

    def end_slot(self, utilisation: Floats) -> None:
        """Channels make up their minds; nobody hears of it yet."""
        self.said = (utilisation < self.idle).astype(np.int64) - (utilisation > self.busy)
        self.slot += 1
