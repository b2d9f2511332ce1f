"""Where scan, redist, readj and the hash baselines place keys: with limits, when channels come and go."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rebalance.partition import consistent_ring
from rebalance.planners.gedik.base import Gedik, tracked_keys
from rebalance.planners.gedik.metrics import imbalance, migration
from rebalance.planners.registry import make_planner
from rebalance.planning.model import Limits
from tests.support.strategies import request_of
from tests.support.zipf import grown, zipf_stats

FAMILY = ("scan", "redist", "readj")
EVEN = (1.2, 1.2, 1.2)


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
