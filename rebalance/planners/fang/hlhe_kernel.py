"""The loop of HLHE as machine code: each choice depends on the deviation all choices before it have left. Read `hlhe` first."""

from __future__ import annotations

import numpy as np

from rebalance.compiled import compiled
from rebalance.planning.exact_kernel import clearly_less
from rebalance.planning.model import Floats, Indices, Ints


@compiled
def choose(x: Floats, order: Indices, r: int, part: Ints) -> Floats:
    """φ of each x, taken in `order` (descending), with a deviation of its own for each part."""
    step = 2.0**r
    top = max(1.0, np.floor(x[order[0]] / step)) * step
    phi = np.zeros(len(x))
    deviation = np.zeros(part.max() + 1)
    for i in order:
        value = x[i]
        if value <= 0.0:
            break
        if value < 1.0:
            lower, upper = 0.0, 1.0
        elif value >= top:
            lower, upper = top, top
        elif value >= step:
            lower = np.floor(value / step) * step
            upper = lower + step
        else:
            upper = step
            while upper / 2 > value:
                upper /= 2
            lower = upper / 2
        wanted = deviation[part[i]] + value
        phi[i] = upper if clearly_less(abs(wanted - upper), abs(wanted - lower)) else lower
        deviation[part[i]] = wanted - phi[i]
    return phi
