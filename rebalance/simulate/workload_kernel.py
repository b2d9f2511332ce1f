"""The swapping loop of the workload generator as machine code. Read `workload` first."""

from __future__ import annotations

from rebalance.compiled import compiled
from rebalance.planning.model import Floats, Indices, Ints


@compiled
def swap(
    frequency: Floats, home: Ints, first: Indices, second: Indices, hot: int, drift: Floats, enough: float
) -> bool:
    """Swap the pairs in turn, none that cools the hot channel (-1: there is none); true once a channel has drifted enough."""
    for pair in range(len(first)):
        a, b = first[pair], second[pair]
        rise = frequency[b] - frequency[a]
        if home[a] == home[b] or (home[a] == hot and rise < 0) or (home[b] == hot and rise > 0):
            continue
        frequency[a], frequency[b] = frequency[b], frequency[a]
        drift[home[a]] += rise
        drift[home[b]] -= rise
        if max(abs(drift[home[a]]), abs(drift[home[b]])) >= enough:
            return True
    return False
