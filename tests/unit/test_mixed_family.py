"""LLFD, MinTable, MinMig, Mixed and MixedBF against the plain transcription and the paper's worked example."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings

from rebalance.planners.registry import make_planner
from rebalance.planning.model import Request
from tests.reference import fang
from tests.support.budget import cases
from tests.support.strategies import request_of, requests

FAMILY = {
    "llfd": lambda p: fang.llfd_alone(p),
    "mintable": lambda p: fang.mintable(p),
    "minmig": lambda p: fang.minmig(p, 1.5),
    "mixed": lambda p: fang.mixed(p, 1.5),
    "mixedbf": lambda p: fang.mixedbf(p, 1.5),
}

#: The paper's figure 4: k1..k6 as keys 0..5, d1 and d2 as channels 0 and 1.
FIGURE_4 = request_of(cost=[7, 4, 2, 1, 5, 1], home=[0, 0, 0, 1, 1, 1], current=[0, 0, 1, 1, 0, 1], theta_max=0.0)


def problem_of(request: Request) -> fang.Problem:
    """The same request in whole numbers."""

    def chosen(mask: np.ndarray | None) -> set[int]:
        return set() if mask is None else set(np.flatnonzero(mask).tolist())

    return fang.Problem(
        cost=request.stats.cost.astype(int).tolist(),
        state=request.stats.state.astype(int).tolist(),
        home=request.home.tolist(),
        current=request.current.tolist(),
        capacity=request.capacity.astype(int).tolist(),
        theta_max=Fraction(str(request.limits.theta_max)),
        max_routes=request.limits.max_routes,
        pinned=chosen(request.pinned),
        excluded=chosen(request.excluded),
    )


def random_request(rng: np.random.Generator, most_keys: int = 15, most_channels: int = 4) -> Request:
    """Like the hypothesis ones, but thousands a second."""
    size, channels = int(rng.integers(1, most_keys + 1)), int(rng.integers(1, most_channels + 1))
    heaviest = int(rng.choice([1, 3, 10, 100]))
    some = lambda count, p: np.flatnonzero(rng.random(count) < p).tolist()  # noqa: E731
    home = rng.integers(0, channels, size).tolist()
    return request_of(
        cost=rng.integers(0, heaviest + 1, size).tolist(),
        home=home,
        current=rng.integers(0, channels + int(rng.random() < 0.2), size).tolist() if rng.random() < 0.7 else home,
        state=rng.integers(0, 10, size).tolist(),
        channels=channels,
        capacity=rng.integers(1, 4, channels).tolist() if rng.random() < 0.3 else None,
        theta_max=float(rng.choice([0.0, 0.02, 0.08, 0.3])),
        max_routes=int(rng.choice([0, 1, 3, 3000])),
        pinned=some(size, 0.2) if rng.random() < 0.3 else None,
        excluded=some(channels - 1, 0.3) if rng.random() < 0.3 else None,
    )


def assert_agrees(name: str, request: Request) -> None:
    proposal = make_planner(name).propose(request)
    outcome = FAMILY[name](problem_of(request))
    assert proposal.channel.tolist() == [outcome.where[k] for k in range(len(request.stats))]
    assert any("θ_max was not reachable" in note for note in proposal.notes) == (outcome.refused > 0)


@pytest.mark.parametrize("name", FAMILY)
def test_agrees_with_the_plain_transcription_on_hundreds_of_random_requests(name: str) -> None:
    rng = np.random.default_rng(20170402)
    for _ in range(cases(200, long=700) if name != "mixedbf" else cases(60, long=200)):
        assert_agrees(name, random_request(rng))


@pytest.mark.parametrize("name", FAMILY)
@settings(max_examples=25, deadline=None)
@given(request=requests(max_keys=12, max_channels=4))
def test_agrees_with_the_plain_transcription_on_whatever_hypothesis_finds(name: str, request: Request) -> None:
    assert_agrees(name, request)


def test_figure_4_llfd_without_cleaning_needs_four_routes() -> None:
    channel = make_planner("llfd").propose(FIGURE_4).channel
    assert channel.tolist() == [1, 0, 1, 0, 0, 1]
    assert np.bincount(channel, weights=FIGURE_4.stats.cost).tolist() == [10, 10]
    assert np.count_nonzero(channel != FIGURE_4.home) == 4


def test_figure_4_mintable_needs_two_routes() -> None:
    channel = make_planner("mintable").propose(FIGURE_4).channel
    assert channel.tolist() == [0, 1, 0, 0, 1, 1]
    assert np.bincount(channel, weights=FIGURE_4.stats.cost).tolist() == [10, 10]
    assert np.count_nonzero(channel != FIGURE_4.home) == 2
