"""Bad statistics stop the run: the message names the expectation, the number of bad rows and examples."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

from rebalance.errors import OrderError, QualityError
from rebalance.pipeline.file import Pipeline
from rebalance.steps.check_quality import check_quality, docs_index
from rebalance.steps.collect_stats import collect_stats
from rebalance.steps.make_plan import make_plan
from rebalance.steps.process_batch import process_batch
from rebalance.storage import control
from tests.support.world import Stages, first_interval


@pytest.fixture(scope="module")
def pipeline(matches: Stages, tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """One interval up to its statistics."""
    return matches.copy(tmp_path_factory.mktemp("quality"), "0 check_quality")


@pytest.mark.parametrize(
    ("updates", "expectation", "detail"),
    [
        pytest.param(
            {"tuples": "-3"},
            "expect_column_values_to_be_between on tuples",
            "bad rows, for example -3",
            id="a negative count",
        ),
        pytest.param(
            {"channel": "99"},
            "expect_column_values_to_be_between on channel",
            "bad rows, for example 99",
            id="a channel out of range",
        ),
        pytest.param({"cost": "NULL"}, "expect_column_values_to_not_be_null on cost", "bad rows", id="a missing cost"),
        pytest.param(
            {"key": "'k0000001'"}, "expect_column_values_to_be_unique on key", "for example k0000001", id="a key twice"
        ),
        pytest.param(
            {"state_bytes": "window_bytes + 1"},
            "expect_column_pair_values_a_to_be_greater_than_b",
            "bad rows",
            id="less state in the window than in the interval",
        ),
        pytest.param(
            {"tuples": "tuples + 1"},
            "expect_column_sum_to_be_between on tuples",
            "observed",
            id="counts that do not add up to the events",
        ),
    ],
)
def test_each_kind_of_bad_row_is_found(
    pipeline: Pipeline, updates: dict[str, str], expectation: str, detail: str
) -> None:
    interval = first_interval(pipeline)
    stats = DeltaTable(f"{pipeline.tables}/key_stats")
    version = stats.version()
    try:
        stats.update(predicate="slot < 20000", updates=updates)
        with pytest.raises(QualityError) as failure:
            check_quality(pipeline, interval)
        assert expectation in str(failure.value)
        assert detail in str(failure.value)
        with pytest.raises(QualityError, match="Nothing was planned"):
            make_plan(pipeline, interval)
        assert not control.exists(pipeline.tables, "plans")
    finally:
        DeltaTable(f"{pipeline.tables}/key_stats").restore(version)


def test_good_statistics_pass_and_are_documented(pipeline: Pipeline) -> None:
    assert "checks on" in check_quality(pipeline, first_interval(pipeline))
    assert "key_stats" in docs_index(pipeline).read_text()


def test_an_unusual_volume_is_not_planned_on(matches: Stages, tmp_path: Path) -> None:
    pipeline = matches.copy(tmp_path, "done", becomes="[quality]\nvolume_factor = 2.0")
    without_events = first_interval(pipeline).shifted(3)
    process_batch(pipeline, without_events)
    collect_stats(pipeline, without_events)
    with pytest.raises(QualityError, match=r"expect_column_sum_to_be_between on tuples .*1500.*observed 0"):
        check_quality(pipeline, without_events)


def test_statistics_are_needed_first(pipeline: Pipeline) -> None:
    with pytest.raises(OrderError, match="Run collect_stats first"):
        check_quality(pipeline, first_interval(pipeline).shifted(1))
    with pytest.raises(OrderError, match="Run process_batch first"):
        collect_stats(pipeline, first_interval(pipeline).shifted(1))
