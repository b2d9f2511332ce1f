"""Columns of the events: which names are refused, and numbers that become wider from one interval to the next."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from pyspark.sql import SparkSession

from rebalance.errors import OperatorError, SourceError
from rebalance.pipeline.file import Pipeline
from rebalance.steps import run_step
from tests.support.world import expected_matches, first_interval, make_world, stored, stored_results

pytestmark = pytest.mark.usefixtures("few_rows")

ALL_COLUMNS = """
import pyarrow as pa

RESULTS = "columns STRING"
STATE = "n BIGINT"


def process(key, rows, state):
    return pa.table({"columns": [" ".join(rows.column_names)]}), pa.table({"n": [1]})
"""


def with_column(folder: Path, name: str, operator: str | None = None) -> Pipeline:
    """A world whose events have one column more."""
    pipeline = make_world(
        folder, intervals=1, events=100, planner="keep", **({"operator": operator} if operator else {})
    )
    for file in Path(pipeline.source.path).glob("*.parquet"):
        pl.read_parquet(file).with_columns(pl.lit("theirs").alias(name)).write_parquet(file)
    return pipeline


@pytest.mark.parametrize("name", ["key", "time", "salt", "Key", "TIME", "Salt"])
@pytest.mark.parametrize("step", ["collect_stats", "process_batch"])
def test_a_column_that_would_be_overwritten_is_refused_in_any_case(
    spark: SparkSession, tmp_path: Path, name: str, step: str
) -> None:
    pipeline = with_column(tmp_path, name)
    with pytest.raises(SourceError, match=f"the events have a column '{name}'; the name is needed for the"):
        run_step(step, pipeline, first_interval(pipeline))


@pytest.mark.parametrize("name", ["channel", "interval_id", "is_new", "Channel"])
def test_a_column_that_is_only_needed_inside_is_refused_where_the_operator_hands_it_on(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    pipeline = with_column(tmp_path / "fine", name)
    run_step("process_batch", pipeline, first_interval(pipeline))
    expected = expected_matches(pipeline, first_interval(pipeline))
    assert_frame_equal(stored_results(pipeline, first_interval(pipeline)), expected, check_dtypes=False)

    (tmp_path / "all.py").write_text(ALL_COLUMNS)
    function = f'[operator]\nfunction = "{tmp_path / "all.py"}"'
    handed_on = with_column(tmp_path / "refused", name, function)
    with pytest.raises(OperatorError, match=f"returns a column '{name}', a name that is needed. Leave it out of ROWS"):
        run_step("process_batch", handed_on, first_interval(handed_on))


def test_a_function_without_rows_gets_every_column_of_the_events(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "all.py").write_text(ALL_COLUMNS)
    pipeline = with_column(tmp_path, "more", '[operator]\nfunction = "all.py"')
    run_step("process_batch", pipeline, first_interval(pipeline))
    (columns,) = stored(pipeline, "results")["columns"].unique()
    assert sorted(columns.split()) == ["more", "price", "side", "symbol", "time", "ts"]


def test_numbers_may_become_wider_from_one_interval_to_the_next(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = make_world(tmp_path, intervals=3, events=300, planner="keep")
    kinds = [pl.Int32, pl.Int64, pl.Int16]
    for number, kind in enumerate(kinds):
        file = Path(pipeline.source.path) / f"{first_interval(pipeline).shifted(number).id}.parquet"
        events = pl.read_parquet(file)
        events.with_columns(pl.col("price").round().cast(kind)).write_parquet(file)
    for number in range(3):
        interval = first_interval(pipeline).shifted(number)
        for step in ("collect_stats", "process_batch"):
            run_step(step, pipeline, interval)
        found, expected = stored_results(pipeline, interval), wide_matches(pipeline, number, tmp_path / f"wide{number}")
        assert found.schema["value"] == found.schema["match_value"] == pl.Int64
        assert_frame_equal(found, expected, check_dtypes=False)
    assert stored(pipeline, "state").schema["value"] == pl.Int64


def wide_matches(pipeline: Pipeline, number: int, folder: Path) -> pl.DataFrame:
    """The plain recomputation on a copy of the events in one type, because polars does not read files of several."""
    folder.mkdir()
    for file in Path(pipeline.source.path).glob("*.parquet"):
        pl.read_parquet(file).with_columns(pl.col("price").cast(pl.Int64)).write_parquet(folder / file.name)
    wide = pipeline.model_copy(update={"source": pipeline.source.model_copy(update={"path": str(folder)})})
    return expected_matches(wide, first_interval(pipeline).shifted(number))


def test_floats_may_become_doubles(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = make_world(tmp_path, intervals=2, events=300, planner="keep")
    first = Path(pipeline.source.path) / f"{first_interval(pipeline).id}.parquet"
    pl.read_parquet(first).with_columns(pl.col("price").cast(pl.Float32)).write_parquet(first)
    for number in range(2):
        run_step("process_batch", pipeline, first_interval(pipeline).shifted(number))
    assert stored(pipeline, "state").schema["value"] == pl.Float64
    # Matches of the second interval with events of the first, which were floats.
    second = first_interval(pipeline).shifted(1)
    assert len(stored_results(pipeline, second).filter(pl.col("match_time") < second.start)) > 5
