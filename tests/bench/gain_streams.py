"""The event streams of `bench_gain`: Zipf keys whose hot ones change hands, and keys that plain hashing puts into one of two partitions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from rebalance.demo.events import _trades
from rebalance.partition import consistent_ring
from rebalance.partition.hashing import hash_strings
from rebalance.partition.ring import SLOT_SHIFT
from rebalance.pipeline.intervals import Interval

#: Share of the skewed stream's rows whose keys plain hashing puts into one of two partitions.
SKEW = 0.9


def write_events(folder: Path, first: Interval, stream: str, events: int, keys: int, intervals: int) -> None:
    """Trades of each interval, one file each."""
    folder.mkdir()
    random = np.random.default_rng(11)
    weights, names = STREAMS[stream](keys, random)
    for number in range(intervals):
        # Hot keys change hands a little: a hundred of the thousand hottest swap places.
        swapped = random.choice(1000, 100, replace=False)
        names[swapped] = names[random.permutation(swapped)]
        symbols = names[random.choice(keys, events, p=weights)]
        pq.write_table(_trades(first.shifted(number), symbols, seed=number), folder / f"{number}.parquet")


def zipf(keys: int, random: np.random.Generator) -> tuple[Any, Any]:
    """Zipf with z = 1 over keys in any order."""
    weights = 1.0 / np.arange(1, keys + 1)
    return weights / weights.sum(), np.array([f"k{i:07d}" for i in random.permutation(keys)])


def skewed(keys: int, random: np.random.Generator) -> tuple[Any, Any]:
    """Most rows belong to a thousand keys that both Spark's hash and the ring put into the first of two partitions."""
    names = np.array([f"k{i:07d}" for i in range(4 * keys)])
    hashes = hash_strings(map(str, names))
    first = (hashes % 2 == 0) & (consistent_ring(2)[(hashes >> SLOT_SHIFT).astype(np.int64)] == 0)
    hot = names[first][:1000]
    rest = random.permutation(np.setdiff1d(names, hot))[: keys - 1000]
    # The rest is even: half of it goes to the first partition, too.
    share = 2 * SKEW - 1
    return np.concatenate([np.full(1000, share / 1000), np.full(len(rest), (1 - share) / len(rest))]), np.concatenate(
        [hot, rest]
    )


STREAMS = {"zipf": zipf, "skewed": skewed}
