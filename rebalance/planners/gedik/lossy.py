"""Lossy counting: which keys are frequent, in little memory, with guarantees on any stream.

References: Manku and Motwani, "Approximate frequency counts over data streams", VLDB 2002; used by Gedik, "Partitioning functions
for stateful data parallelism in stream processing", VLDB Journal 23(4), 2014, section 4.1.2, to track the keys of the explicit table.

The stream is cut into windows of 1/ε tuples. A new key is entered with count 1 and error i - 1, i being the number of the
open window, from 1; a known key counts one more. When window i closes, keys with count + error ≤ i are dropped.

Guarantees, n being the tuples so far:

- count ≤ true count ≤ count + error, and error ≤ ε·n; a key without an entry has a true count of at most ε·n;
- `frequent(δ)`, all keys with count ≥ (δ-ε)·n for a δ above ε, misses no key with true frequency ≥ δ and returns none below δ - ε;
- when window w has closed there are at most (1/ε)·(1/2 + 1/3 + … + 1/(w+1)) entries, which is below (1/ε)·ln(ε·n) from the third window
  on. While a window is open its own new keys come on top.

Counters over different parts of a stream merge: counts of a key on both sides add up, a key on one side only gets the other side's
largest possible error added to its own. All guarantees but the last hold for the merged counter, whatever the order of
merging and counting; it has at most the entries of both.

Keys are integers: what a string key is for Spark's `hash`, its code in a dictionary, anything that is the same everywhere.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rebalance.errors import RebalanceError
from rebalance.planning.exact import TOLERANCE
from rebalance.planning.model import Indices

if TYPE_CHECKING:
    from rebalance.planners.gedik.lossy_kernel import Entries


class Counts(NamedTuple):
    """Keys in ascending order; the true count of each is between its count and count + error."""

    keys: Indices
    counts: Indices
    errors: Indices


class LossyCounter:
    """Counts the keys of a stream.

    >>> counter = LossyCounter(epsilon=0.1)
    >>> counter.add(np.array([7, 7, 1, 7, 2, 7, 3, 7, 4, 7]))
    >>> counter.frequent(delta=0.5)
    Counts(keys=array([7]), counts=array([6]), errors=array([0]))
    """

    def __init__(self, epsilon: float) -> None:
        if not 0 < epsilon <= 1:
            raise RebalanceError(f"epsilon is {epsilon}; it must be above 0 and at most 1, for example a tenth of δ")
        #: Largest error as a share of the tuples.
        self.epsilon = epsilon
        #: Tuples in a window.
        self.width = ceil(1 / epsilon)
        #: Tuples so far.
        self.n = 0
        self._entries: Entries | None = None

    @classmethod
    def for_threshold(cls, delta: float) -> LossyCounter:
        """A counter to ask for the keys with frequency ≥ δ: ε = δ/10."""
        return cls(delta / 10)

    def __len__(self) -> int:
        """Number of entries."""
        return 0 if self._entries is None else self._entries.used

    @property
    def closed(self) -> int:
        """Windows closed, which is also the largest possible error."""
        return self.n // self.width

    def add(self, keys: NDArray[np.integer]) -> None:
        """Count these tuples' keys, in this order."""
        from rebalance.planners.gedik.lossy_kernel import count

        tuples = np.ascontiguousarray(keys, dtype=np.int64)
        entries = self._entries or _entries(Counts(*[np.empty(0, dtype=np.int64)] * 3))
        self._entries = count(tuples, self.width, self.n, entries)
        self.n += len(tuples)

    def counts(self) -> Counts:
        """All entries."""
        if self._entries is None:
            return Counts(*[np.empty(0, dtype=np.int64)] * 3)
        keys, counts, errors, _, used = self._entries
        order = np.argsort(keys[:used])
        return Counts(keys[order], counts[order], errors[order])

    def frequent(self, delta: float) -> Counts:
        """All keys with frequency ≥ δ, and perhaps some down to δ - ε; δ must be above ε."""
        if not delta > self.epsilon:
            raise RebalanceError(
                f"delta is {delta:g} and epsilon {self.epsilon:g}: keys that rare may be forgotten; count with an ε below δ"
            )
        entries = self.counts()
        # (δ-ε)·n is often a whole number that floating point misses by a hair: no key may be lost to that.
        enough = entries.counts >= (delta - self.epsilon) * self.n * (1 - TOLERANCE)
        return Counts(*(values[enough] for values in entries))

    def merge(self, other: LossyCounter) -> LossyCounter:
        """The counter of both streams together."""
        if other.width != self.width:
            raise RebalanceError(
                f"counters with ε = {self.epsilon:g} and {other.epsilon:g} do not merge; count both with the same ε"
            )
        merged = LossyCounter(self.epsilon)
        merged.n = self.n + other.n
        sides = [(side.counts(), side.closed) for side in (self, other)]
        keys = np.union1d(sides[0][0].keys, sides[1][0].keys)
        counts, errors = np.zeros_like(keys), np.zeros_like(keys)
        for entries, largest_error in sides:
            at = np.searchsorted(keys, entries.keys)
            absent = np.ones(len(keys), dtype=np.bool_)
            absent[at] = False
            counts[at] += entries.counts
            errors[at] += entries.errors
            errors[absent] += largest_error
        # The open windows of both sides may add up to one more that is closed.
        stay = counts + errors > merged.closed
        merged._entries = _entries(Counts(keys[stay], counts[stay], errors[stay]))
        return merged


def _entries(counts: Counts) -> Entries:
    from rebalance.planners.gedik.lossy_kernel import Entries, with_room

    used = len(counts.keys)
    return Entries(*with_room(*counts, used, max(2 * used, 64)), used)


class SlidingCounter:
    """Frequent keys of the recent past: x counters over overlapping stretches, of which the oldest answers.

    A counter is started every W/(x-1) and dropped when it has seen W + W/(x-1), so once W has passed the answer covers between W and
    (1 + 1/(x-1))·W; before, all there was. W is counted in tuples, or in intervals when each call adds one interval.
    """

    def __init__(
        self, epsilon: float, window: int, counters: int = 3, unit: Literal["tuples", "intervals"] = "tuples"
    ) -> None:
        if counters < 2 or window < 1 or window % (counters - 1):
            raise RebalanceError(
                f"window is {window} and counters {counters}; there must be two counters at least, and the window must be a "
                f"multiple of {max(counters - 1, 1)}, one less than the counters"
            )
        self.epsilon = epsilon
        self.unit = unit
        self._stride = window // (counters - 1)
        self._counters = counters
        self._passed = 0
        self._running = [LossyCounter(epsilon)]

    @property
    def answering(self) -> LossyCounter:
        """The oldest counter."""
        return self._running[0]

    def frequent(self, delta: float) -> Counts:
        """All keys with frequency ≥ δ in what the oldest counter covers, and perhaps some down to δ - ε."""
        return self.answering.frequent(delta)

    def add(self, keys: NDArray[np.integer]) -> None:
        """Count these tuples' keys: so many tuples more, or one interval more."""
        if self.unit == "intervals":
            counter = LossyCounter(self.epsilon)
            counter.add(keys)
            self.add_interval(counter)
            return
        while len(keys):
            part, keys = np.split(keys, [self._stride - self._passed % self._stride])
            for counter in self._running:
                counter.add(part)
            self._pass(len(part))

    def add_interval(self, counter: LossyCounter) -> None:
        """Count an interval that was counted elsewhere, for example merged from the counters of its partitions."""
        if self.unit != "intervals":
            raise RebalanceError("the window is counted in tuples; only a window of intervals takes whole intervals")
        self._running = [running.merge(counter) for running in self._running]
        self._pass(1)

    def _pass(self, amount: int) -> None:
        self._passed += amount
        if self._passed % self._stride == 0:
            self._running = [*self._running[-self._counters + 1 :], LossyCounter(self.epsilon)]
