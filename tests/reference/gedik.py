"""scan, redist and readj as the paper states them, to be read beside it: plain lists, every candidate tried, no shortcut.

Gedik, "Partitioning functions for stateful data parallelism in stream processing", VLDB Journal 23(4), 2014. Numbers of
equations and algorithms are his. The planners must place every key exactly as these functions do. Numbers that are equal but for rounding
tie by the rule of `rebalance.planning.exact`, as in the planners.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt

import numpy as np

from rebalance.planning.exact import TOLERANCE, clearly_less, first_least

LEAST_THETA = 1e-6


@dataclass
class Case:
    """One period: keys with g tuples each, where they are, where h_new sends them, and what is asked."""

    tuples: list[float]
    current: list[int]
    home: list[int]
    capacity: list[float]
    cost: list[float]
    state: list[float]
    resources: str = "LCL"
    alpha: float = 1.2
    sigma: float = 0.1
    utility: str = "APM"
    c: int = 5
    pinned: set[int] = field(default_factory=set)
    excluded: set[int] = field(default_factory=set)
    max_routes: int = 3000
    max_bytes: float = float("inf")
    #: D_p of the period before.
    tracked_before: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.keys = range(len(self.tuples))
        self.channels = [i for i in range(len(self.capacity)) if i not in self.excluded]
        self.n = len(self.channels)
        self.stays = {d for d in self.pinned if self.current[d] < len(self.capacity)}

    def beta(self, k: int, d: int) -> float:
        """β_k(f(d)) with f counted in tuples: every penalty is a ratio."""
        letter = self.resources[k]
        if letter == "M":
            return (self.state, self.cost)[k][d]
        return {"C": 1.0, "L": self.tuples[d], "Q": self.tuples[d] ** 2}[letter]


# Which keys are tracked: equations 14 to 17


def theta(case: Case) -> float:
    """Equation 15."""
    return max((case.alpha - 1) / (1 + case.alpha / (case.n - 1)), LEAST_THETA)


def delta(case: Case) -> float:
    """Equation 17, with the second look for quadratic resources."""
    total = sum(case.tuples)
    f = [g / total for g in case.tuples]
    share = case.sigma * theta(case)

    def least(quadratic: float) -> float:
        return min({"C": 1.0, "L": share / case.n, "Q": quadratic, "M": 1.0}[letter] for letter in case.resources)

    first = least(sqrt(share / (len(f) * case.n)))
    if "Q" not in case.resources:
        return first
    found = [x for x in f if not clearly_less(x, first)]
    rest = len(f) - len(found)
    load = sum(x**2 for x in found)
    if rest:
        load += rest * (max(1 - sum(found), 0.0) / rest) ** 2
    return least(sqrt(share * (load / case.n)))


def tracked(case: Case) -> list[int]:
    """D_p in decreasing f, then ascending key; at most max_routes keys besides the pinned ones."""
    total = sum(case.tuples)
    if case.n == 1 or total == 0:
        return []
    threshold = delta(case)
    chosen = {d for d in case.keys if not clearly_less(case.tuples[d] / total, threshold)}
    for k in (0, 1):
        if case.resources[k] == "M":
            column = [case.beta(k, d) for d in case.keys]
            heavy = case.sigma * theta(case) * (sum(column) / case.n)
            chosen |= {d for d in case.keys if clearly_less(heavy, column[d]) and case.tuples[d] > 0}
    chosen -= {d for d in case.stays if case.current[d] in case.excluded}
    ranked = sorted(chosen, key=lambda d: (-case.tuples[d], d))
    room = max(case.max_routes - sum(case.current[d] != case.home[d] for d in case.stays), 0)
    free = [d for d in ranked if d not in case.stays][:room]
    return [d for d in ranked if d in case.stays or d in free]


# Penalties and utilities: equations 18 to 20, section 4.3; the objective of section 3.4: equations 9 to 13


class Table:
    """A partially built explicit table: loads and moved state of what is placed; for BTM also of all keys that no table places."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.varying = [k for k in range(3) if case.resources[k] != "C"]
        self.different = [2] if all(case.resources[k] == "L" for k in self.varying) else self.varying
        self.objective = case.utility == "BTM"
        if self.objective:
            self.varying = self.different = [0, 1, 2]
        self.keys = tracked(case)
        self.place: dict[int, int] = {}
        self.load = {k: dict.fromkeys(case.channels, 0.0) for k in self.varying}
        self.steps = dict.fromkeys(self.keys, 0)
        leaving = [
            d for d in case.keys if d not in self.keys and d not in case.stays and case.current[d] != case.home[d]
        ]
        gone = [d for d in self.keys if case.current[d] not in case.channels]
        self.bytes = sum(case.state[d] for d in [*leaving, *gone])
        if self.objective:
            self.count_all(leaving)
            return
        # Equation 18: D_o were tracked and are no more, D_a were or are.
        self.moved = sum(case.beta(0, d) for d in case.tracked_before - set(self.keys) if d in leaving)
        self.ideal = sum(case.beta(0, d) for d in case.tracked_before | set(self.keys)) / max(case.n, 1)

    def count_all(self, leaving: list[int]) -> None:
        """Equations 9, 10 and 12, and the loads of 1, 3 and 5, of the keys that are not tracked."""
        case = self.case
        self.moved = sum(case.beta(0, d) for d in leaving)
        self.ideal = sum(case.beta(0, d) for d in case.keys) / case.n
        for d in case.keys:
            i = case.current[d] if d in case.stays else case.home[d]
            if d not in self.keys and i in case.channels:
                for k in range(3):
                    self.load[k][i] += case.beta(k, d) / case.capacity[i]

    def old(self, d: int) -> int:
        """p_old(d), or -1 if that channel is not there any more."""
        return self.case.current[d] if self.case.current[d] in self.case.channels else -1

    def put(self, d: int, i: int) -> None:
        """Add the mapping d ⇒ i."""
        self.place[d] = i
        for k in self.varying:
            self.load[k][i] += self.case.beta(k, d) / self.case.capacity[i]
        if self.old(d) != i:
            self.moved += self.case.beta(0, d)
            self.bytes += self.case.state[d] if self.old(d) >= 0 else 0

    def take(self, d: int) -> None:
        """Remove the mapping of d."""
        i = self.place.pop(d)
        for k in self.varying:
            self.load[k][i] -= self.case.beta(k, d) / self.case.capacity[i]
        if self.old(d) != i:
            self.moved -= self.case.beta(0, d)
            self.bytes -= self.case.state[d] if self.old(d) >= 0 else 0

    def rho(self) -> float:
        """Equations 19 and 20, or 11."""
        if self.objective:
            return self.b()
        product = 1.0
        for k in self.different:
            loads = self.load[k].values()
            mean = sum(loads) / self.case.n
            penalty = (max(loads) - min(loads)) / (theta(self.case) * mean) if mean > 0 else 0.0
            product *= max(penalty, TOLERANCE / theta(self.case))
        # The geometric mean of equal numbers is that number.
        return {1: product, 2: sqrt(product), 3: float(np.cbrt(product))}[len(self.different)]

    def b(self) -> float:
        """Equations 2, 4, 6 and 11; a channel with nothing counts as one with the tolerance's share of the mean."""
        product = 1.0
        for k in range(3):
            loads = self.load[k].values()
            most, least = max(loads), max(min(loads), TOLERANCE * sum(loads) / self.case.n)
            product *= (most / least if most > 0 else 1.0) / self.case.alpha
        return float(np.cbrt(product))

    def gamma(self) -> float:
        """Equation 18, or 12."""
        return self.moved / self.ideal if self.ideal > 0 else 0.0

    def utility(self) -> float:
        """Section 4.3, or equation 13."""
        rho, gamma = self.rho(), self.gamma()
        if self.case.utility == "A":
            return rho
        if self.case.utility == "APM":
            return rho + gamma
        if self.case.utility == "APLM":
            return rho + float(np.log1p(gamma))
        if self.case.utility in ("ATM", "BTM"):
            return rho * (1 + gamma)
        return rho * (1 + float(np.log1p(gamma)))

    def affordable(self, d: int, i: int) -> bool:
        """Whether d may go to i within max_bytes; a key that has to leave anyway may."""
        return self.old(d) in (-1, i) or self.bytes + self.case.state[d] <= self.case.max_bytes

    def utility_with(self, d: int, i: int) -> float:
        """U of the table with d ⇒ i added."""
        self.put(d, i)
        utility = self.utility()
        self.take(d)
        return utility

    def result(self) -> list[int]:
        """Channel of every key: tracked ones by the table, pinned ones where they are, all others by h_new."""
        rest = [self.case.current[d] if d in self.case.stays else self.case.home[d] for d in self.case.keys]
        return [self.place.get(d, rest[d]) for d in self.case.keys]


def with_pinned(case: Case) -> tuple[Table, list[int]]:
    """The table with the tracked keys that stay, and the tracked keys to be placed."""
    table = Table(case)
    for d in table.keys:
        if d in case.stays:
            table.put(d, case.current[d])
    return table, [d for d in table.keys if d not in case.stays]


# Algorithms 2 to 4


def scan(case: Case) -> list[int]:
    """Algorithm 2."""
    table, to_place = with_pinned(case)
    for d in to_place:
        allowed = [i for i in case.channels if table.affordable(d, i)]
        table.put(d, allowed[first_least([table.utility_with(d, i) for i in allowed])])
    return table.result()


def redist(case: Case) -> list[int]:
    """Algorithm 3."""
    table, to_place = with_pinned(case)
    while to_place:
        allowed = [(d, i) for d in to_place for i in case.channels if table.affordable(d, i)]
        key, j = allowed[first_least([table.utility_with(d, i) / case.tuples[d] for d, i in allowed])]
        table.put(key, j)
        to_place.remove(key)
    return table.result()


def with_all(case: Case) -> Table:
    """The table with every tracked key where it was; keys of channels that are gone at h_new."""
    table = Table(case)
    for d in table.keys:
        table.put(d, table.old(d) if table.old(d) >= 0 else case.home[d])
    return table


def unadjusted(case: Case) -> list[int]:
    """Where readj starts from."""
    return with_all(case).result()


def readj(case: Case) -> list[int]:
    """Algorithm 4."""
    table = with_all(case)
    while step := best_step(table):
        d1, d2, i, j = step
        exchange(table, d1, d2, i, j)
        for d in (d1, d2):
            if d is not None:
                table.steps[d] += 1
    return table.result()


def exchange(table: Table, d1: int, d2: int | None, i: int, j: int) -> None:
    """Equation 21."""
    for d, to in ((d1, j), (d2, i)):
        if d is not None:
            table.take(d)
            table.put(d, to)


def best_step(table: Table) -> tuple[int, int | None, int, int] | None:
    """The move or swap with the largest gain, in the order of ties."""
    case = table.case
    free = [d for d in table.keys if d not in case.stays and table.steps[d] < case.c]
    if not free:
        return None
    rho_now, u_now, bytes_now = table.rho(), table.utility(), table.bytes
    found, best, best_apart = None, 0.0, 0.0
    for rank, d1 in enumerate(free):
        i = table.place[d1]
        for j in case.channels:
            if j == i:
                continue
            for d2 in [None, *(d for d in free[rank + 1 :] if table.place[d] == j)]:
                apart = case.tuples[d1] - (case.tuples[d2] if d2 is not None else 0.0)
                if apart == 0:
                    continue
                exchange(table, d1, d2, i, j)
                rho_then, u_then, bytes_then = table.rho(), table.utility(), table.bytes
                exchange(table, d1, d2, j, i)
                if not clearly_less(rho_then, rho_now) or bytes_then > max(bytes_now, case.max_bytes):
                    continue
                known_to = TOLERANCE * u_now / min(apart, best_apart or apart)
                if found is None or (u_now - u_then) / apart - best / best_apart > known_to:
                    found, best, best_apart = (d1, d2, i, j), u_now - u_then, apart
    return found
