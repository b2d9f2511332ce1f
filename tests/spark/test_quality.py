"""A team's own expectations on the interval's events, which Spark reads."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
from pyspark.sql import SparkSession

from rebalance.errors import QualityError
from rebalance.pipeline.file import Pipeline
from rebalance.storage import control
from tests.support.checking import check_quality
from tests.support.counted import counted_pipeline, first_interval, key_row, put_statistics

pytestmark = pytest.mark.usefixtures("few_rows")

HEAD = "from great_expectations import expectations as gxe\ndef events():\n    return "


def pipeline_with(folder: Path, checks: str) -> Pipeline:
    """Two hours of events, the first of them counted; all prices of the second are missing."""
    pipeline = counted_pipeline(folder, 'expectations = "checks.py"')
    (folder / "checks.py").write_text(HEAD + checks + "\n")
    times = [datetime(2026, 1, 1, hour, 30, tzinfo=UTC) for hour in (0, 0, 0, 1)]
    events = {"symbol": ["a", "a", "b", "b"], "ts": times, "price": [1.0, 2.0, -3.0, None]}
    (folder / "events").mkdir()
    pl.DataFrame(events).write_parquet(folder / "events" / "events.parquet")
    put_statistics(pipeline, first_interval(pipeline), [key_row("a", tuples=2), key_row("b", tuples=1)])
    return pipeline


def nothing_is_cached(spark: SparkSession) -> bool:
    return bool(spark._jsparkSession.sharedState().cacheManager().isEmpty())


def test_only_the_interval_s_own_events_are_checked(spark: SparkSession, tmp_path: Path) -> None:
    not_null = 'gxe.ExpectColumnValuesToNotBeNull(column="price")'
    pipeline = pipeline_with(tmp_path, f"[{not_null}, gxe.ExpectTableRowCountToEqual(value=3)]")
    assert check_quality(pipeline, first_interval(pipeline)).endswith("on 2 keys and 2 on the events passed")
    rows = control.rows(pipeline.tables, "quality_runs", suite="events")
    assert [(row["expectation"], row["column"]) for row in rows] == [
        ("expect_column_values_to_not_be_null", "price"),
        ("expect_table_row_count_to_equal", ""),
    ]
    assert nothing_is_cached(spark)
    put_statistics(pipeline, first_interval(pipeline).shifted(1), [key_row("b", tuples=1)])
    with pytest.raises(
        QualityError,
        match=r"not_be_null on price of events: 1 bad rows.*row_count_to_equal on the table of events .*observed 1",
    ):
        check_quality(pipeline, first_interval(pipeline).shifted(1))
    assert nothing_is_cached(spark)


def test_bad_events_stop_planning_or_warn_with_numbers_and_examples(spark: SparkSession, tmp_path: Path) -> None:
    positive = 'gxe.ExpectColumnValuesToBeBetween(column="price", min_value=0, severity="{}")'
    stops = pipeline_with(tmp_path / "stops", f"[{positive.format('critical')}]")
    with pytest.raises(QualityError, match=r"values_to_be_between on price of events .*: 1 bad rows, for example -3.0"):
        check_quality(stops, first_interval(stops))
    warns = pipeline_with(tmp_path / "warns", f"[{positive.format('warning')}]")
    said = check_quality(warns, first_interval(warns))
    assert "on 2 keys passed; 1 warning: expect_column_values_to_be_between on price of events" in said
    pages = {
        page.relative_to(tmp_path).parts[4]: page.stem for page in tmp_path.glob("warns/tables/*/valid*/**/*.html")
    }
    assert pages == {"key_stats": "passed", "events": "warned"}


@pytest.mark.parametrize(
    "one",
    [
        'gxe.ExpectColumnValuesToBeInSet(column="symbol", value_set=["a", "b"])',
        'gxe.ExpectColumnValuesToBeOfType(column="price", type_="DoubleType")',
        'gxe.ExpectCompoundColumnsToBeUnique(column_list=["symbol", "price"])',
        'gxe.ExpectColumnMeanToBeBetween(column="price", min_value=-1, max_value=1)',
        'gxe.ExpectColumnValuesToMatchRegex(column="symbol", regex="^[ab]$")',
        "gxe.UnexpectedRowsExpectation(unexpected_rows_query=\"SELECT * FROM {batch} WHERE time < '2026-01-01'\")",
    ],
    ids=lambda one: one.split("(")[0],
)
def test_the_usual_kinds_of_expectations_work_on_events(spark: SparkSession, tmp_path: Path, one: str) -> None:
    pipeline = pipeline_with(tmp_path, f"[{one}]")
    assert "1 on the events passed" in check_quality(pipeline, first_interval(pipeline))


def test_a_check_on_a_column_the_events_do_not_have_fails_and_says_so(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = pipeline_with(tmp_path, '[gxe.ExpectColumnValuesToNotBeNull(column="prize")]')
    with pytest.raises(QualityError, match=r"on prize of events: it could not be checked: .*prize"):
        check_quality(pipeline, first_interval(pipeline))
    assert nothing_is_cached(spark)


def test_without_events_values_are_good(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = pipeline_with(tmp_path, '[gxe.ExpectColumnValuesToNotBeNull(column="price")]')
    empty = first_interval(pipeline).shifted(50)
    put_statistics(pipeline, empty, [])
    assert "1 on the events passed" in check_quality(pipeline, empty)
