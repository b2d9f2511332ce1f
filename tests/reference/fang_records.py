"""The same algorithms over compact records, (d', d, d_h, v_c, v_S, #) with # keys each, one key at a time where that is plainer.

A placement is a multiset: how many keys of which record are on which channel.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from rebalance.planning.exact import power, rounded


@dataclass
class Row:
    planned: int
    current: int
    home: int
    cost: int
    state: int
    count: int
    movable: bool = True
    #: The row it was split from, or itself.
    origin: int = 0


@dataclass
class Problem:
    rows: list[Row]
    capacity: list[int]
    theta_max: Fraction
    max_routes: int
    excluded: set[int]

    @property
    def open(self) -> list[int]:
        return [d for d in range(len(self.capacity)) if d not in self.excluded]

    def l_max(self, d: int) -> Fraction:
        total = sum(row.cost * row.count for row in self.rows)
        return (1 + self.theta_max) * Fraction(total * self.capacity[d], sum(self.capacity[e] for e in self.open))

    def gamma(self, beta: float) -> list[float]:
        cost, state = np.array([r.cost for r in self.rows], float), np.array([r.state for r in self.rows], float)
        return rounded(power(cost, beta) / np.maximum(state, 1.0)).tolist()


Counts = Counter[tuple[int, int]]


class Placing:
    """Which keys are where while LLFD runs."""

    def __init__(self, p: Problem, psi: list[float]) -> None:
        self.p, self.rows, self.psi = p, p.rows, psi
        self.on: dict[int, Counter[int]] = {d: Counter() for d in range(len(p.capacity))}  # there from the start
        self.placed: dict[int, Counter[int]] = {d: Counter() for d in range(len(p.capacity))}
        self.waiting: Counter[int] = Counter()
        for i, row in enumerate(p.rows):
            if row.planned in p.excluded and row.movable:
                self.waiting[i] += row.count
            else:
                self.on[row.planned][i] = row.count

    def load(self, d: int) -> int:
        return sum(self.rows[i].cost * n for i, n in (self.on[d] + self.placed[d]).items())

    def ascending(self) -> list[int]:
        return sorted(self.p.open, key=lambda d: (Fraction(self.load(d), self.p.capacity[d]), d))

    def cheaper(self, d: int, than: float) -> list[int]:
        """Rows with keys on d that may be pushed out, in the order ψ."""
        there = [i for i, n in self.on[d].items() if n and self.rows[i].movable and 0 < self.rows[i].cost < than]
        return sorted(there, key=lambda i: (-self.psi[i], i))

    def push_out(self, d: int, than: float, room: int) -> None:
        """Take keys off d, one after the other, until there is that much room."""
        while self.load(d) + room > self.p.l_max(d) and (out := self.cheaper(d, than)):
            self.on[d][out[0]] -= 1
            self.waiting[out[0]] += 1

    def fitting(self, d: int, c: int, left: int) -> int:
        """How many of the left keys of cost c fit on d: as it is, or else by exchange."""
        exchangeable = sum(self.rows[i].cost * self.on[d][i] for i in self.cheaper(d, c))
        for load in (self.load(d), self.load(d) - exchangeable):
            fit = [m for m in range(1, left + 1) if load + m * c <= self.p.l_max(d)]
            if fit:
                return fit[-1]
        return 0

    def assign(self, i: int, left: int) -> int:
        """Place keys of row i, as many at a time as fit; returns how many were refused."""
        c, refused = self.rows[i].cost, 0
        while left:
            d, m = next(((d, m) for d in self.ascending() if (m := self.fitting(d, c, left))), (-1, 1))
            if d >= 0:
                self.push_out(d, c, m * c)
            else:
                refused += 1
                d = min(self.p.open, key=lambda d: (Fraction(self.load(d) + c, self.p.capacity[d]), d))
            self.placed[d][i] += m
            left -= m
        return refused


def llfd(p: Problem, psi: list[float]) -> tuple[Counts, int]:
    """{(row, channel): keys} and how many keys were refused."""
    placing, refused = Placing(p, psi), 0
    for d in p.open:
        placing.push_out(d, float("inf"), 0)
    while waiting := +placing.waiting:
        i = min(waiting, key=lambda i: (-p.rows[i].cost, i))
        refused += placing.assign(i, placing.waiting.pop(i))
    return Counter({(i, d): n for d in placing.on for i, n in (placing.on[d] + placing.placed[d]).items()}), refused


def cleaned(p: Problem, n: int) -> Problem:
    """The n routed keys with the smallest state go home."""
    rows = [replace(row) for row in p.rows]
    away = [i for i, row in enumerate(rows) if row.movable and row.planned != row.home]
    for i in sorted(away, key=lambda i: (rows[i].state, i)):
        back = min(n, rows[i].count)
        n -= back
        if back == rows[i].count:
            rows[i].planned = rows[i].home
        elif back:
            rows.append(replace(rows[i], planned=rows[i].home, count=back))
            rows[i].count -= back
    return replace(p, rows=rows)


def table(p: Problem, result: Counts) -> int:
    return sum(n for (i, d), n in result.items() if p.rows[i].home != d)


def by_origin(p: Problem, result: Counts) -> Counts:
    total: Counts = Counter()
    for (i, d), n in result.items():
        total[p.rows[i].origin, d] += n
    return total


def plan(p: Problem, name: str, beta: float = 1.5) -> tuple[Counts, int]:
    """What the planner of that name makes of the records."""
    costs = [float(row.cost) for row in p.rows]
    size_of_a = sum(row.count for row in p.rows if row.movable and row.planned != row.home)
    if name == "llfd":
        return llfd(p, costs)
    if name == "mintable":
        p = cleaned(p, size_of_a)
        return llfd(p, [float(row.cost) for row in p.rows])
    if name == "minmig":
        return llfd(p, p.gamma(beta))

    def trial(n: int) -> tuple[Counts, int, int]:
        q = cleaned(p, n)
        result, refused = llfd(q, q.gamma(beta))
        return by_origin(q, result), refused, table(q, result)

    if name == "mixed":
        n, tried = 0, []
        while True:
            result, refused, size = trial(n)
            tried.append((size, len(tried), (result, refused)))
            if size <= p.max_routes:
                return result, refused
            if n == size_of_a:
                return min(tried)[2]
            n = min(size_of_a, n + size - p.max_routes)

    def merit(n: int) -> tuple[int, bool, int, int, int]:
        result, refused, size = trial(n)
        moved = sum(m * p.rows[i].state for (i, d), m in result.items() if d != p.rows[i].current)
        return max(0, size - p.max_routes), refused > 0, moved, size, n

    return trial(min(range(size_of_a + 1), key=merit))[:2]
