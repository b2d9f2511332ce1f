"""The greatest few of many numbers, the same ones on every processor."""

from __future__ import annotations

import numpy as np

from rebalance.planning.model import Floats, Indices


def heaviest(values: Floats, most: int | None = None) -> Indices:
    """Where the greatest values are, at most so many of them, greatest first; of equal ones the first.

    >>> heaviest(np.array([1.0, 3.0, 2.0, 3.0, 2.0]), 3).tolist()
    [1, 3, 2]
    """
    if most is None or most >= len(values):
        return np.argsort(-values, kind="stable")
    if most <= 0:
        return np.empty(0, dtype=np.int64)
    # Sorting only what may be among them: a selection of the least of them is much faster than a sort of all.
    least = np.partition(values, len(values) - most)[len(values) - most]
    found = np.flatnonzero(values >= least)
    return found[np.argsort(-values[found], kind="stable")[:most]]
