"""The default planner is never worse than plainer ones: not further from balance, and as near not for more bytes."""

from __future__ import annotations

import pytest

from rebalance.planners.frugal.frugal import Frugal
from tests.support.budget import cases
from tests.support.hard_requests import hard_request
from tests.support.rivals import is_within, ratio_to_bound, reached, rivals

_TOGETHER = 50
#: A plan this near to the bound, as a ratio, is near enough.
_NEAR = 1.02
#: Requests whose plans were furthest above the bound, with that ratio; the bound is far below what is possible in most of them.
WORST = [(472, 1754.0), (51, 120.0), (760, 38.0), (487, 34.2), (338, 27.6), (674, 11.3)]


@pytest.mark.parametrize(
    "first",
    range(0, cases(200, long=6000), _TOGETHER),
    ids=lambda first: f"requests {first} to {first + _TOGETHER - 1}",
)
def test_no_plainer_planner_is_nearer_to_balance_or_as_near_for_fewer_bytes(first: int) -> None:
    for seed in range(first, first + _TOGETHER):
        request = hard_request(seed)
        ours = reached(request, Frugal().propose(request).channel)
        ratio = ratio_to_bound(request, ours)
        if ratio is not None and ratio <= _NEAR:
            continue
        better = [(name, theirs) for name, theirs in rivals(request) if ours.beaten_by(theirs)]
        assert not better, f"request {seed}: {ours} against {better}"


@pytest.mark.parametrize(("seed", "most"), WORST)
def test_the_worst_ratios_to_the_bound_that_were_found_do_not_get_worse(seed: int, most: float) -> None:
    request = hard_request(seed)
    ratio = ratio_to_bound(request, reached(request, Frugal().propose(request).channel))
    assert ratio is not None
    assert ratio <= most


def test_a_rivals_plan_is_not_taken_beyond_max_routes() -> None:
    # Without the moves it could do without it would need more routes than there may be.
    request = hard_request(133)
    assert is_within(request, Frugal().propose(request).channel)
