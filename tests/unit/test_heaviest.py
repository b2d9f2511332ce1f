"""Orders of many numbers are those of a stable sort, whatever sorts them."""

from __future__ import annotations

import numpy as np
import pytest

from rebalance.planning.heaviest import ascending, heaviest


@pytest.mark.parametrize("size", [0, 1, 999, 1000, 20_000])
@pytest.mark.parametrize("kinds", [1, 3, 1000, 10**9], ids=lambda kinds: f"{kinds} values at most")
def test_equal_numbers_stay_in_the_order_they_came_in(size: int, kinds: int) -> None:
    values = np.random.default_rng(size + kinds).integers(-kinds, kinds, size) / 7.0
    values[: size // 3] = np.where(values[: size // 3] > 0, np.inf, -0.0)
    assert ascending(values).tolist() == sorted(range(size), key=lambda i: (values[i], i))
    assert heaviest(values, size // 2).tolist() == sorted(range(size), key=lambda i: (-values[i], i))[: size // 2]
