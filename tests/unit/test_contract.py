"""Every planner of the registry keeps every law of the contract, on whatever hypothesis finds and on the corners of the problem."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings

from rebalance.partition import SLOTS, Share, consistent_ring
from rebalance.planners.registry import PLANNERS
from rebalance.planning.interface import Planner
from rebalance.planning.model import KeyStats, Limits, Request
from tests.support.budget import cases
from tests.support.contract import CHECKS
from tests.support.strategies import request_of, requests

#: Every planner, and those that plan on compact records also that way.
CASES: dict[str, Planner] = {name: planner() for name, planner in PLANNERS.items()}
CASES |= {f"{n}, r=2": p(r=2) for n, p in PLANNERS.items() if "r" in {f.name for f in fields(p)}}

CORNERS = {
    "one key": request_of(cost=[5], home=[0], channels=3),
    "one channel": request_of(cost=[5, 3, 2], home=[0, 0, 0]),
    "one key, one channel": request_of(cost=[1], home=[0]),
    "zero costs": request_of(cost=[0, 0, 0], home=[0, 0, 1], current=[1, 1, 1], channels=3),
    "zero costs, a channel to drain": request_of(
        cost=[0, 0, 0], home=[0, 0, 1], current=[2, 1, 2], channels=3, excluded=[2]
    ),
    "all cost on one key": request_of(cost=[0, 9, 0, 0], home=[0, 0, 0, 1], channels=2),
    "ties everywhere": request_of(cost=[1] * 12, home=[0] * 12, channels=4),
    "no state": request_of(cost=[4, 3, 2, 1], home=[0, 0, 0, 1], state=[0, 0, 0, 0], channels=2),
    "everything pinned": request_of(cost=[4, 3], home=[0, 0], channels=2, pinned=[0, 1]),
    "everything pinned on a channel to drain": request_of(
        cost=[4, 3], home=[0, 0], current=[1, 1], pinned=[0, 1], excluded=[1]
    ),
    "half of the channels vanished": request_of(cost=[4, 3, 2, 2], home=[0, 0, 1, 1], current=[0, 3, 2, 1], channels=2),
    "nothing may move": request_of(cost=[4, 3, 2, 2], home=[0, 0, 0, 0], channels=2, max_bytes=0),
    "no routes allowed": request_of(
        cost=[4, 3, 2, 2], home=[0, 0, 0, 0], current=[0, 1, 0, 0], channels=2, max_routes=0
    ),
    "one key is most of it, states merge": request_of(
        cost=[90, 4, 3, 3], home=[0, 0, 1, 2], channels=4, max_bytes=5, mergeable=True
    ),
    "a split key on channels that vanished or are to be drained": request_of(
        cost=[90, 4, 3, 3],
        home=[0, 0, 1, 1],
        current=[2, 0, 1, 1],
        channels=3,
        excluded=[2],
        mergeable=True,
        splits={0: (Share(2, 0.5), Share(3, 0.5))},
    ),
    "a pinned key that is split over a channel to drain": request_of(
        cost=[5],
        home=[1],
        current=[0],
        excluded=[0],
        pinned=[0],
        mergeable=True,
        splits={0: (Share(0, 0.25), Share(1, 0.75))},
    ),
    "costs of all sizes": request_of(
        cost=[1e12, 1e-6, 3, 1e-9, 1e12], home=[0, 0, 0, 0, 0], state=[1, 10, 100, 1e9, 1e15], channels=2
    ),
}


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
@pytest.mark.parametrize("name", CASES)
@settings(max_examples=cases(7, long=50), deadline=None)
@given(request=requests())
def test_law(name: str, check: Callable[[Planner, Request], None], request: Request) -> None:
    check(CASES[name], request)


@pytest.mark.parametrize("corner", CORNERS)
@pytest.mark.parametrize("name", CASES)
def test_every_law_holds_with(name: str, corner: str) -> None:
    for check in CHECKS.values():
        check(CASES[name], CORNERS[corner])


@pytest.fixture(scope="module")
def million_keys() -> Request:
    rng = np.random.default_rng(7)
    size, channels = 1_000_000, 15
    slots = rng.integers(0, SLOTS, size).astype(np.int32)
    cost = rng.permutation(np.ceil(1e6 * np.arange(1.0, size + 1) ** -0.85))
    ring = consistent_ring(channels)
    return Request(
        stats=KeyStats(keys=np.arange(size), slots=slots, tuples=cost, cost=cost, state=cost * 100),
        current=ring[slots],
        ring=ring,
        capacity=np.ones(channels),
        limits=Limits(theta_max=0.02),
        mergeable=True,
    )


@pytest.mark.parametrize("name", PLANNERS)
def test_plans_for_a_million_keys(name: str, million_keys: Request) -> None:
    channel = CASES[name].propose(million_keys).channel
    assert channel.shape == million_keys.current.shape
    assert channel.max() < million_keys.channels
