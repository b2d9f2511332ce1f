"""HLHE: few representatives for many values, with errors that cancel.

Reference: Fang et al., "Parallel stream processing against workload skewness and variance", section IV.

R = 2^r. Values, in units of the smallest positive one, are taken from the largest to the smallest. The representatives are multiples of
R down to R (half linear), then R/2, R/4, …, 2, 1 (half exponential). A value goes to the one of its two neighbours that
keeps the accumulated deviation δ = Σ (x - φ(x)) closest to 0, to the lower one on a tie; what is above the largest
representative goes to that. So single values are off, but sums over many keys, such as a channel's load, hardly are.

Guarantee: with a long tail (many values at or near the smallest) the final |δ| ≤ R.

Departures: the paper's rule "the larger one iff δ > 0" does not reproduce its own example, this one does; when every value is
below R, R itself is the largest representative; zero stays zero, and 0 is the lower neighbour of the values below a
four-billionth of the largest.
"""

from __future__ import annotations

import numpy as np

from rebalance.planning.model import Floats, Ints

#: Largest value in units of the smallest; what is less than that part of the largest may count as nothing.
_RANGE = 2.0**32


def discretize(values: Floats, r: int, part: Ints | None = None) -> Floats:
    """φ(x) of each value, with R = 2^r. Equal values may differ in φ: the earlier ones are taken first.

    `part` numbers the parts that each keep a deviation of their own, so that every part's sum comes out right and not only the whole.

    >>> discretize(np.array([8.0, 6, 3, 2, 2, 1, 1, 1, 1, 1]), r=2)
    array([8., 4., 4., 2., 2., 2., 1., 1., 1., 1.])
    """
    positive = values > 0
    if not positive.any():
        return np.zeros(len(values))
    from rebalance.planners.fang.hlhe_kernel import choose

    unit = max(float(values[positive].min()), float(values.max()) / _RANGE)
    x = values / unit
    part = np.zeros(len(x), dtype=np.int32) if part is None else part
    return choose(x, np.argsort(-x, kind="stable"), r, part) * unit
