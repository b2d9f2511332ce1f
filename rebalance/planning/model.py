"""The nouns of planning: what is known of the keys, what is asked, what is proposed, what is decided.

Everything is an array over the keys in ascending key order, so planners work on indices and never see a key itself: "the
smaller key" is the smaller index. Letters follow the papers: g tuples, c cost, S state held over the window.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rebalance.errors import ConfigError, PlannerError
from rebalance.partition import PartitionFunction, Share, channels_at
from rebalance.planning.exact import clearly_less, on_grid

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Indices = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class KeyStats:
    """What one interval told about the keys: all that had traffic or hold state, in ascending key order.

    The numbers are put on a grid (`exact`), so that their sums are the same in any order.
    """

    #: The keys themselves, strings or integers. Planners leave them alone.
    keys: NDArray[Any]
    #: Ring slot of each key.
    slots: Ints
    #: g: tuples in the interval.
    tuples: Floats
    #: c: computation cost in the interval; no unit, only ratios matter.
    cost: Floats
    #: S(k,w): bytes of state held over the window.
    state: Floats

    def __post_init__(self) -> None:
        for name in ("slots", "tuples", "cost", "state"):
            values = getattr(self, name)
            if values.shape != (len(self.keys),):
                raise PlannerError(f"{name} has shape {values.shape}, there are {len(self.keys)} keys")
            if len(values) and not (np.isfinite(values).all() and values.min() >= 0):
                raise PlannerError(f"{name} must be finite and not negative; check the statistics first")
        for name in ("tuples", "cost", "state"):
            object.__setattr__(self, name, on_grid(getattr(self, name)))

    def __len__(self) -> int:
        return len(self.keys)


@dataclass(frozen=True)
class Node:
    """A machine and the channels that run on it."""

    name: str
    channels: tuple[int, ...]
    #: u: number of cores.
    cores: float = 1.0
    #: f: clock of a core in GHz.
    ghz: float = 1.0
    #: m: memory in GiB.
    memory: float = 1.0

    def performance(self, p: float = 0.5) -> float:
        """M(S) = p·u·f + (1-p)·m: what the node can do, computation weighed against memory; no unit, only ratios matter."""
        return p * self.cores * self.ghz + (1 - p) * self.memory


def check_nodes(nodes: Sequence[Node], channels: int) -> None:
    """Refuse nodes that do not own each of the channels exactly once."""
    owners: dict[int, list[str]] = {channel: [] for channel in range(channels)}
    for node in nodes:
        strange = [channel for channel in node.channels if channel not in owners]
        if strange:
            raise ConfigError(
                f"node {node.name!r} owns the channels {strange}, but the channels are 0..{channels - 1}."
            )
        for channel in node.channels:
            owners[channel].append(node.name)
    for channel, names in owners.items():
        if len(names) != 1:
            found = f"belongs to {len(names)} nodes: {', '.join(map(repr, names))}" if names else "belongs to no node"
            raise ConfigError(f"channel {channel} {found}. List every channel in exactly one of nodes.channels.")


@dataclass(frozen=True, eq=False)
class Limits:
    """What a plan must hold to. What cannot be held is reported with the best that can."""

    #: Largest allowed θ(d) = |L(d) - fair(d)| / fair(d); 0.08 = 8 % off the fair load.
    theta_max: float = 0.08
    #: A_max: largest number of routes in the explicit table.
    max_routes: int = 3000
    #: Largest state, in bytes, a plan may move; None = no limit.
    max_bytes: float | None = None


@dataclass(frozen=True, eq=False)
class Request:
    """All a planner may know. Arrays are over the keys of `stats`; planners must not change them."""

    stats: KeyStats
    #: Channel of each key under the active function; may name channels that exist no more (N shrank).
    current: Ints
    #: Slot table of the ring to build on: h of the new function unless the planner replaces it.
    ring: Ints
    #: cap(d) of each channel; its length is N. Loads are fair when proportional to it.
    capacity: Floats
    limits: Limits = field(default_factory=Limits)
    #: Keys that must stay where they are.
    pinned: Mask | None = None
    #: Channels that must end empty.
    excluded: Mask | None = None
    #: Whether partial states of a key can be merged, so that it may be split.
    mergeable: bool = False
    #: Share of the interval's length that each channel was at work, as measured; above 1 it does not keep up. None = not measured.
    utilisation: Floats | None = None
    #: Keys that the active function splits, by their index; `current` is their first channel, where their state is.
    splits: Mapping[int, tuple[Share, ...]] = field(default_factory=dict)
    #: What the active function's planner left with it for the next plan.
    memo: Mapping[str, Any] = field(default_factory=dict)
    #: The machines that own the channels, each channel once; empty = nothing is known of them.
    nodes: tuple[Node, ...] = ()
    #: How many of the last entries are no keys, but the sum of many that go where the ring says (`settled`).
    rest: int = 0
    #: How many keys these entries stand for; 0 if that is not known.
    unnamed: int = 0
    #: None of these keys costs more; None if that is not known.
    unnamed_cost: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "capacity", on_grid(self.capacity))

    def only(self, keys: Indices) -> Request:
        """The same request for these keys alone, in this order; none of them counts as split."""
        stats = self.stats
        columns = {name: getattr(stats, name)[keys] for name in ("keys", "slots", "tuples", "cost", "state")}
        return replace(
            self,
            stats=replace(stats, **columns),
            current=self.current[keys],
            pinned=None if self.pinned is None else self.pinned[keys],
            splits={},
        )

    @property
    def named(self) -> int:
        """How many entries are keys."""
        return len(self.stats) - self.rest

    @property
    def keys_in_all(self) -> int:
        """How many keys there are, with those that the rest stands for."""
        return self.named + max(self.rest, self.unnamed)

    def settled(self) -> Request:
        """The request as planners see it: what is no key is where the ring puts it, and stays there."""
        if not self.rest:
            return self
        current = self.current.copy()
        current[self.named :] = self.home[self.named :]
        pinned = np.zeros(len(current), dtype=np.bool_) if self.pinned is None else self.pinned.copy()
        pinned[self.named :] = True
        return replace(self, current=current, pinned=pinned)

    @property
    def channels(self) -> int:
        """N."""
        return len(self.capacity)

    @cached_property
    def home(self) -> Ints:
        """h(k): channel of each key by the ring alone."""
        return channels_at(self.ring, self.stats.slots)

    @cached_property
    def open_capacity(self) -> Floats:
        """Capacity, zero for excluded channels."""
        return self.capacity if self.excluded is None else np.where(self.excluded, 0.0, self.capacity)

    @cached_property
    def open(self) -> Mask:
        """Channels that may hold keys."""
        return self.open_capacity > 0

    def is_open(self, channels: Iterable[int]) -> bool:
        """Whether all these channels exist and may hold keys."""
        return all(0 <= d < self.channels and bool(self.open[d]) for d in channels)

    @cached_property
    def movable(self) -> Mask:
        """Keys that may change their channel: all but the pinned ones; a pinned key whose channel vanished has to."""
        vanished = self.current >= self.channels
        return np.ones(len(vanished), dtype=np.bool_) if self.pinned is None else ~self.pinned | vanished

    def stranded(self, channel: Ints) -> Mask:
        """Keys that would have to leave if they were there: the channel vanished, or is to be drained and the key may move.

        Pinned keys stay even on a drained channel: a person said so, and the plan reports what is left there.
        """
        vanished = channel >= self.channels
        return vanished | (self.movable & ~self.open[np.where(vanished, 0, channel)])

    @cached_property
    def start(self) -> Ints:
        """Where a plan starts from: the active channel of each key, or the ring's answer where it cannot stay there."""
        return np.where(self.stranded(self.current), self.home, self.current).astype(np.int32)

    @cached_property
    def fair(self) -> Floats:
        """Fair load of each channel: its share of the capacity times the whole cost; zero for excluded channels."""
        share: Floats = self.open_capacity / self.open_capacity.sum()
        return share * float(self.stats.cost.sum())

    @cached_property
    def error(self) -> float | None:
        """By how much L(d) / fair(d) of any channel changes at most if a key without a name goes elsewhere; None if that is not known."""
        if self.unnamed_cost is None:
            return None
        least = float(self.fair[self.open].min())
        return self.unnamed_cost / least if least > 0 else 0.0

    @cached_property
    def limit(self) -> Floats:
        """L_max(d) = (1 + θ_max) · fair(d)."""
        return (1.0 + self.limits.theta_max) * self.fair


@dataclass(frozen=True, eq=False)
class Proposal:
    """A planner's answer: where each key goes. Routes and moves are derived from it, never reported."""

    #: Planned channel of each key; for a split key its first channel.
    channel: Ints
    #: Slot table of the new ring; None = the ring of the request.
    ring: Ints | None = None
    #: Key index → shares, for keys spread over several channels.
    splits: Mapping[int, tuple[Share, ...]] = field(default_factory=dict)
    #: What the planner wants to find in the next request; plain JSON, stored with the function.
    memo: Mapping[str, Any] = field(default_factory=dict)
    #: What a person should know of how it was found ("θ_max not reachable: …").
    notes: tuple[str, ...] = ()


class Decision(StrEnum):
    """What a plan asks for."""

    APPLY = "apply"  # a better function was found: move the state and switch to it
    KEEP = "keep"  # nothing to do, or nothing better to be had
    REJECT = "reject"  # a function was found but it breaks a limit or makes things worse


@dataclass(frozen=True, eq=False)
class Measure:
    """The metrics of one assignment of the keys to channels."""

    loads: Floats
    fair: Floats
    #: max θ(d) over the channels that may hold keys.
    theta: float
    #: max L(d) / fair(d): 1 is perfect.
    skewness: float
    #: Largest utilisation less the mean one, U(d) = L(d)/cap(d).
    imbalance: float
    routes: int
    splits: int
    #: Keys present on each channel, summed over the channels (the papers' memory footprint); a split key counts on each of its own.
    key_copies: int


@dataclass(frozen=True, eq=False)
class Plan:
    """The decision with its reason and its predicted effect."""

    decision: Decision
    reason: str
    planner: str
    #: The function to be active next: the new one for APPLY, the active one otherwise.
    function: PartitionFunction
    before: Measure
    #: Predicted by this interval's statistics under the proposed function, also when it is not applied.
    after: Measure
    #: Indices into the request's keys that change their channel if the plan is applied.
    moved: Indices
    moved_from: Ints
    moved_to: Ints
    moved_bytes: float
    #: Share of all state that moves, 0..1.
    moved_share: float
    notes: tuple[str, ...] = ()
    #: Seconds the planner took; for people, never for decisions.
    seconds: float = 0.0
    #: What the plan was to come within.
    theta_max: float = 0.0
    #: Certified: no plan that comes within θ_max (or `bound_theta`, if that is larger) moves fewer bytes than `bound`.
    bound: float = 0.0
    #: Certified: no assignment of the keys has a smaller max θ(d).
    bound_theta: float = 0.0
    #: By how much skewness and θ change at most if a key without a name goes elsewhere; None where that is not known.
    error: float | None = None

    @property
    def achieved(self) -> float:
        """Bytes the plan moves, to be put beside `bound`."""
        return self.moved_bytes

    @property
    def gap(self) -> float | None:
        """How far above the bound the plan is, 0.03 = 3 %; None where it does not come as near as the bound asks, so they do not compare."""
        if clearly_less(1.0 + max(self.theta_max, self.bound_theta), 1.0 + self.after.theta):
            return None
        if self.achieved <= self.bound:
            return 0.0
        return self.achieved / self.bound - 1.0 if self.bound > 0 else float("inf")
