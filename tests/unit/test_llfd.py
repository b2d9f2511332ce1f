"""LLFD's rules one by one, and theorem 1."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance.planners.registry import make_planner
from rebalance.planning.model import Request
from tests.support.strategies import request_of

Literal = dict[str, object]

#: What LLFD is asked, and the channel of each key in its answer. All keys are at home unless the case says otherwise.
RULES: dict[str, tuple[Literal, list[int]]] = {
    "already balanced: nothing moves": ({"cost": [3, 3], "home": [0, 1]}, [0, 1]),
    "a channel that just meets L_max is not overloaded": (
        {"cost": [3, 3, 2, 2], "home": [0, 0, 1, 1], "theta_max": 0.2},
        [0, 0, 1, 1],
    ),
    "the costliest key leaves first": (
        {"cost": [1, 2, 5], "home": [0, 0, 0], "channels": 2, "theta_max": 0.3},
        [0, 0, 1],
    ),
    "of equal keys the smaller one leaves": (
        {"cost": [2, 2, 2], "home": [0, 0, 0], "channels": 2, "theta_max": 0.4},
        [1, 0, 0],
    ),
    "a key goes to the least loaded channel": (
        {"cost": [4, 2, 1, 5], "home": [0, 1, 2, 0], "theta_max": 0.5},
        [0, 1, 2, 2],
    ),
    "of equally loaded channels the smaller one is asked first": (
        {"cost": [3, 3, 3], "home": [2, 2, 2], "channels": 3},
        [0, 1, 2],
    ),
    "just fitting is fitting": ({"cost": [2, 2, 2, 2], "home": [0, 0, 0, 1], "theta_max": 0.0}, [1, 0, 0, 1]),
    "a cheaper key is pushed out to make room": (
        {"cost": [7, 4, 2, 1, 5, 1], "home": [0, 0, 1, 1, 0, 1], "theta_max": 0.0},
        [1, 0, 1, 0, 0, 1],
    ),
    "a key hotter than a channel gets one for itself": (
        {"cost": [90, 5, 5], "home": [0, 0, 0], "channels": 2},
        [1, 0, 0],
    ),
    "fair load follows capacity": (
        {"cost": [2, 2, 2], "home": [0, 0, 0], "capacity": [1, 2], "theta_max": 0.0},
        [1, 1, 0],
    ),
    "a pinned key stays and others leave": (
        {"cost": [5, 3, 2], "home": [0, 0, 0], "channels": 2, "pinned": [0], "theta_max": 0.0},
        [0, 1, 1],
    ),
    "an excluded channel ends empty, keys without cost included": (
        {"cost": [2, 0, 2], "home": [0, 0, 1], "current": [2, 2, 1], "channels": 3, "excluded": [2]},
        [0, 0, 1],
    ),
    "keys of a vanished channel go home if they fit": (
        {"cost": [2, 2], "home": [0, 1], "current": [0, 5], "channels": 2},
        [0, 1],
    ),
    "a key without cost does not travel": (
        {"cost": [0, 4, 4], "home": [0, 0, 0], "channels": 2, "theta_max": 0.0},
        [0, 1, 0],
    ),
}


@pytest.mark.parametrize("rule", RULES)
def test_rule(rule: str) -> None:
    asked, expected = RULES[rule]
    assert make_planner("llfd").propose(request_of(**asked)).channel.tolist() == expected


def test_what_fits_nowhere_is_reported() -> None:
    request = request_of(cost=[4, 4, 4], home=[0, 0, 0], channels=2, theta_max=0.0)
    proposal = make_planner("llfd").propose(request)
    assert proposal.channel.tolist() == [1, 0, 0]
    assert proposal.notes == (
        "θ_max was not reachable: 1 keys fit on no channel and went where they do the least harm",
    )


@st.composite
def perfectly_balanceable(draw: st.DrawFn) -> Request:
    """N sets of keys of the same load, no key as heavy as a set, scattered over the channels."""
    channels, load = draw(st.integers(2, 5)), draw(st.integers(2, 30))
    cost: list[int] = []
    for _ in range(channels):
        left = load
        while left:
            cost.append(draw(st.integers(1, min(left, load - 1))))
            left -= cost[-1]
    cost = draw(st.permutations(cost))
    somewhere = st.lists(st.integers(0, channels - 1), min_size=len(cost), max_size=len(cost))
    return request_of(cost=cost, home=draw(somewhere), current=draw(somewhere), channels=channels, theta_max=0.0)


@pytest.mark.parametrize("name", ["llfd", "mintable", "minmig", "mixed"])
@settings(max_examples=40, deadline=None)
@given(request=perfectly_balanceable())
def test_theorem_1_where_perfect_balance_exists_theta_is_at_most_a_third(name: str, request: Request) -> None:
    channel = make_planner(name).propose(request).channel
    loads = np.bincount(channel, weights=request.stats.cost, minlength=request.channels)
    theta = np.abs(loads / request.fair - 1).max()
    assert theta <= (1 - 1 / request.channels) / 3 + 1e-9


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), theta_max=st.sampled_from([0.0, 0.01, 0.1]))
def test_on_hundreds_of_keys_no_channel_is_above_l_max_unless_reported(seed: int, theta_max: float) -> None:
    rng = np.random.default_rng(seed)
    size, channels = 600, 7
    home = rng.integers(0, channels, size)
    request = request_of(
        cost=np.ceil(rng.pareto(1.0, size) * 10).tolist(), home=home.tolist(), theta_max=theta_max, channels=channels
    )
    for name in ("llfd", "mintable", "minmig", "mixed"):
        proposal = make_planner(name).propose(request)
        loads = np.bincount(proposal.channel, weights=request.stats.cost, minlength=channels)
        assert (loads <= request.limit * (1 + 1e-9)).all() or proposal.notes
