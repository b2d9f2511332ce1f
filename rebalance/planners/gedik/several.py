"""readj by the best of several σ, for comparisons: a smaller σ tracks more keys, and which one serves best depends on the workload.

Reference: Fang, Zhang, Fu, Wang, Zhou, "Parallel stream processing against workload skewness and variance", section V: they run Readj with
different σ and report the best result only. They say neither which σ nor what makes a result the best. Ours: the range that Gedik's
paper looks at, and what Fang et al. ask of a plan. Within θ_max as often as can be; then, where that is missed, by as little as can be;
then with the least state moved.
"""

from __future__ import annotations

from collections.abc import Sequence

from rebalance.planning.exact import clearly_less

SIGMAS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


def shortcomings(thetas: Sequence[float], moved: float, theta_max: float) -> tuple[int, float, float]:
    """Of the largest θ that each plan of a run comes to, and the state moved in all: the best result has the least.

    >>> shortcomings([0.25, 0.08], 300.0, 0.125) < shortcomings([0.5, 0.0], 5.0, 0.125) < shortcomings([0.25, 0.25], 5.0, 0.125)
    True
    """
    beyond = [theta - theta_max for theta in thetas if clearly_less(theta_max, theta)]
    return len(beyond), sum(beyond), moved
