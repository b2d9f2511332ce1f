"""`dchoices`: D-Choices, d channels for the head and two for the rest.

Reference: Nasir et al., "When two choices are not enough: balancing at scale in distributed stream processing", ICDE 2016. The head H is the
keys with a share p of at least θ = 1/(5 N). Tuples of the head go to the least loaded of d channels, the others by partial key
grouping. d is the least with which the head can be balanced: for every prefix of h keys of the head

    Σ_{i ≤ h} p_i + (b/N)^d · Σ_{h < i ≤ |H|} p_i + (b/N)^2 · Σ_{i > |H|} p_i  ≤  b · (1/N + ε),    b = N - N ((N-1)/N)^{h d}

where b is how many channels h keys with d hashes each are expected to reach. d is at least p_1 N; if no d < N does, all channels: `wchoices`.

The authors' own simulator (github.com/anisnasir/SLBSimulator, class LBDChoice) looks at the prefixes h = 1 and h = |H| alone, has b/N + ε on the right,
and begins with d = p_1 N rounded. So for ε = 0 it never finds more than here, and the same unless a prefix between the two binds; for ε > 0 it is
stricter by (b - 1) ε where it looks. `tests/unit/test_choices.py` has both side by side.

Departures: see `spread` and `wchoices`. N counts open channels, as if they were alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import ClassVar

import numpy as np

from rebalance.planners.splitting.spread import Spill, check_epsilon
from rebalance.planners.splitting.wchoices import Head
from rebalance.planning.exact import TOLERANCE
from rebalance.planning.model import Floats, Mask


@dataclass(frozen=True)
class DChoices(Head):
    """The least loaded of d channels for the head, of two for the rest."""

    name: ClassVar[str] = "dchoices"

    #: ε: imbalance allowed for, as a share of all load.
    epsilon: float = 1e-4

    def __post_init__(self) -> None:
        super().__post_init__()
        check_epsilon(self.epsilon)

    def choices(self, heavy: Spill, in_head: Mask) -> int:
        """The least d with which the head can be balanced."""
        total = max(float(heavy.request.stats.cost.sum()), np.finfo(float).tiny)
        return enough_choices(heavy.cost[in_head] / total, len(heavy.open), self.epsilon)


def enough_choices(p: Floats, n: int, epsilon: float) -> int:
    """The least d ≥ 2 that balances a head with these shares, largest first; n if none does.

    >>> enough_choices(np.array([0.02]), 10, 1e-4), enough_choices(np.array([0.3]), 10, 1e-4)
    (2, 6)
    """
    if not len(p):
        return min(2, n)
    heavier, least = np.cumsum(p), ceil(float(p[0]) * n * (1 - TOLERANCE))
    lighter, tail = heavier[-1] - heavier, 1.0 - float(heavier[-1])
    h = np.arange(1, len(p) + 1)
    for d in range(max(2, least), n):
        b = n - n * ((n - 1) / n) ** (h * d)
        expected = heavier + (b / n) ** d * lighter + (b / n) ** 2 * tail
        # Powers differ in the last bit between processors: just above is still within.
        if (expected <= b * (1 / n + epsilon) * (1 + TOLERANCE)).all():
            return d
    return n
