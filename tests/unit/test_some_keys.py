"""Planning on the keys that a plan may need, the others being entries that stay where the ring has them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from rebalance.errors import PlannerError
from rebalance.partition import SLOTS, consistent_ring
from rebalance.planners.registry import PLANNERS
from rebalance.planning.decide import decide
from rebalance.planning.interface import Planner, plans_on_some_keys
from rebalance.planning.measure import measure
from rebalance.planning.model import Decision, Floats, KeyStats, Limits, Proposal, Request
from rebalance.planning.records import Records, keys_to_name
from tests.support.budget import cases
from tests.support.some_keys import needed, some_keys
from tests.support.strategies import request_of, requests

ABLE = {name: kind() for name, kind in PLANNERS.items() if plans_on_some_keys(kind)}
KEYS, CHANNELS = 1_000_000, 16


def million(state: Callable[[Floats, np.random.Generator], Floats]) -> Request:
    """A million keys, of which the frequent ones are Zipf with z = 1."""
    rng, ring = np.random.default_rng(3), consistent_ring(CHANNELS)
    slots = rng.integers(0, SLOTS, KEYS).astype(np.int32)
    cost = np.bincount(np.floor(KEYS ** rng.random(KEYS)).astype(np.int64) % KEYS, minlength=KEYS) + 1.0
    return Request(
        stats=KeyStats(keys=np.arange(KEYS), slots=slots, tuples=cost, cost=cost, state=state(cost, rng)),
        current=ring[slots].astype(np.int32),
        ring=ring,
        capacity=np.ones(CHANNELS),
        limits=Limits(theta_max=0.02),
    )


STATES: dict[str, Callable[[Floats, np.random.Generator], Floats]] = {
    "state like the cost": lambda cost, rng: 17 * cost,
    "state of keys that were frequent before": lambda cost, rng: 17 * np.roll(cost, KEYS // 7),
    "state that has nothing to do with the cost": lambda cost, rng: np.floor(1e4 * rng.random(len(cost))),
}


@pytest.mark.parametrize("planner", ["frugal", "mixed"])
@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
def test_balance_and_migration_of_a_million_keys_are_those_of_a_plan_on_all_of_them_to_two_percent(
    planner: str, state: Callable[[Floats, np.random.Generator], Floats]
) -> None:
    whole = million(state)
    named = needed(whole)
    part, active = some_keys(whole, named)
    assert named.sum() <= 2 * CHANNELS * whole.limits.max_routes
    exact, found = (decide(ABLE[planner], request, active) for request in (whole, part))
    assert exact.decision is found.decision is Decision.APPLY
    assert found.before.skewness == exact.before.skewness > 1.1
    assert found.after.skewness <= exact.after.skewness * 1.02
    assert 0 < found.moved_bytes <= exact.moved_bytes * 1.02


@pytest.mark.parametrize("planner", ABLE.values(), ids=ABLE)
@settings(max_examples=cases(15, long=100), deadline=None)
@given(request=requests())
def test_what_is_no_key_goes_where_the_ring_says(planner: Planner, request: Request) -> None:
    request = replace(request, splits={}, limits=replace(request.limits, max_routes=3))
    stays = (request.current < request.channels) & (request.current == request.home)
    named = ~stays | (np.arange(len(stays)) % 2 == 0)
    part, active = some_keys(request, named)
    plan = decide(planner, part, active)
    assert (plan.moved < part.named).all()
    if plan.decision is Decision.APPLY:
        keys = part.stats.keys[: part.named]
        everywhere = plan.function.hash_channel_of([]) if not len(keys) else plan.function.slots[part.stats.slots]
        placed = np.asarray(everywhere).copy()
        for index, key in enumerate(keys.tolist()):
            placed[index] = plan.function.routes.get(key, placed[index])
            if key in plan.function.splits:
                return
        loads = np.bincount(placed, part.stats.cost, len(plan.after.loads))
        assert np.allclose(loads, plan.after.loads)
        assert not set(plan.function.routes) & set(part.stats.keys[part.named :].tolist())


def test_where_all_keys_have_a_name_the_plan_is_the_same() -> None:
    whole = request_of(cost=[9, 5, 4, 3, 2, 1], home=[0, 0, 0, 0, 1, 1], channels=2)
    part, active = some_keys(whole, np.ones(6, dtype=np.bool_))
    for planner in ABLE.values():
        assert decide(planner, part, active).function.digest() == decide(planner, whole, active).function.digest()


def test_loads_and_key_copies_are_those_of_all_keys() -> None:
    whole = request_of(cost=[9, 5, 4, 3, 2, 1], home=[0, 0, 0, 1, 1, 1], channels=2)
    part, _ = some_keys(whole, np.array([True, False, False, True, False, False]))
    named, every = measure(part, part.current), measure(whole, whole.current)
    assert (part.rest, part.unnamed, part.keys_in_all) == (2, 4, 6)
    assert (named.loads.tolist(), named.key_copies) == (every.loads.tolist(), every.key_copies)


def test_a_plan_says_how_much_a_key_without_a_name_can_change_it_where_that_is_known() -> None:
    whole = request_of(cost=[9, 5, 4, 3, 2, 1], home=[0, 0, 0, 0, 1, 1], channels=3, capacity=[1, 2, 1], excluded=[2])
    part, active = some_keys(whole, np.array([True, False, False, True, True, True]))
    # Of 24 in all, the lesser of the channels in use has a third as its fair load.
    known = replace(part, unnamed_cost=5.0)
    assert known.error == pytest.approx(5 / 8)
    plan = decide(ABLE["frugal"], known, active)
    assert (plan.decision, plan.error) == (Decision.APPLY, known.error)
    assert f"→ {plan.after.skewness:.3f} ± 0.62 by moving" in plan.reason
    fine = replace(known, limits=replace(known.limits, theta_max=9.0), excluded=None, pinned=None)
    kept = decide(ABLE["frugal"], fine, active)
    assert (kept.decision, kept.error) == (Decision.KEEP, pytest.approx(5 / 6))
    assert " ± 0.83 ≤ 9" in kept.reason
    unknown = decide(ABLE["frugal"], part, active)
    assert unknown.error is None
    assert "±" not in unknown.reason


def test_keys_without_a_name_follow_a_new_ring_and_their_state_counts_as_moved() -> None:
    whole = request_of(cost=[9, 5, 4, 3, 2, 1], home=[0, 0, 0, 1, 1, 1], channels=3)
    part, active = some_keys(whole, np.array([True, False, False, True, False, False]))
    ring = part.ring.copy()
    ring[1] = 2
    plan = decide(ABLE["keep"], replace(part, ring=ring), active, guard=False)
    assert plan.decision is Decision.APPLY
    assert plan.after.loads.tolist() == [9.0, 6.0, 9.0]
    assert (len(plan.moved), plan.moved_bytes) == (0, 9.0)
    assert plan.reason.endswith("the bytes are also of keys that the new ring moves")


def test_a_planner_that_changes_the_ring_is_refused_where_keys_have_no_name() -> None:
    class Turning:
        name, splits_keys = "turning", False

        def propose(self, request: Request) -> Proposal:
            return Proposal(channel=request.home, ring=request.ring)

    whole = request_of(cost=[9, 5, 4, 3], home=[0, 0, 0, 1], channels=2)
    part, active = some_keys(whole, np.array([True, True, False, False]))
    with pytest.raises(PlannerError, match="by which keys go that it was not told of"):
        decide(Turning(), part, active)


def records_of(*rows: tuple[int, int, float, float]) -> Records:
    channel, count, cost, state = (np.array(column) for column in zip(*rows, strict=True))
    return Records(np.arange(len(rows)), channel, count, cost * count, state * count)


def test_of_each_channel_as_many_keys_are_named_as_can_get_a_route_by_either_order() -> None:
    records = records_of((0, 5, 100.0, 1e9), (0, 5, 10.0, 1.0), (0, 5, 1.0, 1e6), (1, 3, 1.0, 1.0))
    assert keys_to_name(records, 5, fair=100.0).tolist() == [5, 5, 0, 3]


def test_keys_without_cost_are_not_named() -> None:
    assert keys_to_name(records_of((0, 5, 0.0, 1.0)), 10, fair=1.0).tolist() == [0]


def test_a_part_of_a_record_is_not_worth_a_name_where_it_is_next_to_nothing_of_a_channel_s_load() -> None:
    records = records_of((0, 10**8, 1.0, 1.0))
    assert keys_to_name(records, 3000, fair=1e8).tolist() == [0]
    assert keys_to_name(records, 30_000, fair=1e8).tolist() == [30_000]
