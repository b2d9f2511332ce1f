"""Sums are exact in any order, and choices do not hang on the last bit."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance.planning.exact import clearly_less, first_greatest, first_least, on_grid


@given(st.lists(st.floats(0, 1e12), min_size=1, max_size=30), st.randoms(use_true_random=False))
def test_sums_on_the_grid_do_not_depend_on_their_order(values: list[float], random: Any) -> None:
    weights = on_grid(np.array(values)).tolist()
    shuffled = list(weights)
    random.shuffle(shuffled)
    assert sum(weights) == sum(shuffled)
    assert np.allclose(weights, values, rtol=0, atol=2**-49 * sum(values) + 2.0**-1000)


@given(st.lists(st.integers(0, 2**40), min_size=1, max_size=30))
def test_whole_numbers_are_on_the_grid(values: list[int]) -> None:
    assert on_grid(np.array(values, dtype=float)).tolist() == values


@pytest.mark.parametrize("values", [[inf, 2.0, 2.0], [3.0, 0.1 + 0.2, 0.3], [inf, -1.0, 0.0]])
def test_of_equal_values_the_first_counts_and_infinity_is_equal_to_no_number(values: list[float]) -> None:
    assert first_least(values) == 1
    assert first_greatest([-value for value in values]) == 1


def test_infinity_is_clearly_more_than_any_number_but_not_than_itself() -> None:
    assert clearly_less(1.0, inf)
    assert not clearly_less(inf, inf)
