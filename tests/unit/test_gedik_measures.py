"""By which measures scan, redist and readj are asked and judged, and that every plan tells them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rebalance.partition import consistent_ring
from rebalance.planners.baselines.consistent import hashed
from rebalance.planners.gedik.metrics import imbalance, migration, resource_loads
from rebalance.planners.gedik.readj import Readj
from rebalance.planners.gedik.readj_search import Search
from rebalance.planners.gedik.scan import Scan
from rebalance.planners.registry import make_planner
from rebalance.planning.decide import decide
from rebalance.planning.model import Decision, Ints, KeyStats, Proposal, Request
from tests.support.strategies import active_function, request_of
from tests.support.zipf import grown, zipf_stats

FAMILY = ("scan", "redist", "readj")

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
    assert plan.reason == f"within the aim of {name}: r_s 1, r_c 1, r_n 1"


@pytest.mark.parametrize("name", FAMILY)
def test_a_plan_tells_r_b_and_m_before_and_after_in_its_notes(name: str) -> None:
    request = request_of(cost=[9, 9, 9, 3], home=[0, 0, 0, 1], channels=2)
    plan = decide(make_planner(name), request, active_function(request))
    assert plan.decision is Decision.APPLY
    assert plan.notes[-2:] == (
        "before: r_s 9, r_c 3, r_n 9, b_s 7.5, b_c 2.5, b_n 7.5, b 5.2, m 0, b·(1+m) 5.2",
        "planned: r_s 1.5, r_c 1, r_n 1.5, b_s 1.25, b_c 0.833, b_n 1.25, b 1.09, m 0.6, b·(1+m) 1.75",
    )


@pytest.mark.parametrize("name", FAMILY)
def test_a_plan_that_keeps_everything_tells_its_measures_too(name: str) -> None:
    request = request_of(cost=[9, 9], home=[0, 1], channels=2)
    plan = decide(make_planner(name), request, active_function(request))
    assert plan.decision is Decision.KEEP
    assert plan.notes == (
        "as it is: r_s 1, r_c 1, r_n 1, b_s 0.833, b_c 0.833, b_n 0.833, b 0.833, m 0, b·(1+m) 0.833",
    )


def test_a_refused_plan_tells_which_measures_it_would_have_worsened() -> None:
    class Worse(Scan):
        def propose(self, request: Request) -> Proposal:
            return Proposal(channel=np.zeros(len(request.stats), dtype=np.int32))

    request = request_of(cost=[9, 9, 3], home=[0, 1, 1], current=[0, 0, 1], channels=2)
    plan = decide(Worse(), request, active_function(request))
    assert plan.decision is Decision.REJECT
    assert plan.reason == ("it would not balance better: r_s 6, r_c 2, r_n 6 → r_s inf, r_c inf, r_n inf")
    assert [note.split(":")[0] for note in plan.notes] == ["before", "planned"]


@pytest.mark.parametrize("name", FAMILY)
def test_a_plan_that_evens_out_the_state_is_not_refused_for_the_number_of_keys(name: str) -> None:
    """r_s falls from 1.3 to less, while of 8 keys that were 4 and 4 a channel gets most; constant resources are nobody's aim."""
    request = request_of(cost=[20, 2, 2, 2, 5, 5, 5, 5], home=[0] * 4 + [1] * 4, channels=2)
    plan = decide(make_planner(name, {"sigma": 0.01, "utility": "A"}), request, active_function(request))
    moved = request.current.copy()
    moved[plan.moved] = plan.moved_to
    before, after = (imbalance(request, channel) for channel in (request.current, moved))
    assert after.b > before.b
    assert after.r[0] < before.r[0]
    assert plan.decision is Decision.APPLY


# The objective of equation 13


def objective(request: Request, channel: Ints, resources: str) -> float:
    return imbalance(request, channel, resources).objective(migration(request, channel, resources))


@pytest.mark.parametrize("resources", ["LCL", "QQL", "CLL", "MML"])
def test_what_readj_lowers_step_by_step_is_b_times_one_plus_m_of_all_keys(resources: str) -> None:
    stats = zipf_stats(300)
    stats = replace(stats, cost=np.random.default_rng(2).permutation(stats.cost), state=np.sqrt(stats.state))
    request = grown(stats, consistent_ring(3)[stats.slots], 4)
    planner = Readj(utility="BTM", resources=resources)
    tracked, _ = planner.tracked(request, hashed(request, request.ring))
    channel = request.home.copy()
    search = Search(planner.problem(request, channel, tracked), planner.c)
    steps = 0
    while step := search.best_step():
        channel[tracked] = search.channel
        assert search.score(search.situation()).utility == pytest.approx(objective(request, channel, resources))
        search.take(step)
        steps += 1
    assert steps > 0
    assert len(tracked) < len(stats)


@pytest.mark.parametrize("name", FAMILY)
def test_by_equation_13_keys_that_are_not_tracked_count_too(name: str) -> None:
    """Of the two tracked keys each would go to a channel of its own, if the other keys were not all on the first one."""
    cost = [30, 20, *[1] * 40]
    request = request_of(cost=cost, home=[0, 1, *[0] * 40], current=[0, 0, *[0] * 40], channels=2)
    channel = {
        utility: make_planner(name, {"sigma": 1.0, "utility": utility}).propose(request).channel
        for utility in ("ATM", "BTM")
    }
    loads = {utility: np.bincount(at, cost).tolist() for utility, at in channel.items()}
    assert np.ptp(loads["BTM"]) < np.ptp(loads["ATM"])
