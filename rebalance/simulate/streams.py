"""Streams of keyed tuples for the tuple-level simulator: Zipf, recorded, drifting. All of them are arrays, the same for the same seed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rebalance.errors import ConfigError, SourceError
from rebalance.partition.hashing import hash_longs, hash_strings
from rebalance.planning.model import Ints
from rebalance.simulate.workload import Workload, zipf


@dataclass(frozen=True, eq=False)
class Stream:
    """Tuples in the order in which they arrive."""

    #: For figures and tables.
    name: str
    #: Key of each tuple, as an index into `hashes`.
    keys: Ints
    #: Spark's `hash()` of each key.
    hashes: NDArray[np.uint32]

    def __post_init__(self) -> None:
        if len(self.keys) == 0:
            raise ConfigError(f"the stream {self.name!r} has no tuples; give it at least one")

    def __len__(self) -> int:
        return len(self.keys)

    def first(self, tuples: int) -> Stream:
        """The stream cut off after so many tuples."""
        return Stream(self.name, self.keys[:tuples], self.hashes)


def zipf_stream(tuples: int = 10_000_000, keys: int = 100_000, z: float = 1.0, seed: int = 0) -> Stream:
    """Independent draws with frequencies ∝ 1 / rank^z; the defaults are the size of the paper's.

    >>> stream = zipf_stream(tuples=1000, keys=10, z=2.0, seed=7)
    >>> int((stream.keys == 0).sum())
    664
    """
    if keys < 1 or z < 0:
        raise ConfigError(f"a Zipf stream needs keys >= 1 and z >= 0, got keys = {keys}, z = {z}")
    cumulative = np.cumsum(zipf(keys, z))
    drawn = np.searchsorted(cumulative, np.random.default_rng((seed, 2)).random(tuples) * cumulative[-1], side="right")
    names = np.arange(1, keys + 1, dtype=np.int64)
    return Stream(f"Zipf z={z:g}, {keys:,} keys", np.minimum(drawn, keys - 1).astype(np.int32), hash_longs(names))


def recorded_stream(file: str | Path, column: str) -> Stream:
    """The keys of a Parquet file's column in the file's order; a null is a key of its own, named ``."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        values = pq.read_table(file, columns=[column]).column(0).combine_chunks()
    except (OSError, IndexError, pa.ArrowInvalid) as error:
        raise SourceError(
            f"cannot read column {column!r} of {file}: {error}; give a Parquet file and its key column"
        ) from error
    encoded = values.cast(pa.string()).fill_null("").dictionary_encode()
    indices = encoded.indices.to_numpy().astype(np.int32)
    return Stream(f"{Path(file).stem}, {column}", indices, hash_strings(encoded.dictionary.to_pylist()))


def drifting_stream(workload: Workload, intervals: int, tuples: int) -> Stream:
    """`tuples` in all, of which each interval of the workload has the same share."""
    parts = np.diff(np.linspace(0, tuples, intervals + 1).astype(int))
    drawn = [interval.draw(int(n)) for interval, n in zip(workload.intervals(intervals), parts, strict=True)]
    name = f"drift f={workload.f:g}, z={workload.z:g}, {workload.keys:,} keys"
    return Stream(name, np.concatenate(drawn).astype(np.int32), hash_strings(workload.names.tolist()))
