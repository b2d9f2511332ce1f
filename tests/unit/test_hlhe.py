"""HLHE: few representatives whose errors cancel."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance.planners.fang.hlhe import discretize
from rebalance.simulate.workload import Workload
from tests.reference.fang import hlhe

EXAMPLE = np.array([8.0, 6, 3, 2, 2, 1, 1, 1, 1, 1])


def test_the_papers_example_deviates_by_nothing() -> None:
    phi = discretize(EXAMPLE, r=2)
    assert phi.tolist() == [8, 4, 4, 2, 2, 2, 1, 1, 1, 1]
    assert EXAMPLE.sum() - phi.sum() == 0


def test_naive_rounding_of_the_papers_example_deviates_by_three() -> None:
    naive = np.array([8, 5, 2, 2, 2, 2, 2, 2, 2, 2])
    assert abs(EXAMPLE.sum() - naive.sum()) == 3


@settings(max_examples=80, deadline=None)
@given(values=st.lists(st.integers(1, 5000), min_size=1, max_size=60), r=st.integers(0, 8))
def test_agrees_with_the_plain_transcription(values: list[int], r: int) -> None:
    assert discretize(np.array(values, dtype=float), r).tolist() == hlhe([float(v) for v in values], r)


@settings(max_examples=50, deadline=None)
@given(values=st.lists(st.integers(1, 5000), max_size=60), r=st.integers(0, 8))
def test_with_a_long_tail_the_total_is_off_by_at_most_R(values: list[int], r: int) -> None:  # noqa: N802
    # The tail can only make up for what is above it if it is long enough.
    x = np.array(values + [1] * (len(values) * 2**r + 1), dtype=float)
    assert abs(x.sum() - discretize(x, r).sum()) <= 2**r


@settings(max_examples=50, deadline=None)
@given(
    values=st.lists(st.integers(0, 50), min_size=1, max_size=40), r=st.integers(0, 8), unit=st.sampled_from([0.5, 4.0])
)
def test_values_have_no_unit(values: list[int], r: int, unit: float) -> None:
    x = np.array(values, dtype=float)
    assert discretize(x * unit, r).tolist() == (discretize(x, r) * unit).tolist()


def test_zero_stays_zero() -> None:
    assert discretize(np.zeros(3), r=4).tolist() == [0, 0, 0]
    assert discretize(np.array([0.0, 5.0, 0.0]), r=0).tolist() == [0, 5, 0]


@pytest.mark.parametrize("r", range(9))
def test_on_the_papers_workload_estimated_loads_are_within_one_percent(
    r: int, workload_costs: tuple[np.ndarray, Workload]
) -> None:
    cost, workload = workload_costs
    true = np.bincount(workload.home, weights=cost)
    estimated = np.bincount(workload.home, weights=discretize(cost, r, part=workload.home))
    assert np.abs(estimated / true - 1).max() <= 0.01
    assert np.abs(estimated - true).max() <= 2**r


@pytest.fixture(scope="module")
def workload_costs() -> tuple[np.ndarray, Workload]:
    """Tuples per key in one interval of the default workload, 10^6 of them; every key has one at least."""
    workload = Workload()
    (interval,) = workload.intervals(1)
    return np.maximum(np.bincount(interval.draw(1_000_000), minlength=workload.keys), 1).astype(float), workload
