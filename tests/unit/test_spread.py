"""The splitting schemes: the fluid against tuples that come one by one, and what the papers promise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance.partition import Share
from rebalance.planners.registry import PLANNERS, make_planner
from rebalance.planners.splitting import spread_kernel as kernel
from rebalance.planners.splitting.dchoices import enough_choices
from rebalance.planning.interface import needs_merging
from rebalance.planning.measure import measure
from rebalance.planning.model import Proposal, Request
from tests.reference import spread as reference
from tests.support.budget import cases
from tests.support.strategies import request_of, requests

#: Planners whose whole idea is to split; those that can do without have tests of their own.
SPLITTING = sorted(name for name, planner in PLANNERS.items() if needs_merging(planner))
INSTANCES = cases(100, long=300)


class Instance:
    """A few keys about to come to a few bins that hold something already."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.bins = int(rng.integers(1, 7))
        self.all = np.arange(self.bins, dtype=np.int32)
        self.cost = 100.0 * rng.integers(1, 4, size=int(rng.integers(1, 6)))
        self.slot = rng.integers(0, 50, len(self.cost)).astype(np.int32)
        self.ring = rng.integers(0, self.bins, 50).astype(np.int32)
        self.first = self.ring[self.slot]
        self.load = rng.integers(0, 200, self.bins).astype(float)
        self.choices = rng.integers(2, 5, len(self.cost)).astype(np.int32)
        room = self.cost.sum() + np.maximum(self.load - self.load.mean(), 0).sum() + rng.integers(0, 50)
        self.bound = np.full(self.bins, np.ceil(self.load.mean() + room / self.bins) + 1)
        if self.bins > 1:  # one bin is almost full before anything comes
            full = rng.integers(self.bins)
            self.load[full] = self.bound[full] - rng.integers(0, 4)
            self.bound[np.arange(self.bins) != full] += self.bound[full]
        self.amount = np.zeros((len(self.cost), self.bins))

    @property
    def keys(self) -> kernel.Coming:
        return kernel.Coming(self.cost, self.slot, self.first)

    @property
    def room(self) -> kernel.Bins:
        return kernel.Bins(self.load, self.bound, self.all, self.all)

    def agrees(self, placed: reference.Placed, load: list[float], within: float) -> None:
        """Whether every bin holds what the tuples brought, and every key is where they are."""
        assert np.allclose(self.amount.sum(axis=1), self.cost)
        for parts, where in zip(self.amount, placed, strict=True):
            assert np.abs(parts - [where.get(d, 0) for d in range(self.bins)]).max() <= within
        assert self.load == pytest.approx(load, abs=within)


@pytest.mark.parametrize("seed", range(0, INSTANCES, 50))
def test_the_least_loaded_choice_is_that_of_tuples_coming_one_by_one(seed: int) -> None:
    for i in map(Instance, range(seed, seed + 50)):
        load = i.load.tolist()
        bins = [
            reference.choices_of(s, f, d, i.all.tolist())
            for s, f, d in zip(i.slot.tolist(), i.first.tolist(), i.choices.tolist(), strict=True)
        ]
        placed = reference.least_loaded(load, list(zip(i.cost.astype(int).tolist(), bins, strict=True)))
        kernel.fill_least(i.load, np.ones(i.bins), i.keys, i.choices, i.all, i.amount)
        i.agrees(placed, load, within=len(i.cost) + 1e-6)


@pytest.mark.parametrize("seed", range(0, INSTANCES, 50))
def test_the_first_bin_with_room_is_that_of_tuples_coming_one_by_one(seed: int) -> None:
    for i in map(Instance, range(seed, seed + 50)):
        load = i.load.tolist()
        probes = [
            reference.probes_of_porc(s, f, i.all.tolist())
            for s, f in zip(i.slot.tolist(), i.first.tolist(), strict=True)
        ]
        placed = reference.bounded(load, i.bound.tolist(), list(zip(i.cost.astype(int).tolist(), probes, strict=True)))
        kernel.fill_bounded(i.room, i.keys, i.amount)
        i.agrees(placed, load, within=1e-6)


@pytest.mark.parametrize("seed", range(0, INSTANCES, 50))
def test_the_first_channel_clockwise_with_room_is_that_of_tuples_coming_one_by_one(seed: int) -> None:
    for i in map(Instance, range(seed, seed + 50)):
        load = i.load.tolist()
        probes = [reference.probes_of_ch(s, i.ring.tolist(), i.all.tolist()) for s in i.slot.tolist()]
        placed = reference.bounded(load, i.bound.tolist(), list(zip(i.cost.astype(int).tolist(), probes, strict=True)))
        kernel.fill_clockwise(i.room, i.keys, i.ring, i.amount)
        i.agrees(placed, load, within=1e-6)


def test_two_random_channels_per_tuple_are_those_of_tuples_coming_one_by_one() -> None:
    for i in map(Instance, range(INSTANCES)):
        parts = 8 * i.bins
        i.cost = np.full(len(i.cost), float(parts))
        load = i.load.tolist()
        placed = reference.two_random(load, [(parts, s) for s in i.slot.tolist()], i.all.tolist())
        kernel.fill_pairs(i.load, np.ones(i.bins), i.keys, i.all, i.amount)
        i.agrees(placed, load, within=1e-6)


@given(shares=st.lists(st.floats(0.001, 1), max_size=8), tail=st.floats(0, 3), n=st.integers(1, 30), fine=st.booleans())
def test_d_is_the_least_that_the_papers_inequality_allows(shares: list[float], tail: float, n: int, fine: bool) -> None:
    p = sorted((share / (sum(shares) + tail) for share in shares), reverse=True)
    epsilon = 1e-4 if fine else 0.1
    assert enough_choices(np.array(p), n, epsilon) == reference.enough_choices(p, n, epsilon)


def test_a_key_too_heavy_for_two_channels_gets_more_from_d_choices_than_from_pkg() -> None:
    request = request_of(cost=[60, *[1] * 40], home=[k % 10 for k in range(41)], mergeable=True)
    two = make_planner("pkg").propose(request)
    more = make_planner("dchoices").propose(request)
    assert len(two.splits[0]) == 2
    assert len(more.splits[0]) > 5
    assert skewness(request, more) < 0.5 * skewness(request, two)


@pytest.mark.parametrize("name", ["porc", "ch"])
@pytest.mark.parametrize("epsilon", [0.01, 0.5])
@settings(max_examples=cases(40, long=100))
@given(request=requests(mergeable=True, plain=True))
def test_bounded_schemes_stay_below_their_bound(name: str, epsilon: float, request: Request) -> None:
    proposal = make_planner(name, {"epsilon": epsilon}).propose(request)
    cost, total = request.stats.cost, request.stats.cost.sum()
    loads = measure(request, proposal.channel, splits=proposal.splits).loads
    assert loads.max() <= (1 + epsilon) * total / request.channels * (1 + 1e-9)
    for k in np.flatnonzero(cost).tolist():
        bins = len(proposal.splits.get(k, (Share(0, 1.0),)))
        assert bins >= reference.least_bins(cost[k] / total, request.channels, epsilon)


@pytest.mark.parametrize("name", ["porc", "ch"])
def test_keys_that_fit_at_home_stay_whole_and_only_the_heaviest_spills(name: str) -> None:
    request = request_of(cost=[50, 10, 10, 10, 10, 10], home=[0, 0, 1, 1, 2, 2], mergeable=True)
    proposal = make_planner(name).propose(request)
    assert set(proposal.splits) == {0}
    assert proposal.channel.tolist() == [0, 0, 1, 1, 2, 2]
    assert skewness(request, proposal) == pytest.approx(1.01)


def test_shuffle_spreads_every_heavy_key_by_the_capacities() -> None:
    request = request_of(cost=[9, 1], home=[0, 1], capacity=[1, 3, 5], excluded=[2], mergeable=True)
    proposal = make_planner("sg", {"max_splits": 1}).propose(request)
    assert dict(proposal.splits) == {0: (Share(0, 0.25), Share(1, 0.75))}


@pytest.mark.parametrize("name", [name for name in SPLITTING if name != "hybrid"])
def test_no_more_than_max_splits_keys_leave_their_home(name: str) -> None:
    request = request_of(cost=[5 + k % 7 for k in range(60)], home=[0] * 60, channels=4, mergeable=True)
    request = replace(request, ring=make_ring(name, request))
    proposal = make_planner(name, {"max_splits": 3}).propose(request)
    left = np.flatnonzero(proposal.channel != request.home).tolist()
    assert len(set(left) | set(proposal.splits)) <= 3


@pytest.mark.parametrize("name", SPLITTING)
def test_a_heavy_key_is_shared_and_its_state_stays(name: str) -> None:
    request = request_of(cost=[30, *[1] * 70], home=[k % 10 for k in range(71)], mergeable=True)
    request = replace(request, ring=make_ring(name, request))
    request = replace(request, current=request.ring[request.stats.slots])
    proposal = make_planner(name).propose(request)
    assert skewness(request, proposal) < (1.9 if name == "pkg" else 1.2)
    if name in ("hybrid", "porc", "ch", "cg", "sg", "potc"):
        assert proposal.channel[0] == request.current[0]


def make_ring(name: str, request: Request) -> np.ndarray:  # type: ignore[type-arg]
    planner = make_planner(name)
    return planner.first_ring(request.channels, ()) if name == "cg" else request.ring  # type: ignore[attr-defined, no-any-return]


def skewness(request: Request, proposal: Proposal) -> float:
    return measure(request, proposal.channel, splits=proposal.splits).skewness
