"""Longest processing time first, as machine code: the plainest way to balance, for where nothing else does. Read `nearest` first."""

from __future__ import annotations

import numpy as np

from rebalance.compiled import compiled
from rebalance.planning.model import Floats, Indices, Ints


@compiled
def longest_first(
    order: Indices,
    cost: Floats,
    start: Ints,
    channel: Ints,
    load: Floats,
    count: Indices,
    stay: Floats,
    fair: Floats,
    most: int,
) -> None:
    """Put each key, in this order, where it starts if that channel does not come above `stay` by it, else on the channel that is
    least full with it, of equal ones on where it starts.
    """
    for k in order:
        d = start[k]
        if d < 0 or load[d] + cost[k] > stay[d] or count[d] >= most:
            least = np.inf
            for t in range(len(load)):
                if fair[t] > 0.0 and (count[t] < most or least == np.inf):
                    full = (load[t] + cost[k]) / fair[t] if count[t] < most else np.inf
                    if full < least or d < 0 or (full == least and t == start[k]):
                        d, least = t, full
        channel[k] = d
        load[d] += cost[k]
        count[d] += 1
