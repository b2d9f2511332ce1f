"""How many tuples a second lossy counting takes from arrays, beside exact counting of the same tuples.

    python -m tests.bench.bench_lossy [--tuples 5000000]

One run, one machine. Keys are Zipf over 10^6; exact counting is numpy's `unique`, which needs all tuples at once and all keys' counts, and
a dictionary.
"""

# ruff: noqa: T201 - a table for a person at a terminal

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from rebalance.planners.gedik.lossy import LossyCounter, SlidingCounter
from rebalance.planning.model import Indices

KEYS = 1_000_000


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tuples", type=int, default=5_000_000)
    size = parser.parse_args().tuples
    LossyCounter(0.1).add(np.arange(100))  # compile
    print(f"{'z':<5}{'ε':>9}{'entries':>9}{'M tuples/s':>12}{'in 1,000s':>11}{'sliding':>9}{'unique':>8}{'dict':>7}")
    for z in (0.0, 0.5, 1.0, 1.5):
        stream = zipf_stream(size, z)
        unique = rate(size, lambda s=stream: np.unique(s, return_counts=True))  # type: ignore[misc]
        dictionary = rate(size // 10, lambda s=stream: Counter(s[: size // 10].tolist()))  # type: ignore[misc]
        for epsilon in (1e-2, 1e-3, 1e-4, 1e-5):
            counter = LossyCounter(epsilon)
            whole = rate(size, lambda c=counter, s=stream: c.add(s))  # type: ignore[misc]
            pieces = rate(size, lambda e=epsilon, s=stream: add_in_pieces(LossyCounter(e), s))  # type: ignore[misc]
            sliding = rate(size, lambda e=epsilon, s=stream: SlidingCounter(e, 2 * (size // 5)).add(s))  # type: ignore[misc]
            row = f"{whole:>12.1f}{pieces:>11.1f}{sliding:>9.1f}{unique:>8.1f}{dictionary:>7.1f}"
            print(f"{z:<5}{epsilon:>9g}{len(counter):>9,}{row}")
    print_merge()


def zipf_stream(size: int, z: float) -> Indices:
    """Tuples' keys, the frequent ones anywhere among the integers."""
    rng = np.random.default_rng(0)
    cumulated = np.cumsum(np.arange(1.0, KEYS + 1) ** -z)
    ranks = np.searchsorted(cumulated, rng.random(size) * cumulated[-1])
    return rng.integers(0, 2**62, KEYS)[np.minimum(ranks, KEYS - 1)]


def add_in_pieces(counter: LossyCounter, stream: Indices) -> None:
    """A thousand tuples at a time."""
    for start in range(0, len(stream), 1000):
        counter.add(stream[start : start + 1000])


def rate(tuples: int, run: Callable[[], Any]) -> float:
    """Million tuples a second."""
    started = time.perf_counter()
    run()
    return tuples / (time.perf_counter() - started) / 1e6


def print_merge() -> None:
    """Merging the counters of sixteen partitions."""
    parts = np.array_split(zipf_stream(1_600_000, 1.0), 16)
    counters = [LossyCounter(1e-4) for _ in parts]
    for counter, part in zip(counters, parts, strict=True):
        counter.add(part)
    started = time.perf_counter()
    merged = counters[0]
    for counter in counters[1:]:
        merged = merged.merge(counter)
    print(
        f"\nmerging 16 counters of {len(counters[0]):,} entries: {(time.perf_counter() - started) * 1e3:.1f} ms, {len(merged):,} entries"
    )


if __name__ == "__main__":
    main()
