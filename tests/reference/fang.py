"""LLFD, MinTable, MinMig, Mixed, MixedBF and HLHE, word for word and without a thought for speed.

Exact fractions, so no rounding: what the planners do within a tolerance is done here exactly. γ alone is no fraction: it is rounded as the
planners round it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from rebalance.planning.exact import clearly_less, power, rounded

Assignment = dict[int, int]
Psi = Callable[[int], tuple[float, int]]


@dataclass
class Problem:
    """Keys 0, 1, 2, … with whole-number costs; `current` is F, `home` is h, A is where they differ."""

    cost: list[int]
    state: list[int]
    home: list[int]
    current: list[int]
    capacity: list[int]
    theta_max: Fraction
    max_routes: int = 10**9
    pinned: set[int] = field(default_factory=set)
    excluded: set[int] = field(default_factory=set)

    @property
    def keys(self) -> range:
        return range(len(self.cost))

    @property
    def open(self) -> list[int]:
        return [d for d in range(len(self.capacity)) if d not in self.excluded]

    def fair(self, d: int) -> Fraction:
        return Fraction(sum(self.cost) * self.capacity[d], sum(self.capacity[e] for e in self.open))

    def l_max(self, d: int) -> Fraction:
        return (1 + self.theta_max) * self.fair(d)

    def load(self, where: Assignment, d: int) -> int:
        return sum(self.cost[k] for k in where if where[k] == d)

    def movable(self, k: int) -> bool:
        return k not in self.pinned or self.current[k] >= len(self.capacity)

    def start(self) -> Assignment:
        """F, but keys of channels that vanished or must end empty are at home."""
        where = {}
        for k in self.keys:
            gone = self.current[k] >= len(self.capacity) or (self.current[k] in self.excluded and k not in self.pinned)
            where[k] = self.home[k] if gone else self.current[k]
        return where

    def routed(self, where: Assignment) -> list[int]:
        return [k for k in self.keys if where[k] != self.home[k]]

    def migration(self, where: Assignment) -> int:
        return sum(self.state[k] for k in self.keys if where[k] != self.current[k])


@dataclass
class Outcome:
    where: Assignment
    refused: int


def largest_cost(p: Problem) -> Psi:
    return lambda k: (-p.cost[k], k)


def largest_gamma(p: Problem, beta: float) -> Psi:
    gamma = rounded(power(np.array(p.cost, dtype=float), beta) / np.maximum(np.array(p.state, dtype=float), 1.0))
    return lambda k: (-gamma[k], k)


def phase_two(p: Problem, where: Assignment, psi: Psi) -> set[int]:
    """Take keys from overloaded channels until they are not; they leave `where` and are the candidates."""
    candidates = {k for k in where if where[k] in p.excluded and p.movable(k)}
    for k in candidates:
        del where[k]
    for d in p.open:
        for k in sorted((k for k in where if where[k] == d and p.movable(k) and p.cost[k] > 0), key=psi):
            if p.load(where, d) <= p.l_max(d):
                break
            del where[k]
            candidates.add(k)
    return candidates


def adjust(p: Problem, where: Assignment, k: int, d: int, psi: Psi) -> list[int] | None:
    """The exchange set that lets k in on d, empty if it just fits; None to refuse."""
    exchange: list[int] = []
    over = p.load(where, d) + p.cost[k] - p.l_max(d)
    for out in sorted((o for o in where if where[o] == d and p.movable(o) and p.cost[o] < p.cost[k]), key=psi):
        if over <= 0:
            break
        exchange.append(out)
        over -= p.cost[out]
    return exchange if over <= 0 else None


def llfd(p: Problem, where: Assignment, psi: Psi) -> Outcome:
    """Phases II and III."""
    where = dict(where)
    candidates = phase_two(p, where, psi)
    refused = 0
    while candidates:
        k = min(candidates, key=lambda k: (-p.cost[k], k))
        candidates.remove(k)
        for d in sorted(p.open, key=lambda d: (Fraction(p.load(where, d), p.capacity[d]), d)):
            exchange = adjust(p, where, k, d, psi)
            if exchange is not None:
                for out in exchange:
                    del where[out]
                candidates |= set(exchange)
                where[k] = d
                break
        else:
            refused += 1
            where[k] = min(p.open, key=lambda d: (Fraction(p.load(where, d) + p.cost[k], p.capacity[d]), d))
    return Outcome(where, refused)


def llfd_alone(p: Problem) -> Outcome:
    return llfd(p, p.start(), largest_cost(p))


def mintable(p: Problem) -> Outcome:
    where = p.start()
    for k in p.routed(where):
        if p.movable(k):
            where[k] = p.home[k]
    return llfd(p, where, largest_cost(p))


def minmig(p: Problem, beta: float) -> Outcome:
    return llfd(p, p.start(), largest_gamma(p, beta))


def mixed_with(p: Problem, beta: float, n: int) -> Outcome:
    where = p.start()
    a = [k for k in p.routed(where) if p.movable(k)]
    for k in sorted(a, key=lambda k: (p.state[k], k))[:n]:
        where[k] = p.home[k]
    return llfd(p, where, largest_gamma(p, beta))


def mixed(p: Problem, beta: float) -> Outcome:
    size_of_a = sum(p.movable(k) for k in p.routed(p.start()))
    n, tried = 0, []
    while True:
        outcome = mixed_with(p, beta, n)
        table = len(p.routed(outcome.where))
        if table <= p.max_routes:
            return outcome
        tried.append((table, len(tried), outcome))
        if n == size_of_a:
            return min(tried)[2]
        n = min(size_of_a, n + (table - p.max_routes))


def mixedbf(p: Problem, beta: float) -> Outcome:
    size_of_a = sum(p.movable(k) for k in p.routed(p.start()))

    def merit(n: int) -> tuple[int, bool, int, int, int]:
        outcome = mixed_with(p, beta, n)
        table = len(p.routed(outcome.where))
        return max(0, table - p.max_routes), outcome.refused > 0, p.migration(outcome.where), table, n

    return mixed_with(p, beta, min(range(size_of_a + 1), key=merit))


def hlhe(values: list[float], r: int) -> list[float]:
    """φ of each value, in the given order of values; they must be positive, the smallest counts as 1."""
    unit = min(values)
    big_r = 2**r
    x = sorted((-value / unit, i) for i, value in enumerate(values))
    s = max(1, int(-x[0][0] // big_r))
    representatives = [j * big_r for j in range(s, 0, -1)] + [2**e for e in range(r - 1, -1, -1)]
    phi = [0.0] * len(values)
    delta = 0.0
    for minus, i in x:
        value = -minus
        if value >= representatives[0]:
            chosen = representatives[0]
        else:
            lower = max(y for y in representatives if y <= value)
            upper = min(y for y in representatives if y > value)
            chosen = upper if clearly_less(abs(delta + value - upper), abs(delta + value - lower)) else lower
        delta += value - chosen
        phi[i] = chosen * unit
    return phi
