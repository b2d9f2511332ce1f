"""The papers' synthetic workload: Zipf frequencies that change hands between channels from interval to interval.

Reference: Fang et al., "Parallel Stream Processing Against Workload Skewness and Variance", the synthetic data of the evaluation.
K keys have Zipf(z) frequencies. At each new interval frequencies are swapped between keys of different channels (by the ring
alone, so that the workload does not depend on any planner) until max_d |L_i(d) - L_{i-1}(d)| / L̄ ≥ f.

Departure: pairs drawn blindly soon cancel each other out; f = 1 took 10 to 100 passes over 10^5 keys, a larger f never ends. So
after one blind pass, which is what f < 0.5 needs at most, a channel drawn at random from those below the mean runs hot: its keys, drawn at random, take over
the frequencies of keys elsewhere, drawn by their frequency, where that heats it. What comes out looks the same: most keys
have changed their frequency and a few heavy ones have met on one channel. Frequencies that cannot reach f at all (z = 0: they are
all equal) are left after `_ROUNDS` rounds; `Interval.change` says what was reached.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rebalance.errors import ConfigError
from rebalance.partition import consistent_ring, slots_of
from rebalance.planning.exact import TOLERANCE, total
from rebalance.planning.measure import channel_loads
from rebalance.planning.model import Floats, Indices, Ints

#: Times every key of the hot channel is offered another frequency before an unreachable f is given up.
_ROUNDS = 64


@dataclass(frozen=True, eq=False)
class Interval:
    """What one interval asks of each key."""

    #: 1, 2, 3, …
    number: int
    #: Share of the interval's tuples each key has; sums to 1.
    frequency: Floats
    #: max_d |L_i(d) - L_{i-1}(d)| / L̄ under the ring alone; 0 for the first interval.
    change: float
    #: Seed of this interval's tuples.
    seed: int

    def draw(self, events: int) -> Indices:
        """The key, as an index, of each of `events` tuples in the order in which they come."""
        return np.random.default_rng((self.seed, self.number, 1)).choice(
            len(self.frequency), size=events, p=self.frequency
        )


@dataclass(frozen=True)
class Workload:
    """A seeded, endless sequence of intervals; the defaults are the paper's.

    >>> workload = Workload(keys=1000, channels=4, seed=7)
    >>> workload.names[:2].tolist()
    ['k0000001', 'k0000002']
    >>> [round(interval.change, 1) >= 1.0 for interval in workload.intervals(3)]
    [False, True, True]
    """

    #: K: number of keys.
    keys: int = 100_000
    #: N: channels of the ring between whose keys frequencies are swapped.
    channels: int = 15
    #: Skewness of the Zipf distribution; 0 = all keys alike.
    z: float = 0.85
    #: Fluctuation: by how many mean loads a channel's load must change from one interval to the next.
    f: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.keys < 1 or self.channels < 1:
            raise ConfigError(f"a workload needs keys and channels, got keys = {self.keys}, channels = {self.channels}")
        if self.z < 0 or self.f < 0:
            raise ConfigError(f"z and f must not be negative, got z = {self.z}, f = {self.f}")

    @cached_property
    def names(self) -> NDArray[Any]:
        """The keys, in ascending order."""
        return np.array([f"k{number:07d}" for number in range(1, self.keys + 1)])

    @cached_property
    def slots(self) -> Ints:
        """Ring slot of each key."""
        return slots_of(self.names.tolist(), "string")

    @cached_property
    def ring(self) -> Ints:
        """Slot table of the consistent hash over the channels."""
        return consistent_ring(self.channels)

    @cached_property
    def home(self) -> Ints:
        """h(k): channel of each key by the ring."""
        return self.ring[self.slots]

    def intervals(self, number: int) -> Iterator[Interval]:
        """The first `number` intervals; the same ones at every call."""
        rng = np.random.default_rng((self.seed, 0))
        frequency = rng.permutation(zipf(self.keys, self.z))
        change = 0.0
        for index in range(1, number + 1):
            if index > 1:
                frequency, change = _next_frequency(rng, frequency, self.home, self.channels, self.f)
            yield Interval(index, frequency, change, self.seed)


def zipf(keys: int, z: float) -> Floats:
    """Frequencies ∝ 1 / rank^z, largest first, summing to 1.

    Powers differ in the last of their 53 bits between processors: they are rounded to 24, where they do not.
    """
    weights = (np.arange(1, keys + 1, dtype=np.float64) ** -z).astype(np.float32).astype(np.float64)
    return np.asarray(weights / total(weights), dtype=np.float64)


def _next_frequency(
    rng: np.random.Generator, before: Floats, home: Ints, channels: int, f: float
) -> tuple[Floats, float]:
    """Swap frequencies between channels until some channel's load has changed by f mean loads."""
    from rebalance.simulate import workload_kernel as kernel

    frequency = before.copy()
    drift = np.zeros(channels)
    enough = f / channels
    order = rng.permutation(len(frequency))
    half = len(order) // 2
    done = f == 0 or kernel.swap(frequency, home, order[:half], order[half : 2 * half], -1, drift, enough)
    if done:
        return frequency, float(np.abs(drift).max() * channels)
    load = channel_loads(frequency, home, channels)
    cool = rng.permutation(np.flatnonzero(load <= total(load) / channels * (1 + TOLERANCE)))
    best, change = frequency, -1.0
    # A channel that has cooled so far may not get hot enough: then another one.
    for hot in cool.tolist():
        heated, drifted = _heat(rng, frequency.copy(), home, hot, drift.copy(), enough)
        if drifted > change:
            best, change = heated, drifted
        if change >= enough:
            break
    return best, change * channels


def _heat(
    rng: np.random.Generator, frequency: Floats, home: Ints, hot: int, drift: Floats, enough: float
) -> tuple[Floats, float]:
    """Offer the keys of the hot channel the frequencies of others, drawn by their frequency, until a channel has drifted enough."""
    from rebalance.simulate import workload_kernel as kernel

    heated = np.flatnonzero(home == hot)
    for _ in range(_ROUNDS if len(heated) else 0):
        tuples = rng.choice(len(frequency), size=len(heated), p=frequency)
        if kernel.swap(frequency, home, rng.permutation(heated), tuples, hot, drift, enough):
            break
    return frequency, float(np.abs(drift).max())
