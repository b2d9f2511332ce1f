"""The grouping schemes of the tuple-level simulator: which channel does a source send a tuple to?

Reference: Nasir et al., "Load Balancing for Skewed Streams on Heterogeneous Cluster" (KG, SG, PKG, PoTC, CH, PoRC, CG), and
Nasir et al., "When Two Choices Are not Enough: Balancing at Scale in Distributed Stream Processing" (D-Choices, W-Choices).
A scheme is a small frozen dataclass; `start` gives a `Router` with the sources' memory for one run. A source knows only what it has sent
itself (the papers' local load estimation), never a capacity.

H(key + salt) is one family of hashes for all of them: KG's channel is PKG's first choice and PoRC's principal bin.
Open points of the papers and how they are settled here:
- m in PoRC's and CH's bound counts the tuple at hand: with m = 0 nothing would have room for the first one.
- Equal loads: the choice named first wins.
- SG: source j begins with channel j, so that many sources do not send in step.
- CH: one point per channel on the ring, as in Mirrokni et al., unless `points` says otherwise.
- D- and W-Choices find head keys by exact counts per source (SpaceSaving with as many counters as keys); d is computed anew when a
  source has seen a tenth more tuples, at least 100 more.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from rebalance.errors import ConfigError
from rebalance.partition.hashing import ring_points
from rebalance.planning.model import Floats, Indices, Ints


@dataclass(frozen=True, eq=False)
class Setting:
    """What a scheme may know when a run starts."""

    #: 64 bits per key, already mixed with the run's seed.
    hashes: NDArray[np.uint64]
    channels: int
    sources: int
    seed: int


@dataclass(frozen=True)
class Router:
    """One run of a scheme."""

    #: Channels of the tuples with these keys, the first of which has this number in the stream.
    route: Callable[[Ints, int], Ints]
    #: Told at the end of every time slot: each channel's utilisation, tuples assigned over tuples it could have served.
    end_slot: Callable[[Floats], None] = lambda utilisation: None
    #: Virtual workers of each channel, for schemes that have them.
    virtual_workers: Callable[[], Ints] | None = None


class Grouping(ABC):
    """A scheme and its parameters."""

    name: ClassVar[str]

    @abstractmethod
    def start(self, setting: Setting) -> Router:
        """A router without any past."""


@dataclass(frozen=True)
class KeyGrouping(Grouping):
    """KG: the key's hash. One channel per key, whatever its load."""

    name: ClassVar[str] = "KG"

    def start(self, setting: Setting) -> Router:
        """Keeps nothing."""
        from rebalance.simulate.choices_kernel import key_grouping

        return Router(lambda keys, first: key_grouping(keys, setting.hashes, setting.channels))


@dataclass(frozen=True)
class ShuffleGrouping(Grouping):
    """SG: round robin, whatever the key."""

    name: ClassVar[str] = "SG"

    def start(self, setting: Setting) -> Router:
        """Keeps nothing: the tuple's number says whose turn it is."""
        from rebalance.simulate.choices_kernel import shuffle_grouping

        return Router(lambda keys, first: shuffle_grouping(len(keys), first, setting.sources, setting.channels))


@dataclass(frozen=True)
class PartialKeyGrouping(Grouping):
    """PKG: of two hashes of the key, the channel with less load so far. At most two channels per key."""

    name: ClassVar[str] = "PKG"

    def start(self, setting: Setting) -> Router:
        """Keeps loads per source."""
        from rebalance.simulate.choices_kernel import partial_key_grouping

        loads = _loads(setting)
        return Router(lambda keys, first: partial_key_grouping(keys, first, setting.hashes, loads))


@dataclass(frozen=True)
class TwoChoices(Grouping):
    """PoTC: of two random channels per tuple, the less loaded."""

    name: ClassVar[str] = "PoTC"

    def start(self, setting: Setting) -> Router:
        """Keeps loads per source; the two channels come from the tuple's number and the seed."""
        from rebalance.simulate.choices_kernel import two_choices

        loads, seed = _loads(setting), tuple_seed(setting.seed)
        return Router(lambda keys, first: two_choices(len(keys), first, seed, loads))


@dataclass(frozen=True)
class BoundedRing(Grouping):
    """CH: consistent hashing with bounded loads; the first channel clockwise with load < (1+ε)·m/n."""

    name: ClassVar[str] = "CH"
    epsilon: float = 0.01
    #: Points of each channel on the ring.
    points: int = 1

    def __post_init__(self) -> None:
        check_bound(self.epsilon)
        if self.points < 1:
            raise ConfigError(f"points is {self.points}; it must be at least 1, the points of each channel on the ring")

    def start(self, setting: Setting) -> Router:
        """Keeps loads per source."""
        from rebalance.simulate.bounded_kernel import bounded_ring

        points, owner = ring(setting.channels, self.points)
        place = (mixed(setting.hashes, 0) >> np.uint64(32)).astype(np.uint32)
        home = (np.searchsorted(points, place) % len(points)).astype(np.int32)
        loads, seen, levels = _loads(setting), _per_source(setting), _per_source(setting)
        jump = np.tile(np.arange(len(owner), dtype=np.int32), (setting.sources, 1))
        return Router(
            lambda keys, first: bounded_ring(keys, first, home, owner, self.epsilon, loads, seen, levels, jump)
        )


@dataclass(frozen=True)
class RandomChoices(Grouping):
    """PoRC: H(key + 1), H(key + 2), …, the first with load < (1+ε)·m/n. Max load ≤ (1+ε)·m/n + 1 for one source."""

    name: ClassVar[str] = "PoRC"
    epsilon: float = 0.01

    def __post_init__(self) -> None:
        check_bound(self.epsilon)

    def start(self, setting: Setting) -> Router:
        """Keeps loads per source."""
        return Router(random_choices_over(setting, setting.channels, self.epsilon))


@dataclass(frozen=True)
class HeadChoices(Grouping):
    """D-Choices: a key of the head (frequency ≥ θ) goes to the least loaded of d channels, the others of two.

    d is the least number with which the head overloads no set of channels it reaches, by the expected size of that set
    (`choices_kernel.enough_choices`); with d = n it is W-Choices.
    """

    name: ClassVar[str] = "D-C"
    #: Frequency from which a key belongs to the head, in units of 1/n. The paper's range is 1/5 to 2; 1/5 is where two choices stop to do.
    theta: float = 0.2
    #: Tolerated excess in the search for d.
    epsilon: float = 1e-4
    all_channels: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not self.theta > 0:
            raise ConfigError(f"theta is {self.theta}; it must be above 0, for example 0.2")
        check_bound(self.epsilon)

    def start(self, setting: Setting) -> Router:
        """Keeps loads and exact key counts per source."""
        from rebalance.simulate.choices_kernel import LEAST_WAIT, REMEMBERED, HeadSources, head_choices

        number, never = setting.sources, np.iinfo(np.int64).max
        sources = HeadSources(
            loads=_loads(setting),
            seen=_per_source(setting),
            counts=np.zeros((number, len(setting.hashes)), np.int32),
            choices=np.full(number, setting.channels if self.all_channels else 2, np.int64),
            refresh=np.full(number, never if self.all_channels else LEAST_WAIT, np.int64),
            lowest=np.zeros((number, 2), np.int64),
            known=np.full((number, REMEMBERED, 4), -1, np.int64),
        )
        theta = self.theta / setting.channels
        return Router(lambda keys, first: head_choices(keys, first, setting.hashes, theta, self.epsilon, sources))


@dataclass(frozen=True)
class AllChoices(HeadChoices):
    """W-Choices: a key of the head goes to the least loaded of all channels, the others to one of two."""

    name: ClassVar[str] = "W-C"
    all_channels: ClassVar[bool] = True


def random_choices_over(setting: Setting, bins: int, epsilon: float) -> Callable[[Ints, int], Ints]:
    """PoRC over any number of bins, channels or virtual workers."""
    from rebalance.simulate.bounded_kernel import REMEMBERED, random_choices

    loads, seen = np.zeros((setting.sources, bins), np.int64), _per_source(setting)
    reached = np.full((setting.sources, REMEMBERED, 3), -1, np.int64)
    return lambda keys, first: random_choices(keys, first, setting.hashes, epsilon, loads, seen, reached)


def ring(channels: int, points: int) -> tuple[NDArray[np.uint32], Ints]:
    """Points of a consistent hash in ascending order, and the channel of each."""
    labels = [(d, f"channel-{d}-replica-{replica}") for d in range(channels) for replica in range(points)]
    places = ring_points(label for _, label in labels)
    order = np.argsort(places, kind="stable")
    return places[order], np.array([d for d, _ in labels], np.int32)[order]


def key_hashes(hashes: NDArray[np.uint32], seed: int) -> NDArray[np.uint64]:
    """64 bits per key from its 32-bit hash and the run's seed."""
    return mixed(hashes.astype(np.uint64), seed)


def tuple_seed(seed: int) -> np.uint64:
    """Where the run's sequence of random tuples begins: another place than that of the keys."""
    return np.uint64(mixed(np.array([seed], np.uint64), 0x7475706C65)[0])


def mixed(values: NDArray[np.uint64], salt: int) -> NDArray[np.uint64]:
    """`mixing_kernel.mix` over an array."""
    with np.errstate(over="ignore"):
        x = values + np.uint64(salt) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)), np.uint64)


def _loads(setting: Setting) -> Indices:
    return np.zeros((setting.sources, setting.channels), np.int64)


def _per_source(setting: Setting) -> Indices:
    return np.zeros(setting.sources, np.int64)


def check_bound(epsilon: float) -> None:
    """Refuse a bound below the mean load: it cannot be kept."""
    if epsilon < 0:
        raise ConfigError(
            f"epsilon is {epsilon}; it must be at least 0, for a bound below the mean load cannot be kept"
        )
