"""Planners of every family through real Spark and Delta; results are those of a plain recomputation whatever was moved."""

from __future__ import annotations

from pathlib import Path

import pytest
from polars.testing import assert_frame_equal
from pyspark.sql import SparkSession

from rebalance.history import read_history
from rebalance.run import run_intervals
from rebalance.tables.reader import open_tables
from tests.world import expected_matches, first_interval, make_world, stored, stored_results


@pytest.mark.parametrize("planner", ["redist", "readj", "frugal"])
def test_a_planner_named_in_the_file_moves_state_and_keeps_results(
    spark: SparkSession, tmp_path: Path, planner: str
) -> None:
    pipeline = make_world(tmp_path, planner=planner, intervals=2)
    assert run_intervals(pipeline) == 2
    records = read_history(pipeline.tables)
    assert {record.planner for record in records} == {planner}
    assert "migrate" in {record.kind for record in records}
    opened = open_tables(pipeline.tables)
    state = stored(pipeline, "state", version=opened.state_version)
    assert state["channel"].to_list() == opened.function.channel_of(state["key"].to_list()).tolist()
    for number in range(2):
        interval = first_interval(pipeline).shifted(number)
        assert_frame_equal(stored_results(pipeline, interval), expected_matches(pipeline, interval), check_dtypes=False)
