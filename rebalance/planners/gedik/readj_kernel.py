"""readj's search for the exchange with the largest gain as machine code. Read `readj_search` first.

The loops take plain arrays and numbers: reading an array from a tuple inside a loop costs more than evaluating a candidate.
"""

from __future__ import annotations

from math import log1p, sqrt

import numpy as np

from rebalance.compiled import compiled
from rebalance.planners.gedik.readj_search import Exchange, Keys, Score, Situation
from rebalance.planners.gedik.table import UTILITIES
from rebalance.planning.exact import TOLERANCE
from rebalance.planning.exact_kernel import clearly_less
from rebalance.planning.model import Floats, Indices, Mask

_BTM = UTILITIES.index("BTM")


@compiled
def best_exchange(keys: Keys, now: Situation, score: Score) -> Exchange:
    """The largest gain among the exchanges that lower ρ; d1 = -1 if there is none.

    Candidates come in the order of ties: rank of the more frequent key, channel it goes to, the move, rank of the other key.
    """
    frequency, weight, undivided, in_order, old, state, size = keys
    channel, free, members, first, load, total, high, low, rest_low, rest_high, at_least, at_most = now
    column, allowed, kind, ideal, budget, rho, utility, moved, spent = score
    columns, channels = load.shape
    high_then, low_then, total_then = np.empty(columns), np.empty(columns), np.empty(columns)
    best_1, best_2, best_i, best_j, most, most_apart = -1, -1, -1, -1, 0.0, 0.0
    # Where the members of each channel begin that are less frequent than d1: a swap is looked at from its more frequent key.
    begins = first[:-1].copy()
    for d1 in range(len(channel)):
        i = int(channel[d1])
        begins[i] += 1
        if not free[d1]:
            continue
        for j in range(channels):
            begin, end = fitting(
                undivided, in_order, at_least[:, i, j], at_most[:, i, j], members, d1, begins[j], first[j + 1]
            )
            if begin < 0:
                continue
            moved_1 = moved + toll(old[d1], i, j, state[d1])
            spent_1 = toll(old[d1], i, j, size[d1])
            for at in range(begin - 1, end):
                d2, apart, moved_then, more = -1, frequency[d1], moved_1, spent_1
                if at >= begin:  # the first one stands for the move, which is a swap with no key
                    d2 = int(members[at])
                    apart -= frequency[d2]
                    moved_then += toll(old[d2], j, i, state[d2])
                    more += toll(old[d2], j, i, size[d2])
                    if apart == 0.0 or not free[d2]:
                        continue
                hopeful = False
                for c in range(columns):
                    out, into = weight[c, d1, i], weight[c, d1, j]
                    if d2 >= 0:
                        out -= weight[c, d2, i]
                        into -= weight[c, d2, j]
                    load_i, load_j = load[c, i] - out, load[c, j] + into
                    high_then[c] = max(rest_high[c, i, j], load_i, load_j)
                    low_then[c] = min(rest_low[c, i, j], load_i, load_j)
                    total_then[c] = total[c] - out + into
                    hopeful = hopeful or total_then[c] > total[c]
                    hopeful = hopeful or may_be_lower(
                        kind, high_then[c], low_then[c], high[c], low[c], total[c] / channels
                    )
                if not hopeful or (more > 0.0 and spent + more > budget):
                    continue
                product = 1.0
                for k in range(len(allowed)):
                    c = int(column[k])
                    product *= balance_penalty(kind, high_then[c], low_then[c], allowed[k], total_then[c] / channels)
                rho_then = geometric_mean(product, len(allowed))
                if not clearly_less(rho_then, rho):
                    continue
                better = utility - total_utility(kind, ideal, rho_then, moved_then)
                if best_1 < 0 or gains_more(better, apart, most, most_apart, utility):
                    best_1, best_2, best_i, best_j, most, most_apart = d1, d2, i, j, better, apart
    return Exchange(best_1, best_2, best_i, best_j)


@compiled
def gains_more(better: float, apart: float, most: float, most_apart: float, utility: float) -> bool:
    """Whether the gain better/apart is clearly above most/most_apart: `better` and `most` are known to within the tolerance, a share of U_now."""
    return bool(better * most_apart - most * apart > TOLERANCE * utility * max(apart, most_apart))


@compiled
def fitting(
    weight: Floats, in_order: Mask, at_least: Floats, at_most: Floats, members: Indices, d1: int, begin: int, end: int
) -> tuple[int, int]:
    """The members from `begin` on that hold every d2 which lowers the spread of some column; -1 if not even a move can."""
    low, high = -1, -1
    for c in range(len(weight)):
        if at_least[c] >= at_most[c]:
            continue
        if not in_order[c]:
            return begin, end
        heavy = lighter(weight, c, members, weight[c, d1] - at_least[c], begin, end)
        light = lighter(weight, c, members, weight[c, d1] - at_most[c], begin, end)
        low = heavy if low < 0 else min(low, heavy)
        high = max(high, light)
    return low, high


@compiled
def lighter(weight: Floats, c: int, members: Indices, limit: float, begin: int, end: int) -> int:
    """The first member from `begin` on that weighs less than the limit, by bisection."""
    while begin < end:
        middle = (begin + end) // 2
        if weight[c, members[middle]] >= limit:
            begin = middle + 1
        else:
            end = middle
    return begin


@compiled
def toll(old: int, a: int, b: int, amount: float) -> float:
    """What a key going from a to b adds to the migration: going back where it was gives back what leaving cost."""
    if old == a:
        return amount
    return -amount if old == b else 0.0


@compiled
def may_be_lower(kind: int, high_then: float, low_then: float, high: float, low: float, mean: float) -> bool:
    """Whether the spread, or the ratio for BTM, is lower than now, with the same mean."""
    if kind == _BTM:
        return high_then * max(low, TOLERANCE * mean) < high * max(low_then, TOLERANCE * mean)
    return high_then - low_then < high - low


@compiled
def balance_penalty(kind: int, high: float, low: float, allowed: float, mean: float) -> float:
    """ρ_k or b_k, as in `table`."""
    if kind == _BTM:
        return (high / max(low, TOLERANCE * mean) if high > 0.0 else 1.0) / allowed
    least = TOLERANCE / allowed
    return max((high - low) / (allowed * mean), least) if allowed * mean > 0.0 else least


@compiled
def geometric_mean(product: float, factors: int) -> float:
    """The root of a product of up to three factors."""
    if factors == 1:
        return product
    return sqrt(product) if factors == 2 else np.cbrt(product)


@compiled
def total_utility(kind: int, ideal: float, rho: float, moved: float) -> float:
    """U, as in `table`."""
    gamma = moved / ideal if ideal > 0.0 else 0.0
    if kind == 0:
        return rho
    if kind == 1:
        return rho + gamma
    if kind == 2:
        return rho + log1p(gamma)
    if kind in (3, _BTM):
        return rho * (1.0 + gamma)
    return rho * (1.0 + log1p(gamma))
