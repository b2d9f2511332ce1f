"""readj between two steps: where the keys are, what each two channels could reach. Read `base` and `readj` first.

What makes the search for the best step (`readj_kernel`) fast without changing a single choice:

- The largest and smallest load after an exchange between channels i and j follow from the three outermost channels on either side.
- A step can lower ρ only if it lowers some resource's spread, so the load that d1 takes from i to j, less what d2 brings back,
  lies in an interval that depends on i and j alone. With equal capacities it is empty unless one of the two is an outermost
  channel. In decreasing f the keys d2 of j that fit are neighbours, found by bisection.
- A root or a division is spent only on an exchange that does lower some resource's spread.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rebalance.planners.gedik.table import TINY, UTILITIES, Problem
from rebalance.planning.exact import TOLERANCE
from rebalance.planning.model import Floats, Indices, Ints, Mask


class Keys(NamedTuple):
    """What does not change while readj searches; over the tracked keys in decreasing f."""

    frequency: Floats
    #: β of each column, key and channel, divided by the channel's capacity; then not divided.
    weight: Floats
    undivided: Floats
    #: Whether β of a column falls with the frequency.
    in_order: Mask
    old: Ints
    state: Floats
    size: Floats


class Situation(NamedTuple):
    """Where the keys are. First axis of loads and intervals: columns; then channels, or pairs of them."""

    channel: Ints
    #: Keys that may move.
    free: Mask
    #: Keys by channel, in decreasing f, and where each channel begins.
    members: Indices
    begins: Indices
    load: Floats
    total: Floats
    #: Largest and smallest load; then smallest and largest load of the channels other than the two.
    high: Floats
    low: Floats
    rest_low: Floats
    rest_high: Floats
    #: Only a load between these, taken from the first to the second channel, can lower the spread, or the ratio for BTM.
    at_least: Floats
    at_most: Floats


class Score(NamedTuple):
    """What penalties and utility of an exchange are computed from."""

    column: Indices
    allowed: Floats
    #: Position in UTILITIES.
    kind: int
    ideal: float
    budget: float
    rho: float
    utility: float
    moved: float
    spent: float


class Exchange(NamedTuple):
    """d1 goes from i to j, d2 (-1: none) from j to i."""

    d1: int
    d2: int
    i: int
    j: int


class Search:
    """At first the tracked keys are where they were, those of channels that are gone at h_new."""

    def __init__(self, problem: Problem, limit: int) -> None:
        columns, _, channels = problem.weight.shape
        self.problem = problem
        self.channel = np.where(problem.old >= 0, problem.old, problem.home).astype(np.int32)
        self.steps_left = np.where(problem.fixed, 0, limit)
        self.moved = problem.moved + float(problem.state[problem.old < 0].sum())
        self.spent = problem.spent
        self.load = problem.load.copy()
        for c in range(columns):
            weight = problem.weight[c, np.arange(len(self.channel)), self.channel]
            self.load[c] += np.bincount(self.channel, weights=weight, minlength=channels)
        undivided = problem.weight[:, :, 0] * problem.capacity[0]
        self.keys = Keys(
            frequency=problem.frequency,
            weight=problem.weight,
            undivided=undivided,
            in_order=(np.diff(undivided, axis=1) <= 0.0).all(axis=1),
            old=problem.old,
            state=problem.state,
            size=problem.size,
        )
        here = np.arange(channels)
        self.same_channel = here[:, None] == here
        # Intervals are widened by that much for their own rounding: they only have to hold every step that counts.
        everything = undivided.sum(axis=1) + (problem.load * problem.capacity).sum(axis=1)
        self.slack = TOLERANCE * everything[:, None, None]

    def best_step(self) -> Exchange | None:
        """The exchange with the largest gain among those that lower ρ; None if there is none."""
        from rebalance.planners.gedik.readj_kernel import best_exchange

        now = self.situation()
        best = best_exchange(self.keys, now, self.score(now))
        return best if best.d1 >= 0 else None

    def take(self, step: Exchange) -> None:
        """Carry the step out."""
        problem = self.problem
        for d, a, b in ((step.d1, step.i, step.j), (step.d2, step.j, step.i)):
            if d >= 0:
                self.load[:, a] -= problem.weight[:, d, a]
                self.load[:, b] += problem.weight[:, d, b]
                way = int(problem.old[d] == a) - int(problem.old[d] == b)
                self.moved += way * float(problem.state[d])
                self.spent += way * float(problem.size[d])
                self.channel[d] = b
                self.steps_left[d] -= 1

    def situation(self) -> Situation:
        """Loads, and what each two channels could reach."""
        order = self.load.argsort(axis=1, kind="stable")
        ordered = np.take_along_axis(self.load, order, axis=1)
        none = np.full((len(self.load), 1), np.inf)
        total, low, high = self.load.sum(axis=1), ordered[:, 0], ordered[:, -1]
        rest_low = self.rest(order, np.concatenate([ordered, none], axis=1))
        rest_high = self.rest(order[:, ::-1], np.concatenate([ordered[:, ::-1], -none], axis=1))
        if self.problem.utility == "BTM":
            at_least, at_most = self.ratio_intervals(total, high, low, rest_low, rest_high)
        else:
            at_least, at_most = self.intervals(total, high - low, rest_low, rest_high)
        members = self.channel.argsort(kind="stable")
        return Situation(
            channel=self.channel,
            free=self.steps_left > 0,
            members=members,
            begins=np.searchsorted(self.channel[members], np.arange(len(self.same_channel) + 1)),
            load=self.load,
            total=total,
            high=high,
            low=low,
            rest_low=rest_low,
            rest_high=rest_high,
            at_least=at_least,
            at_most=at_most,
        )

    def score(self, now: Situation) -> Score:
        """ρ and U as they are now, and how to compute others."""
        problem = self.problem
        rho = problem.balance_penalty(now.high, now.low, now.total)
        return Score(
            column=np.array(problem.column),
            allowed=np.array(problem.allowed),
            kind=UTILITIES.index(problem.utility),
            ideal=problem.ideal,
            budget=problem.budget,
            rho=float(rho),
            utility=float(problem.total_utility(rho, self.moved)),
            moved=self.moved,
            spent=self.spent,
        )

    def rest(self, order: Indices, ordered: Floats) -> Floats:
        """For each two channels the first load, in this order, on another one."""
        here = np.arange(len(self.same_channel))
        first, second = (
            (here[:, None] == at[:, None, None]) | (here == at[:, None, None]) for at in (order[:, 0], order[:, 1])
        )
        loads = ordered[:, :3, None, None]
        return np.where(first, np.where(second, loads[:, 2], loads[:, 1]), loads[:, 0])

    def intervals(self, total: Floats, spread: Floats, rest_low: Floats, rest_high: Floats) -> tuple[Floats, Floats]:
        """For each two channels the load that may go from the first to the second if the spread is to be lower.

        All of load_i - x/cap_i, load_j + x/cap_j and the other loads have to be less than the old spread apart.
        """
        cap_i, cap_j = self.problem.capacity[:, None], self.problem.capacity
        load_i, load_j = self.load[:, :, None], self.load[:, None, :]
        # A key weighs more on a smaller channel: between unequal ones the mean load can grow, and the spread with it.
        both = (load_i * cap_i + load_j * cap_j) / np.minimum(cap_i, cap_j)
        growth = np.where(cap_i == cap_j, 0.0, np.maximum(both - load_i - load_j, 0.0))
        limit = spread[:, None, None] * (1.0 + growth / np.where(total > 0.0, total, 1.0)[:, None, None])
        apart, both_ways = load_i - load_j, 1.0 / cap_i + 1.0 / cap_j
        at_least = np.maximum((load_i - rest_low - limit) * cap_i, (rest_high - load_j - limit) * cap_j)
        at_least = np.maximum(at_least, (apart - limit) / both_ways)
        at_most = np.minimum((load_i - rest_high + limit) * cap_i, (rest_low - load_j + limit) * cap_j)
        at_most = np.minimum(at_most, (apart + limit) / both_ways)
        hopeless = self.same_channel | ((growth == 0.0) & (rest_high - rest_low >= limit))
        return at_least - self.slack, np.where(hopeless, -np.inf, at_most + self.slack)

    def ratio_intervals(
        self, total: Floats, high: Floats, low: Floats, rest_low: Floats, rest_high: Floats
    ) -> tuple[Floats, Floats]:
        """The same where the ratio of the largest to the smallest load is to be lower.

        Each of load_i - x/cap_i, load_j + x/cap_j and the other loads has to be less than the old ratio times each other one.
        """
        cap_i, cap_j = self.problem.capacity[:, None], self.problem.capacity
        load_i, load_j = self.load[:, :, None], self.load[:, None, :]
        least = np.maximum(np.maximum(low, TOLERANCE * (total / len(cap_j))), TINY)
        ratio = np.maximum(high / least, 1.0)[:, None, None]
        at_least = np.maximum((load_i - ratio * rest_low) * cap_i, (rest_high / ratio - load_j) * cap_j)
        at_least = np.maximum(at_least, (load_i - ratio * load_j) / (1.0 / cap_i + ratio / cap_j))
        at_most = np.minimum((ratio * rest_low - load_j) * cap_j, (load_i - rest_high / ratio) * cap_i)
        at_most = np.minimum(at_most, (ratio * load_i - load_j) / (1.0 / cap_j + ratio / cap_i))
        hopeless = self.same_channel | (rest_high >= ratio * rest_low)
        at_most = np.where(hopeless, -np.inf, at_most + self.slack)
        # A channel with next to nothing counts as having a little more, so anything may help.
        open_to_all = (ratio > 0.5 / TOLERANCE) & ~self.same_channel
        return np.where(open_to_all, -np.inf, at_least - self.slack), np.where(open_to_all, np.inf, at_most)
