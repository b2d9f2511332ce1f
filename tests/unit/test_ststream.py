"""St-Stream: as the plain transcription, stable on its own output, no node left low, and what it tells of its plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance.errors import ConfigError
from rebalance.partition import SLOTS, Share
from rebalance.planners.ststream.metrics import balance_of, changes_of
from rebalance.planners.ststream.ststream import StStream
from rebalance.planning.decide import decide
from rebalance.planning.interface import Planner
from rebalance.planning.measure import channel_loads
from rebalance.planning.model import KeyStats, Limits, Node, Proposal, Request
from tests.bench.bench_ststream import cluster
from tests.reference import ststream as plain
from tests.support.budget import cases
from tests.support.contract import CHECKS
from tests.support.strategies import active_function, request_of, requests

#: Sums, means and parts of multiples of this are exact: it is divisible by every number of channels below, twice.
UNIT = 720720.0**2


def request_for(case: plain.Case) -> Request:
    """The case as a planner gets it; channels that no node owns are excluded."""
    keys, channels = len(case.cost), len(case.capacity)
    owned = sorted(d for node in case.nodes for d in node)
    nodes = [
        Node(f"n{i}", tuple(node), cores=m, ghz=1.0, memory=m)
        for i, (node, m) in enumerate(zip(case.nodes, case.performance, strict=True))
    ]
    closed = tuple(d for d in range(channels) if d not in owned)
    cost = np.array(case.cost)
    return Request(
        stats=KeyStats(np.arange(keys), np.arange(keys, dtype=np.int32), cost, cost, cost),
        current=np.array(case.current, dtype=np.int32),
        ring=np.full(SLOTS, owned[0], dtype=np.int32),
        capacity=np.array(case.capacity),
        pinned=np.isin(np.arange(keys), list(case.pinned)),
        excluded=np.isin(np.arange(channels), closed) if closed else None,
        mergeable=case.mergeable,
        splits={k: tuple(Share(d, share) for d, share in shares.items()) for k, shares in case.splits.items()},
        nodes=(*nodes, *([Node("closed", closed)] if closed else [])),
    )


def pieces_of(request: Request, proposal: Proposal) -> dict[tuple[int, int], float]:
    """Key and channel → load."""
    cost = request.stats.cost.tolist()
    pieces = {(k, int(d)): cost[k] for k, d in enumerate(proposal.channel) if k not in proposal.splits}
    return pieces | {(k, s.channel): s.share * cost[k] for k, shares in proposal.splits.items() for s in shares}


def any_case(random: Random) -> plain.Case:
    """Some nodes with some channels; keys alike or not, pinned or not, some split already; sometimes a channel to be left alone."""
    channels = random.randint(1, 8)
    order = random.sample(range(channels), channels)
    cuts = sorted(random.sample(range(1, channels), min(random.randint(0, 3), channels - 1)))
    nodes = [sorted(order[a:b]) for a, b in zip([0, *cuts], [*cuts, channels], strict=True)]
    keys, most = random.randint(1, 12), random.choice([1, 4, 100])
    crowded = random.choice([1, channels, channels])
    current = [random.randrange(crowded) for _ in range(keys)]
    cost = [UNIT * random.choice([0, 1, random.randint(0, most)]) for _ in range(keys)]
    splits = {}
    for k in range(keys):
        if channels > 1 and random.random() < 0.15:
            other = random.choice([d for d in range(channels) if d != current[k]])
            splits[k] = {current[k]: 0.25, other: 0.75}
    return plain.Case(
        cost=cost,
        current=current,
        capacity=[random.choice([1.0, 1.0, 2.0]) for _ in range(channels)],
        nodes=nodes,
        performance=[random.choice([1.0, 2.0, 4.0]) for _ in nodes],
        theta=random.choice([0.0, 0.25, 0.25, 0.5]),
        mergeable=random.random() < 0.6,
        cut=random.choice(["room", "room", "l_max"]),
        pinned={k for k in range(keys) if random.random() < 0.1},
        splits=splits,
    )


@pytest.mark.parametrize("seed", range(cases(3, long=10)))
def test_every_piece_ends_where_the_plain_transcription_puts_it(seed: int) -> None:
    random = Random(seed)
    seen = {"moved": 0, "split": 0, "split at L_max": 0, "between": 0}
    for _ in range(120):
        case = any_case(random)
        request = request_for(case)
        planner = StStream(theta=case.theta, q=1, cut=case.cut)  # the case knows costs alone
        proposal = planner.propose(request)
        wanted = plain.plan(case)
        got = pieces_of(request, proposal)
        assert got.keys() == wanted.keys(), case
        assert got == pytest.approx(wanted)
        seen["moved"] += proposal.channel.tolist() != case.current
        newly = any(k not in case.splits for k in proposal.splits)
        seen["split"] += newly and case.cut == "room"
        seen["split at L_max"] += newly and case.cut == "l_max"
        seen["between"] += any(step.tier == 2 for step in planner.account(request))
    assert min(seen.values()) > 5, seen


@pytest.mark.parametrize("seed", range(cases(2, long=5)))
def test_run_on_its_own_output_it_changes_nothing(seed: int) -> None:
    random = Random(100 + seed)
    for _ in range(120):
        case = any_case(random)
        request = request_for(case)
        planner = StStream(theta=case.theta, cut=case.cut)
        first = planner.propose(request)
        again = replace(request, current=first.channel, splits=first.splits)
        second = planner.propose(again)
        assert second.channel.tolist() == first.channel.tolist(), case
        assert second.splits == first.splits, case
        assert planner.account(again) == (), case


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
@settings(max_examples=10, deadline=None)
@given(request=requests(mergeable=True, max_channels=6), nodes=st.integers(1, 3))
def test_the_contract_holds_with_nodes_and_splits(
    check: Callable[[Planner, Request], None], request: Request, nodes: int
) -> None:
    owned = [tuple(range(i, request.channels, nodes)) for i in range(nodes)]
    check(
        StStream(theta=0.1),
        replace(request, nodes=tuple(Node(f"n{i}", channels) for i, channels in enumerate(owned) if channels)),
    )


@given(requests(plain=True, mergeable=True), st.sampled_from([0.0, 0.1, 0.3]), st.sampled_from([0.0, 0.5, 1.0]))
def test_where_states_merge_no_channel_stays_above_l_max(request: Request, theta: float, q: float) -> None:
    proposal = StStream(theta=theta, q=q).propose(request)
    cost, state = request.stats.cost, request.stats.state
    load = q * cost / max(cost.sum(), 1.0) + (1 - q) * state / max(state.sum(), 1.0)
    loads = channel_loads(load, proposal.channel, request.channels, proposal.splits)
    assert loads.max() <= (1 + theta) * loads.mean() * (1 + 1e-6)


@pytest.mark.parametrize("mergeable", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_no_node_ends_below_l_min_or_above_l_max_where_keys_are_small_enough(seed: int, mergeable: bool) -> None:
    request = replace(cluster(seed), mergeable=mergeable)
    planner = StStream()
    proposal = planner.propose(request)
    before = balance_of(request, request.current)
    after = balance_of(request, proposal.channel, proposal.splits)
    mean = np.mean(before.weights)
    assert min(before.weights) < 0.7 * mean
    assert min(after.weights) >= 0.7 * mean * (1 - 1e-9)
    assert max(before.weights) > 1.3 * mean
    assert max(after.weights) <= 1.3 * mean * (1 + 1e-9)
    plan = decide(planner, request, active_function(request))
    assert plan.after.skewness < plan.before.skewness


def test_the_account_names_every_key_that_changed_its_channel_with_tier_and_reason() -> None:
    request = cluster(1)
    planner = StStream()
    steps = planner.account(request)
    where = request.current.copy()
    for step in steps:
        assert where[step.key] == step.source
        assert (step.source // 3 == step.target // 3) == (step.tier == 1)
        where[step.key] = step.target
    assert where.tolist() == planner.propose(request).channel.tolist()
    assert {step.why for step in steps if step.tier == 2} == {"paired"}
    notes = "; ".join(planner.propose(request).notes)
    assert "nodes give up (ΔL) -" in notes
    assert "keys moved inside nodes" in notes
    assert "keys moved between nodes" in notes


# Worked examples


def test_move_out_takes_the_costliest_key_and_move_in_gives_it_to_the_lowest_channel() -> None:
    """Mean 10, L_max 13: 8 leaves channel 0 and fits on channel 2."""
    request = request_of(cost=[8, 7, 11, 4], home=[0, 0, 1, 2])
    assert StStream(theta=0.3).propose(request).channel.tolist() == [2, 0, 1, 2]


def test_what_fits_nowhere_is_cut_at_the_free_room() -> None:
    """Mean 10, L_max 13: 26 fills channel 0, now empty, with 13; the other 13 go to channel 1 up to 13 and the rest to channel 2."""
    request = request_of(cost=[26, 2, 2], home=[0, 1, 2], mergeable=True)
    proposal = StStream(theta=0.3).propose(request)
    assert {s.channel: round(26 * s.share, 6) for s in proposal.splits[0]} == {0: 13, 1: 11, 2: 2}
    assert proposal.splits[0][0].channel == 0, "its state stays where it is"
    assert proposal.channel.tolist() == [0, 1, 2]
    assert "tier 1: 1 key fit on no channel and split" in proposal.notes


def test_by_equation_10_a_key_is_cut_at_l_max_and_the_smaller_part_goes_out_first() -> None:
    """Mean 10, L_max 13: 26.5 is cut into 0.5, 13 and 13. Channel 0 is empty and the lowest for two of them; both receivers end above L_max."""
    request = request_of(cost=[26.5, 2, 1.5], home=[0, 1, 2], mergeable=True)
    proposal = StStream(theta=0.3, cut="l_max").propose(request)
    assert {s.channel: round(26.5 * s.share, 6) for s in proposal.splits[0]} == {0: 0.5 + 13, 2: 13}


def test_by_equation_10_a_key_that_is_not_above_l_max_cannot_be_cut() -> None:
    """Mean 10, L_max 13: one of the keys of 12 fits nowhere; at the room it is cut, by equation 10 it stays, for whole it would help nobody."""
    request = request_of(cost=[12, 12, 4, 2], home=[0, 0, 1, 2], mergeable=True)
    assert StStream(theta=0.3).propose(request).splits
    by_letter = StStream(theta=0.3, cut="l_max").propose(request)
    assert by_letter.splits == {}
    loads = channel_loads(request.stats.cost, by_letter.channel, 3)
    assert loads.max() > 13


def test_a_rule_to_cut_by_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="must be one of room, l_max"):
        StStream(cut="half")


def test_without_merging_a_key_that_fits_nowhere_goes_whole_and_the_plan_says_so() -> None:
    request = request_of(cost=[26, 3, 1, 0], home=[0, 0, 1, 2])
    proposal = StStream(theta=0.3).propose(request)
    assert proposal.splits == {}
    assert proposal.channel.tolist() == [2, 0, 1, 2]
    assert any("moved whole to the lowest" in note for note in proposal.notes)


def test_a_key_that_cooled_down_is_whole_again_where_its_state_is() -> None:
    request = request_of(cost=[2, 9, 9, 10], home=[0, 0, 1, 2], mergeable=True)
    request = replace(request, splits={0: (Share(0, 0.5), Share(1, 0.5))})
    proposal = StStream(theta=0.3).propose(request)
    assert proposal.splits == {}
    assert proposal.channel.tolist() == [0, 0, 1, 2]


def test_an_untouched_split_is_kept_to_the_last_bit() -> None:
    request = request_of(cost=[30.0], home=[0], channels=3, mergeable=True)
    planner = StStream(theta=0.0)
    plan = decide(planner, request, active_function(request))
    again = decide(planner, replace(request, limits=Limits(theta_max=0.0)), plan.function)
    assert plan.after.splits == 1
    assert plan.after.skewness == pytest.approx(1)
    assert again.function is plan.function


def two_nodes(cost: list[float], current: list[int], **more: object) -> Request:
    nodes = (Node("big", (0,), cores=2, memory=2), Node("small", (1,)))
    return replace(request_of(cost=cost, home=current, channels=2), nodes=nodes, **more)  # type: ignore[arg-type]


def test_a_node_gets_load_by_its_performance() -> None:
    """Mean 10 per unit: 15 of 30 on the small node of performance 1 is high, so the big one, whose 15 are for 2, takes 5 of them."""
    assert StStream().propose(two_nodes([5, 5, 5, 5, 5, 5], [0, 0, 0, 1, 1, 1])).channel.tolist() == [0, 0, 0, 0, 1, 1]
    assert StStream(theta=0.2).propose(two_nodes([5, 5, 5, 5, 5, 5], [0, 0, 0, 1, 1, 1])).channel.tolist().count(0) == 4


def test_a_move_that_would_lift_the_receiver_above_l_max_is_not_made() -> None:
    """One key of 30 on the big node: moving it would only swap high for low."""
    assert StStream().propose(two_nodes([30], [0])).channel.tolist() == [0]


def test_with_more_low_nodes_than_donors_the_donor_is_used_again() -> None:
    request = request_of(cost=[2] * 12, home=[0] * 12, channels=4)
    request = replace(request, nodes=tuple(Node(f"n{d}", (d,)) for d in range(4)))
    loads = np.bincount(StStream(theta=0.3).propose(request).channel, minlength=4)
    assert loads.min() * 2 >= 0.7 * 6


def test_memory_counts_by_q() -> None:
    """By cost all is even; by state channel 0 has everything."""
    request = request_of(cost=[5, 5, 5, 5], home=[0, 0, 1, 1], state=[8, 8, 0, 0])
    assert StStream(q=1.0).propose(request).channel.tolist() == [0, 0, 1, 1]
    assert StStream() == StStream(q=0.5)
    assert StStream(q=0.0).propose(request).channel.tolist() == [1, 0, 1, 1]


def test_the_offset_is_the_share_of_tuples_of_hot_keys_over_their_share_of_keys() -> None:
    request = request_of(cost=[9, 1, 1, 1, 4, 4], home=[0, 1, 1, 1, 2, 3], channels=4)
    request = replace(request, nodes=(Node("a", (0, 1)), Node("b", (2, 3))))
    found = balance_of(request, request.current)
    assert found.offsets == (pytest.approx((9 / 12) / (1 / 4)), 1.0)
    assert found.weights == (12.0, 8.0)
    assert found.degree == pytest.approx(36 / ((36 + 8) / 2))


def test_load_and_slot_differences_follow_equations_4_and_7() -> None:
    """Big has twice the performance: of 20 all but 5 are on it, 2.5 leave it."""
    request = two_nodes([5, 5, 5, 5], [0, 0, 0, 1], mergeable=True)
    channel = np.array([0, 0, 0, 1], dtype=np.int32)
    big, small = changes_of(request, channel, {0: (Share(0, 0.5), Share(1, 0.5))}, q=1.0)
    assert (big.node, big.load, small.load) == ("big", 2.5 / 20, -2.5 / 20)
    mean = 20 / 3
    assert (big.slots, small.slots) == (pytest.approx(2.5 / 2 / mean), pytest.approx(2.5 / 1 / mean))


@given(requests(mergeable=True, max_channels=6), st.sampled_from([0.0, 0.5, 1.0]))
def test_what_nodes_give_up_others_take(request: Request, q: float) -> None:
    owned = [tuple(range(i, request.channels, 2)) for i in range(2)]
    request = replace(request, nodes=tuple(Node(f"n{i}", channels) for i, channels in enumerate(owned) if channels))
    proposal = StStream(q=q).propose(request)
    gone = (request.current >= request.channels) | (
        request.open_capacity[np.minimum(request.current, request.channels - 1)] == 0
    )
    if not gone.any() and not request.splits:
        changes = changes_of(request, proposal.channel, proposal.splits, q=q)
        assert sum(change.load for change in changes) == pytest.approx(0, abs=1e-9)
        assert all(change.slots >= 0 for change in changes)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([Node("a", (0,))], "channel 1 belongs to no node"),
        ([Node("a", (0, 1)), Node("b", (1,))], "channel 1 belongs to 2 nodes: 'a', 'b'"),
        ([Node("a", (0, 1, 2))], r"owns the channels \[2\], but the channels are 0..1"),
    ],
)
def test_nodes_that_do_not_own_each_channel_once_are_refused(nodes: list[Node], message: str) -> None:
    request = replace(request_of(cost=[1, 1], home=[0, 1]), nodes=tuple(nodes))
    with pytest.raises(ConfigError, match=message):
        StStream().propose(request)


def test_a_split_on_a_channel_that_is_drained_leaves_it() -> None:
    request = request_of(cost=[12, 3, 3], home=[0, 0, 1], channels=3, excluded=[2], mergeable=True)
    request = replace(request, splits={0: (Share(0, 0.5), Share(2, 0.5))})
    proposal = StStream().propose(request)
    assert all(share.channel != 2 for share in proposal.splits.get(0, ()))
