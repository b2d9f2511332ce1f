"""What scan, redist, readj and the hash baselines promise: tracking, penalties, limits, growing and shrinking."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rebalance.partition import SLOTS, consistent_ring
from rebalance.planners.gedik.base import Gedik, theta, threshold, tracked_keys
from rebalance.planners.gedik.metrics import imbalance, migration, resource_loads
from rebalance.planners.gedik.scan import Scan
from rebalance.planners.registry import make_planner
from rebalance.planning.decide import decide
from rebalance.planning.interface import TRACKED
from rebalance.planning.model import Decision, Ints, KeyStats, Limits, Proposal, Request
from tests.support.strategies import active_function, request_of

FAMILY = ("scan", "redist", "readj")
EVEN = (1.2, 1.2, 1.2)


def zipf_stats(keys: int, z: float = 1.0, seed: int = 1) -> KeyStats:
    """Keys with Zipf frequencies, in no order."""
    rng = np.random.default_rng(seed)
    tuples = rng.permutation(np.rint(1e8 * np.arange(1.0, keys + 1) ** -z))
    return KeyStats(np.arange(keys), rng.integers(0, SLOTS, keys).astype(np.int32), tuples, tuples, tuples)


def grown(stats: KeyStats, current: Ints, channels: int, **more: Any) -> Request:
    """A request on a ring of so many channels."""
    return Request(stats, current, consistent_ring(channels), np.ones(channels), **more)


# The toy example of figure 1: X5 Z3 V2 R1 U4 Y3 W3 L1, communication linear, computation quadratic.
TOY = {
    "{X,Z,V,R} | {U,Y,W,L}": ([0, 0, 0, 0, 1, 1, 1, 1], [11, 11], [39, 35], 1.00, 1.11),
    "{X,Z,V} | {U,Y,W,L,R}": ([0, 0, 0, 1, 1, 1, 1, 1], [10, 12], [38, 36], 1.20, 1.06),
    "{X,R,L} | {U,Y} | {W,Z,V}": ([0, 2, 2, 0, 1, 1, 2, 0], [7, 7, 8], [27, 25, 22], 1.14, 1.23),
}


@pytest.mark.parametrize(("channel", "n", "c", "r_n", "r_c"), TOY.values(), ids=TOY)
def test_the_toy_example_has_the_loads_and_ratios_of_the_paper(
    channel: list[int], n: list[int], c: list[int], r_n: float, r_c: float
) -> None:
    tuples = np.array([5.0, 3, 2, 1, 4, 3, 3, 1])
    stats = KeyStats(np.array(list("XZVRUYWL")), np.zeros(8, dtype=np.int32), tuples, tuples, tuples)
    where = np.array(channel, dtype=np.int32)
    request = grown(stats, where, len(n))
    measured = imbalance(request, where, "LQL")

    assert resource_loads(request, where, "LQL", 2).tolist() == n
    assert resource_loads(request, where, "LQL", 1).tolist() == c
    assert [round(r, 2) for r in measured.r] == [r_n, r_c, r_n]
    assert measured.b == pytest.approx((r_n * r_c * r_n) ** (1 / 3) / 1.2, rel=0.01)


def test_m_is_one_for_a_fair_share_of_the_state() -> None:
    request = request_of(cost=[4, 2, 2], home=[0, 0, 0], current=[0, 1, 1], channels=2)
    assert migration(request, np.array([1, 1, 1], dtype=np.int32)) == 1.0


def test_m_counts_beta_s_not_bytes() -> None:
    request = request_of(cost=[4, 2, 2], state=[1, 7, 9], home=[0, 0, 0], current=[0, 1, 1], channels=2)
    moved = np.array([1, 1, 1], dtype=np.int32)
    assert [migration(request, moved, resources) for resources in ("LCL", "QCL", "CCL", "MCL")] == pytest.approx(
        [1.0, 16 / 12, 2 / 3, 2 / 17]
    )


def test_b_times_one_plus_m_is_the_papers_objective() -> None:
    request = request_of(cost=[4, 2, 2], home=[0, 0, 0], current=[0, 1, 1], channels=2)
    measured = imbalance(request, np.array([0, 1, 0], dtype=np.int32), "LLL", (1.5, 1.5, 1.5))
    assert measured.b == pytest.approx(2.0)
    assert measured.objective(0.5) == pytest.approx(3.0)


# The migration penalty, equation 18


def test_only_keys_that_were_tracked_before_and_are_no_more_are_in_the_first_sum_and_all_that_were_or_are_in_the_divisor() -> (
    None
):
    # Keys 0 and 1 are tracked now; 0, 2 and 3 were before. Key 2 has left home and goes back, 3 is at home, 4 was never tracked.
    request = replace(
        request_of(cost=[90, 80, 3, 2, 5], home=[0, 1, 0, 1, 0], current=[0, 1, 1, 1, 1]), memo={TRACKED: [0, 2, 3]}
    )
    problem = Scan().problem(request, request.home.copy(), np.array([0, 1]))
    assert problem.moved == 3.0
    assert problem.ideal == (90 + 80 + 3 + 2) / 2


@pytest.mark.parametrize("name", FAMILY)
def test_who_was_tracked_is_kept_with_the_function_when_channels_are_added(name: str) -> None:
    request = request_of(cost=[9, 9, 9, 1], home=[0, 0, 0, 1], current=[0, 0, 0, 1], channels=2)
    first = decide(make_planner(name), request, active_function(request))
    assert first.function.memo[TRACKED] == [0, 1, 2, 3]
    seen = {}

    class Seeing(Scan):
        def propose(self, request: Request) -> Proposal:
            seen.update(request.memo)
            return super().propose(request)

    ring = consistent_ring(3)
    after = replace(request, current=first.function.slots[request.stats.slots], ring=ring, capacity=np.ones(3))
    decide(Seeing(), after, first.function)
    assert seen == {TRACKED: [0, 1, 2, 3]}


def test_other_tracked_keys_alone_make_no_plan() -> None:
    request = request_of(cost=[9, 1, 9, 9], home=[0, 1, 0, 0], channels=2)
    function = decide(Scan(), request, active_function(request)).function
    current = function.slots[request.stats.slots].astype(np.int32)
    for key, channel in function.routes.items():
        current[int(key)] = channel
    again = replace(request, current=current)
    plan = decide(Scan(), again, replace(function, memo={TRACKED: [3]}))
    assert plan.decision is Decision.KEEP


# The planner's own aim


@pytest.mark.parametrize("name", FAMILY)
def test_even_cost_does_not_keep_a_plan_for_uneven_state_from_being_made_or_applied(name: str) -> None:
    tuples = np.array([5.0, 5, 5, 5, 4, 3, 3, 4])
    request = request_of(
        cost=[3, 3, 3, 3, 3, 3, 3, 3], state=[24, 24, 24, 24, 10, 10, 10, 10], home=[0] * 4 + [1] * 4, channels=2
    )
    request = replace(request, stats=replace(request.stats, tuples=tuples))
    planner = make_planner(name, {"resources": "MCL"})
    before = imbalance(request, request.current, "MCL")
    assert before.r[0] == pytest.approx(2.4)
    plan = decide(planner, request, active_function(request))
    assert plan.before.theta == 0.0
    assert plan.decision is Decision.APPLY
    moved = request.current.copy()
    moved[plan.moved] = plan.moved_to
    assert imbalance(request, moved, "MCL").b < before.b


@pytest.mark.parametrize("name", FAMILY)
def test_within_alpha_nothing_is_planned_however_uneven_the_cost(name: str) -> None:
    request = request_of(cost=[8, 8, 1, 1], home=[0, 0, 1, 1], channels=2)
    request = replace(request, stats=replace(request.stats, tuples=np.full(4, 5.0), state=np.full(4, 5.0)))
    plan = decide(make_planner(name), request, active_function(request))
    assert plan.decision is Decision.KEEP
    assert plan.reason.startswith(f"within the aim of {name}: r 1, 1, 1, b_k 0.833, 0.833, 0.833")


@pytest.mark.parametrize("name", FAMILY)
def test_a_plan_tells_r_b_and_m_in_its_notes(name: str) -> None:
    request = request_of(cost=[9, 9, 9, 9], home=[0] * 4, channels=2)
    plan = decide(make_planner(name), request, active_function(request))
    assert plan.notes[-1] == "r 1, 1, 1, b_k 0.833, 0.833, 0.833 (s, c, n), b 0.833, m 1, b·(1+m) 1.67"


# Which keys are tracked


def test_theta_is_the_deviation_that_alpha_allows_one_channel() -> None:
    """Equation 15: one channel at α·x and N-1 at x."""
    mean = (1.2 + 9) / 10
    assert theta(1.2, 10) == pytest.approx((1.2 - mean) / mean)


def test_delta_of_linear_resources_is_sigma_theta_over_n() -> None:
    f = np.full(100, 0.01)
    assert threshold(f, "LCL", EVEN, 0.1, 10) == pytest.approx(0.1 * theta(1.2, 10) / 10)
    assert threshold(f, "LLL", (1.1, 4, 1.2), 0.1, 10) == pytest.approx(0.1 * theta(1.1, 10) / 10)


def test_a_second_look_raises_delta_of_quadratic_resources() -> None:
    f = np.sort(1 / np.arange(1.0, 100_001))[::-1]
    f /= f.sum()
    share = 0.1 * theta(1.2, 10)
    first = np.sqrt(share / (len(f) * 10))
    second = threshold(f, "CQL", EVEN, 0.1, 10)
    assert first < second <= share / 10


def test_keys_of_equal_frequency_are_not_worth_tracking() -> None:
    stats = replace(zipf_stats(1000), tuples=np.ones(1000))
    tracked, _ = tracked_keys(stats, "LCL", EVEN, 0.1, 10)
    assert not tracked.any()


def test_about_fifty_of_a_million_keys_are_tracked_by_default_whatever_the_resources() -> None:
    stats = zipf_stats(1_000_000)
    counts = {r: np.count_nonzero(tracked_keys(stats, r, EVEN, 0.1, 10)[0]) for r in ("LCL", "LLL", "LQL")}
    assert len(set(counts.values())) == 1
    assert 30 <= counts["LCL"] <= 60


def test_a_key_with_much_of_a_measured_column_is_tracked_however_rare_it_is() -> None:
    stats = zipf_stats(1000)
    rare = int(stats.tuples.argmin())
    cost = np.ones(1000)
    cost[rare] = 500
    tracked, delta = tracked_keys(replace(stats, cost=cost), "LML", EVEN, 0.1, 4)
    assert stats.tuples[rare] / stats.tuples.sum() < delta
    assert tracked[rare]


@pytest.mark.parametrize("name", FAMILY)
def test_with_one_channel_everything_is_on_it_and_nothing_is_tracked(name: str) -> None:
    proposal = make_planner(name).propose(request_of(cost=[5, 3, 1], home=[0, 0, 0], current=[0, 1, 2], channels=1))
    assert proposal.channel.tolist() == [0, 0, 0]
    assert proposal.notes == ()


# Placing


@pytest.mark.parametrize("name", FAMILY)
def test_hot_keys_of_one_channel_are_spread(name: str) -> None:
    request = request_of(cost=[9, 9, 9], home=[0, 0, 0], channels=3)
    assert sorted(make_planner(name).propose(request).channel.tolist()) == [0, 1, 2]


@pytest.mark.parametrize("name", FAMILY)
def test_what_is_balanced_stays(name: str) -> None:
    request = request_of(cost=[9, 9, 9], home=[0, 0, 0], current=[2, 0, 1], channels=3)
    assert make_planner(name).propose(request).channel.tolist() == [2, 0, 1]


@pytest.mark.parametrize("name", FAMILY)
def test_a_channel_of_twice_the_capacity_gets_twice_the_load(name: str) -> None:
    request = request_of(cost=[1] * 9, home=[0] * 9, capacity=[2, 1])
    assert np.bincount(make_planner(name, {"sigma": 0.01}).propose(request).channel).tolist() == [6, 3]


@pytest.mark.parametrize("name", FAMILY)
def test_a_measured_cost_is_balanced_too(name: str) -> None:
    stats = zipf_stats(300)
    stats = replace(stats, cost=np.random.default_rng(2).permutation(stats.cost))
    request = grown(stats, consistent_ring(4)[stats.slots], 4)
    apart = {}
    for resources in ("LCL", "LML"):
        channel = make_planner(name, {"resources": resources, "sigma": 0.02}).propose(request).channel
        apart[resources] = np.ptp(np.bincount(channel, stats.cost)) / stats.cost.sum()
    assert apart["LML"] < apart["LCL"] / 2


@pytest.mark.parametrize("name", FAMILY)
def test_the_price_of_migration_keeps_keys_where_they_are(name: str) -> None:
    """By balance alone the keys go to the smallest channels first; with its price they stay."""
    request = request_of(cost=[8, 4, 4], home=[0, 0, 0], current=[1, 0, 0], channels=2)
    assert make_planner(name, {"utility": "APM"}).propose(request).channel.tolist() == [1, 0, 0]


@pytest.mark.parametrize("c", [1, 2, 5])
def test_readj_brings_the_loads_of_tracked_keys_closer_together_however_seldom_a_key_may_move(c: int) -> None:
    stats = zipf_stats(2000)
    request = grown(stats, consistent_ring(5)[stats.slots], 5)
    tracked, _ = tracked_keys(stats, "LCL", EVEN, 0.02, 5)
    channel = make_planner("readj", {"c": c, "sigma": 0.02}).propose(request).channel
    before, after = (np.ptp(np.bincount(at[tracked], stats.tuples[tracked])) for at in (request.current, channel))
    assert after < before


# Growing and shrinking


@pytest.mark.parametrize("name", [*FAMILY, "consistent"])
def test_a_new_channel_is_filled_and_untracked_keys_move_only_to_it(name: str) -> None:
    stats = zipf_stats(20_000)
    current = consistent_ring(5)[stats.slots]
    channel = make_planner(name).propose(grown(stats, current, 6)).channel
    tracked, _ = tracked_keys(stats, "LCL", EVEN, 0.1, 6)
    assert set(channel[(channel != current) & ~tracked].tolist()) == {5}


@pytest.mark.parametrize("name", [*FAMILY, "consistent"])
def test_keys_of_a_removed_channel_leave_and_untracked_keys_stay_otherwise(name: str) -> None:
    stats = zipf_stats(20_000)
    current = consistent_ring(6)[stats.slots]
    channel = make_planner(name).propose(grown(stats, current, 5)).channel
    tracked, _ = tracked_keys(stats, "LCL", EVEN, 0.1, 5)
    assert channel.max() == 4
    assert set(current[(channel != current) & ~tracked].tolist()) == {5}


def test_from_one_channel_to_ten_the_family_balances_better_than_a_hash_and_moves_little() -> None:
    """The setting of the paper's experiments: one channel more each period, balance b and migration m of the last one."""
    stats = zipf_stats(50_000)
    b, m = {}, {}
    for name in (*FAMILY, "uniform", "consistent"):
        current, memo = np.zeros(len(stats), dtype=np.int32), {}
        for channels in range(2, 11):
            request = grown(stats, current, channels, memo=memo)
            proposal = make_planner(name, {"resources": "LLL"} if name in FAMILY else {}).propose(request)
            current, memo = proposal.channel, proposal.memo
        m[name] = migration(request, current, "LLL")
        b[name] = imbalance(request, current, "LLL").b
    assert max(b[name] for name in FAMILY) < min(b["uniform"], b["consistent"])
    assert max(m[name] for name in FAMILY) < 2.5
    assert m["uniform"] > 5
    assert m["consistent"] < 1.5


# The hash baselines


def test_uniform_deals_the_slots_out_evenly_and_moves_nearly_all_when_n_grows() -> None:
    stats = zipf_stats(20_000)
    before = make_planner("uniform").propose(grown(stats, np.zeros(len(stats), dtype=np.int32), 9)).channel
    after = make_planner("uniform").propose(grown(stats, before, 10))
    assert np.ptp(np.bincount(after.ring)) <= 1
    assert np.mean(after.channel != before) == pytest.approx(0.9, abs=0.01)


def test_consistent_moves_a_fair_share_when_n_grows() -> None:
    stats = zipf_stats(20_000)
    before = consistent_ring(9)[stats.slots]
    after = make_planner("consistent").propose(grown(stats, before, 10)).channel
    assert np.mean(after != before) == pytest.approx(0.1, abs=0.01)


# Limits


@pytest.mark.parametrize("name", FAMILY)
@pytest.mark.parametrize("max_routes", [0, 1, 10, 1000])
def test_the_table_never_has_more_than_max_routes_entries(name: str, max_routes: int) -> None:
    stats = zipf_stats(5000)
    request = grown(stats, consistent_ring(9)[stats.slots], 10, limits=Limits(max_routes=max_routes))
    proposal = make_planner(name, {"sigma": 0.02}).propose(request)
    assert np.count_nonzero(proposal.channel != request.home) <= max_routes
    assert ("(max_routes)" in proposal.notes[0]) == (max_routes < 1000)


@pytest.mark.parametrize("name", FAMILY)
@pytest.mark.parametrize("share", [0.0, 0.02, 0.1, 1.0])
def test_no_more_bytes_move_than_max_bytes(name: str, share: float) -> None:
    stats = zipf_stats(5000)
    budget = share * stats.state.sum()
    request = grown(stats, consistent_ring(10)[stats.slots], 10, limits=Limits(max_bytes=budget))
    channel = make_planner(name).propose(request).channel
    assert stats.state[channel != request.current].sum() <= budget


@pytest.mark.parametrize("name", [*FAMILY, "uniform", "consistent"])
def test_an_excluded_channel_ends_empty_even_if_the_ring_still_names_it(name: str) -> None:
    stats = zipf_stats(5000)
    request = grown(stats, consistent_ring(6)[stats.slots], 6, excluded=np.arange(6) == 2)
    proposal = make_planner(name).propose(request)
    assert not (proposal.channel == 2).any()
    assert proposal.ring is not None
    assert not (proposal.ring == 2).any()


@pytest.mark.parametrize("name", [*FAMILY, "uniform", "consistent"])
def test_pinned_keys_stay_and_the_others_balance_around_them(name: str) -> None:
    request = request_of(cost=[9, 3, 3, 3], home=[0, 0, 0, 0], current=[1, 1, 1, 1], channels=2, pinned=[0])
    channel = make_planner(name).propose(request).channel
    assert channel[0] == 1
    if name in FAMILY:
        assert np.bincount(channel, request.stats.cost).tolist() == [9, 9]


# Parameters


def test_alpha_may_differ_between_resources() -> None:
    planner = make_planner("scan", {"alpha": [1.1, 4, 1.2]})
    assert isinstance(planner, Gedik)
    assert planner.alphas == (1.1, 4, 1.2)
