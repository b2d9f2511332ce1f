"""How many choices D-Choices gives its head: the planner's and the simulation's formula, and the one in the authors' own simulator."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rebalance.planners.splitting.dchoices import enough_choices
from rebalance.planning.exact import clearly_less
from rebalance.planning.model import Floats
from rebalance.simulate.choices_kernel import enough_choices as simulated
from tests.reference.spread import published_choices
from tests.support.budget import cases


@st.composite
def heads(draw: st.DrawFn) -> list[float]:
    """Shares of up to eight head keys, largest first, and a tail."""
    weights, tail = draw(st.lists(st.floats(0.001, 1), min_size=1, max_size=8)), draw(st.floats(0, 3))
    return sorted((w / (sum(weights) + tail) for w in weights), reverse=True)


def inner_prefixes_fit(p: list[float], d: int, n: int) -> bool:
    """Whether the head's prefixes other than the first key and the whole fit into what they reach, ε = 0."""
    for h in range(2, len(p)):
        reached = 1 - (1 - 1 / n) ** (h * d)
        if clearly_less(reached, sum(p[:h]) + reached**d * sum(p[h:]) + reached**2 * (1 - sum(p))):
            return False
    return True


@settings(max_examples=cases(150, long=500))
@given(p=heads(), n=st.integers(3, 60))
@example(p=[0.166, 0.117, 0.088, 0.028, 0.019], n=57)  # where a prefix between the two binds
def test_without_room_d_is_that_of_the_authors_unless_a_prefix_they_leave_out_binds(p: list[float], n: int) -> None:
    """One hash is not offered here: where they come to one, it is two."""
    ours, theirs = enough_choices(np.array(p), n, 0.0), max(2, published_choices(p, n, 0.0))
    assert (ours == theirs) if theirs == n or inner_prefixes_fit(p, theirs, n) else (ours > theirs)


def zipf_heads() -> list[tuple[Floats, int]]:
    """Heads of Zipf's law at the default θ, over a range of skews, keys and channels."""
    found = []
    for z in np.arange(0.4, 2.01, 0.1):
        for keys in (1_000, 10_000):
            share = np.arange(1.0, keys + 1) ** -z
            share /= share.sum()
            found += [(share[share >= 0.2 / n], n) for n in (5, 10, 20, 50, 100)]
    return [(p, n) for p, n in found if len(p)]


def test_with_the_default_room_d_on_zipf_heads_is_the_authors_or_less_and_no_less_than_theirs_with_room_for_all() -> (
    None
):
    """Our room is b ε, theirs ε, and 1 ≤ b ≤ n: with n ε of theirs nothing fits here that does not there."""
    same, heads = 0, zipf_heads()
    for p, n in heads:
        ours, shares = enough_choices(p, n, 1e-4), p.tolist()
        assert max(2, published_choices(shares, n, n * 1e-4)) <= ours <= max(2, published_choices(shares, n, 1e-4))
        same += ours == max(2, published_choices(shares, n, 1e-4))
    assert same / len(heads) > 0.7


@settings(max_examples=cases(100, long=300))
@given(
    counts=st.lists(st.integers(0, 400), min_size=1, max_size=12),
    n=st.integers(2, 40),
    theta=st.sampled_from([0.005, 0.02, 0.1]),
    epsilon=st.sampled_from([0.0, 1e-4, 0.01, 0.1]),
)
@example(counts=[500, *[1] * 500], n=10, theta=0.02, epsilon=0.1)  # where less than p_1 n would pass the inequality
def test_the_planner_and_the_simulation_find_the_same_d(
    counts: list[int], n: int, theta: float, epsilon: float
) -> None:
    seen = max(sum(counts), 1)
    head = sorted((c / seen for c in counts if c >= max(theta * seen, 1)), reverse=True)
    assert simulated(np.array(counts, np.int32), seen, theta, epsilon, n) == enough_choices(np.array(head), n, epsilon)
