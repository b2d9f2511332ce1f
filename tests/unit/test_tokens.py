"""Token halving and doubling: what may move, and when."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance.partition import SLOTS, PartitionFunction
from rebalance.planners.registry import make_planner
from rebalance.planners.tokens.base import MOST_TOKENS, TOKENS, TokenRing, overloaded, token_ring
from rebalance.planners.tokens.doubling import Doubling
from rebalance.planners.tokens.halving import Halving
from rebalance.planning.decide import decide
from rebalance.planning.interface import first_function, ring_to_build_on
from rebalance.planning.measure import skew
from rebalance.planning.model import Decision, KeyStats, Limits, Request
from tests.reference import tokens as plain
from tests.support.budget import cases
from tests.support.token_workloads import START


def asked(
    slots: list[int],
    cost: list[float],
    tokens: list[int],
    *,
    capacity: list[float] | None = None,
    pinned: dict[int, int] | None = None,
) -> Request:
    """A request whose ring is made of so many tokens; a channel without any is excluded."""
    ring = token_ring(tokens)
    current = ring[np.array(slots)]
    for key, channel in (pinned or {}).items():
        current[key] = channel
    column = np.array(cost, dtype=float)
    return Request(
        stats=KeyStats(np.arange(len(slots)), np.array(slots, dtype=np.int32), column, column, column),
        current=current,
        ring=ring,
        capacity=np.ones(len(tokens)) if capacity is None else np.array(capacity),
        pinned=np.isin(np.arange(len(slots)), list(pinned)) if pinned else None,
        excluded=None if all(tokens) else np.array(tokens) == 0,
        memo={TOKENS: list(tokens)},
    )


def token_planner(method: str) -> TokenRing:
    planner = make_planner(method)
    assert isinstance(planner, TokenRing)
    return planner


def any_case(random: Random) -> plain.Case:
    """A small case: keys alike or not, any tokens a run may come to, capacities, pinned keys, drained channels."""
    method, channels, keys = random.choice(["halving", "doubling"]), random.randint(1, 5), random.randint(1, 12)
    tokens = [random.choice([1, 1, 2, 4, 8]) for _ in range(channels)]
    if channels > 2 and random.random() < 0.2:
        tokens[random.randrange(channels)] = 0
    most = random.choice([1, 5, 1000])
    return plain.Case(
        slots=[random.randrange(SLOTS) for _ in range(keys)],
        cost=[float(random.randint(0, most)) for _ in range(keys)],
        tokens=tokens,
        capacity=[random.choice([0.5, 1.0, 2.0]) for _ in range(channels)],
        method=method,
        tau=random.choice([0.0, 0.25, 1.0]),
        rounds=random.choice([1, 1, 2] if method == "doubling" else [1, 2, 4]),
        pinned={k: random.randrange(channels) for k in range(keys) if random.random() < 0.1},
    )


@pytest.mark.parametrize("seed", range(cases(3, long=10)))
def test_tokens_and_keys_end_where_the_plain_transcription_puts_them(seed: int) -> None:
    random = Random(seed)
    changed = 0
    for _ in range(200):
        case = any_case(random)
        request = asked(case.slots, case.cost, case.tokens, capacity=case.capacity, pinned=case.pinned)
        proposal = make_planner(case.method, {"tau": case.tau, "rounds": case.rounds}).propose(request)
        channel, tokens = plain.plan(case)
        assert proposal.memo[TOKENS] == tokens
        assert proposal.channel.tolist() == channel
        changed += tokens != case.tokens
    assert changed > 50


slots_and_costs = st.lists(st.tuples(st.integers(0, SLOTS - 1), st.integers(0, 50)), min_size=1, max_size=30)
powers = st.lists(st.sampled_from([1, 2, 4, 8, 64]), min_size=2, max_size=6)


@given(slots_and_costs, powers, st.sampled_from([0.0, 0.2]), st.integers(1, 3))
def test_halving_moves_only_keys_of_channels_that_were_halved(
    keys: list[tuple[int, int]], tokens: list[int], tau: float, rounds: int
) -> None:
    """Those that stood out in a round; by the ring itself, so also keys without traffic."""
    request = asked([slot for slot, _ in keys], [cost for _, cost in keys], tokens)
    proposal = make_planner("halving", {"tau": tau, "rounds": rounds}).propose(request)
    halved = {d for d, (old, new) in enumerate(zip(tokens, proposal.memo[TOKENS], strict=True)) if new < old}
    ring = request.ring if proposal.ring is None else proposal.ring
    assert set(request.ring[ring != request.ring].tolist()) <= halved
    assert set(request.current[proposal.channel != request.current].tolist()) <= halved


@given(slots_and_costs, powers, st.sampled_from([0.0, 0.2]), st.integers(1, 3))
def test_doubling_moves_keys_only_to_new_tokens(
    keys: list[tuple[int, int]], tokens: list[int], tau: float, rounds: int
) -> None:
    request = asked([slot for slot, _ in keys], [cost for _, cost in keys], tokens)
    proposal = make_planner("doubling", {"tau": tau, "rounds": rounds}).propose(request)
    ring = request.ring if proposal.ring is None else proposal.ring
    moved = np.flatnonzero(ring != request.ring)
    old = {plain.point_of(d, j) for d, count in enumerate(tokens) for j in range(1, count + 1)}
    every = sorted(
        plain.point_of(d, j + 1) for d, count in enumerate(proposal.memo[TOKENS]) for j in range(min(count, 64))
    )
    if max(proposal.memo[TOKENS]) <= 64:
        for slot in moved[:: max(len(moved) // 20, 1)].tolist():
            assert next((point for point in every if point >= slot << 16), every[0]) not in old


@given(powers, st.integers(0, 5))
def test_a_round_of_doubling_moves_no_key_to_the_channel_that_stands_out(tokens: list[int], x: int) -> None:
    x %= len(tokens)
    before, after = token_ring(tokens), token_ring(Doubling().relieve(tokens, x))
    assert x not in after[before != after]


def test_doubling_also_reshuffles_the_other_channels() -> None:
    before, after = token_ring([1, 1, 1, 1]), token_ring([1, 2, 2, 2])
    moved = before != after
    assert {0} < set(before[moved].tolist())
    assert 0 not in after[moved]


@pytest.mark.parametrize("method", START)
def test_a_load_just_at_the_threshold_does_not_trigger(method: str) -> None:
    ring = token_ring([START[method]] * 2)
    slots = [int(np.flatnonzero(ring == d)[0]) for d in (0, 1)]
    at, above = (asked(slots, [cost, 10.0], [START[method]] * 2) for cost in (12.0, 12.1))
    planner = make_planner(method)
    assert planner.propose(at).ring is None
    assert planner.propose(at).memo == at.memo
    assert planner.propose(above).memo != above.memo


def test_loads_are_compared_by_capacity() -> None:
    assert overloaded(np.array([20.0, 10.0]), np.array([2.0, 1.0]), 0.2) is None
    assert overloaded(np.array([10.0, 10.0]), np.array([2.0, 1.0]), 0.2) == 1
    assert overloaded(np.array([99.0, 10.0, 10.0]), np.array([0.0, 1.0, 1.0]), 0.2) is None


def test_a_channel_with_one_token_cannot_be_halved_and_the_plan_says_so() -> None:
    request = asked([0, 1, 2], [9, 9, 9], [1, 1])
    proposal = make_planner("halving").propose(request)
    assert proposal.ring is None
    assert proposal.channel.tolist() == request.current.tolist()
    assert "cannot be halved" in proposal.notes[-1]


def test_doubling_ends_at_the_most_tokens_and_the_plan_says_so() -> None:
    ring = token_ring([1, MOST_TOKENS])
    request = asked([int(np.flatnonzero(ring == 0)[0])], [9], [1, MOST_TOKENS])
    proposal = make_planner("doubling").propose(request)
    assert proposal.memo[TOKENS] == [1, MOST_TOKENS]
    assert "get no more" in proposal.notes[-1]


def test_more_rounds_are_simulated_before_the_plan_is_made() -> None:
    heavy = asked(list(range(0, SLOTS, 64)), [1.0] * (SLOTS // 64), [256, 8, 8])
    assert make_planner("halving", {"rounds": 1}).propose(heavy).memo[TOKENS] == [128, 8, 8]
    assert make_planner("halving", {"rounds": 3}).propose(heavy).memo[TOKENS] == [32, 8, 8]
    most = [max(make_planner("doubling", {"rounds": r}).propose(heavy).memo[TOKENS][1:]) for r in (1, 3)]
    assert 16 <= most[0] < most[1]


@pytest.mark.parametrize("method", START)
def test_the_next_plan_goes_on_from_the_tokens_of_the_last(method: str) -> None:
    planner = make_planner(method)
    rng = np.random.default_rng(3)
    slots = rng.integers(0, SLOTS, 300).astype(np.int32)
    start = PartitionFunction(version=1, channels=4, slots=token_ring([1] * 4), key_type="long")
    function, seen = first_function(planner, start, ()), []
    for interval in range(6):
        cost = rng.permutation(np.ceil(300 / np.arange(1.0, 301)))
        request = Request(
            stats=KeyStats(np.arange(300), slots, cost, cost, cost),
            current=function.slots[slots],
            ring=ring_to_build_on(planner, function, start.slots, 4, ()),
            capacity=np.ones(4),
        )
        plan = decide(planner, request, function, guard=False)
        function = plan.function
        assert not function.routes
        if plan.decision is Decision.APPLY:
            assert np.array_equal(function.slots, token_ring(function.memo[TOKENS]))
            seen.append(function.memo[TOKENS])
        assert interval < 5 or seen
    for earlier, later in pairwise(seen):
        assert all(new <= old if method == "halving" else new >= old for old, new in zip(earlier, later, strict=True))


def test_a_ring_that_is_cut_back_by_max_bytes_keeps_its_own_tokens() -> None:
    """The memo must describe the ring that is stored, not the one that was asked for."""
    slots = list(range(0, SLOTS, 512))
    request = asked(slots, [1.0] * len(slots), [64, 8, 8])
    request = replace(request, limits=Limits(max_bytes=2.0, max_routes=0))
    active = PartitionFunction(
        version=1, channels=3, slots=request.ring, key_type="long", memo={TOKENS: [64, 8, 8], "ring_of": "halving"}
    )
    plan = decide(make_planner("halving"), request, active, guard=False)
    assert np.array_equal(plan.function.slots, token_ring(plan.function.memo[TOKENS]))


some_tokens = st.lists(st.sampled_from([0, 1, 2, 4, 64]), min_size=1, max_size=5).filter(any)


@pytest.mark.parametrize("method", START)
@given(tokens=some_tokens, channels=st.integers(1, 7), data=st.data())
def test_channels_join_and_leave_as_the_plain_transcription_says(
    method: str, tokens: list[int], channels: int, data: st.DataObject
) -> None:
    closed = data.draw(st.sets(st.integers(0, channels - 1), max_size=channels - 1))
    ring, memo = token_planner(method).next_ring({TOKENS: tokens}, channels, closed)
    expected = plain.join_and_leave(tokens, [d not in closed for d in range(channels)], START[method])
    assert memo[TOKENS] == expected
    points = plain.ring_with(expected)
    assert all(ring[slot] == plain.key_lookup(slot, points) for slot in range(0, SLOTS, 997))


@given(some_tokens, st.integers(1, 3))
def test_new_channels_take_from_all_others_and_nothing_else_moves(tokens: list[int], more: int) -> None:
    before, channels = token_ring(tokens), len(tokens) + more
    gone = {d for d, count in enumerate(tokens) if not count}
    after, _ = Halving().next_ring({TOKENS: tokens}, channels, gone)
    moved = before != after
    assert set(after[moved].tolist()) <= set(range(len(tokens), channels))
    assert np.unique(after[after >= len(tokens)]).size > 0


@given(some_tokens.filter(lambda tokens: sum(map(bool, tokens)) > 1))
def test_of_a_channel_that_leaves_only_its_own_keys_move(tokens: list[int]) -> None:
    leaver = next(d for d, count in enumerate(tokens) if count)
    closed = {d for d, count in enumerate(tokens) if not count} | {leaver}
    before = token_ring(tokens)
    after, _ = Doubling().next_ring({TOKENS: tokens}, len(tokens), closed)
    assert set(before[before != after].tolist()) == {leaver}


@pytest.mark.parametrize("method", START)
def test_a_new_channel_is_claimed_for_before_the_trigger_looks_at_the_loads(method: str) -> None:
    """Through `decide`, with the ring and the memo that a pipeline builds on: the tokens of the others are those of the last plan."""
    planner = token_planner(method)
    tokens = [8, 4, 4]
    active = PartitionFunction(
        version=7, channels=3, slots=token_ring(tokens), key_type="long", memo={TOKENS: tokens, "ring_of": method}
    )
    slots = np.arange(0, SLOTS, 64, dtype=np.int32)
    column = np.ones(len(slots))
    request = Request(
        stats=KeyStats(np.arange(len(slots)), slots, column, column, column),
        current=active.slots[slots],
        ring=ring_to_build_on(planner, active, active.slots, 4, ()),
        capacity=np.ones(4),
    )
    plan = decide(make_planner(method, {"tau": 1000.0}), request, active)
    assert plan.decision is Decision.APPLY
    assert plan.function.memo == {TOKENS: [8, 4, 4, 4], "ring_of": method}
    assert np.array_equal(plan.function.slots, token_ring([8, 4, 4, 4]))
    assert set(plan.moved_to.tolist()) == {3}
    case = plain.Case(slots.tolist(), column.tolist(), [8, 4, 4, 4], [1.0] * 4, method)
    told = decide(planner, request, active)
    assert told.function.memo[TOKENS] == plain.plan(case)[1]


def test_a_channel_that_is_opened_again_claims_tokens_too() -> None:
    tokens = [16, 0, 4]
    request = replace(asked(list(range(0, SLOTS, 64)), [1.0] * (SLOTS // 64), tokens), excluded=None)
    assert Halving(tau=1000.0).propose(request).memo[TOKENS] == [16, 8, 4]


def test_a_claim_that_max_bytes_holds_back_keeps_its_own_tokens() -> None:
    tokens = [8, 8, 8]
    active = PartitionFunction(
        version=1, channels=3, slots=token_ring(tokens), key_type="long", memo={TOKENS: tokens, "ring_of": "halving"}
    )
    slots = list(range(0, SLOTS, 512))
    request = replace(
        asked(slots, [1.0] * len(slots), tokens),
        ring=ring_to_build_on(Halving(), active, active.slots, 4, ()),
        capacity=np.ones(4),
        limits=Limits(max_bytes=2.0),
    )
    plan = decide(Halving(), request, active, guard=False)
    assert plan.decision is Decision.APPLY
    assert plan.function.memo == {TOKENS: plan.function.memo[TOKENS], "ring_of": "halving"}
    assert np.array_equal(plan.function.slots, token_ring(plan.function.memo[TOKENS]))
    assert plan.moved_bytes <= 2


@pytest.mark.parametrize("method", START)
def test_after_the_plan_of_another_planner_the_ring_starts_anew(method: str) -> None:
    active = PartitionFunction(
        version=1, channels=3, slots=token_ring([8, 8, 8]), memo={TOKENS: [8, 8, 8], "ring_of": "another"}
    )
    ring = ring_to_build_on(token_planner(method), active, active.slots, 4, {1})
    assert np.array_equal(ring, token_planner(method).first_ring(4, {1}))
    assert not (ring == 1).any()


@given(st.lists(st.integers(0, 100), min_size=1, max_size=8))
def test_skew_is_between_0_and_1(tuples: list[int]) -> None:
    s = skew(np.array(tuples))
    assert 0 <= s <= 1
    if len(tuples) > 1 and sum(tuples) == max(tuples) > 1:
        assert s == 1
