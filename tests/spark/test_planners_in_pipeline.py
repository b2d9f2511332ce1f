"""Planners of every family through real Spark and Delta, over intervals whose hot keys change.

Results are those of a plain recomputation in every interval, whatever was moved. Ten intervals each take some twenty minutes:
make test ARGS="tests/spark/test_planners_in_pipeline.py --intervals 10".
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from polars.testing import assert_frame_equal
from pyspark.sql import SparkSession

from rebalance.config import Pipeline, load_pipeline
from rebalance.history import read_history
from rebalance.run import run_intervals
from rebalance.tables.reader import open_tables
from tests.world import WINDOWED_SUM, expected_matches, first_interval, make_world, stored, stored_results

#: Enough for a skew that changes; an interval of few events costs little more than one of none.
SIZE = {"events": 1000, "keys": 60}
NODES = """
[[nodes]]
name = "large"
channels = [0, 1]
cores = 8
ghz = 3.0
memory = 32
[[nodes]]
name = "small"
channels = [2, 3]
cores = 4
ghz = 2.0
memory = 16
"""
EAGER = "[planning.parameters]\ntau = 0.01\n"


@pytest.fixture(scope="module")
def intervals(request: pytest.FixtureRequest) -> int:
    """How many each planner goes through."""
    return int(request.config.getoption("--intervals"))


@pytest.fixture(autouse=True, scope="module")
def _few_rows(spark: SparkSession) -> Iterator[None]:
    """Statistics and checks of moves without generated code and without adapting plans: for a few rows, both take longer than the work.

    Processing and the move itself have sessions of their own, which this does not reach; the other files of this folder run all verbs
    with Spark's defaults.
    """
    settings = {
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.adaptive.enabled": "false",
    }
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield
    for name in settings:
        spark.conf.unset(name)


def check_state_is_where_the_function_says(pipeline: Pipeline) -> None:
    opened = open_tables(pipeline.tables)
    state = stored(pipeline, "state", version=opened.state_version)
    assert state["channel"].to_list() == opened.function.channel_of(state["key"].to_list()).tolist()


@pytest.mark.parametrize("planner", ["mixed", "redist", "readj", "frugal"])
def test_a_planner_named_in_the_file_moves_state_and_keeps_results(
    spark: SparkSession, tmp_path: Path, intervals: int, planner: str
) -> None:
    pipeline = make_world(tmp_path, planner=planner, intervals=intervals, **SIZE)
    assert run_intervals(pipeline) == intervals
    records = read_history(pipeline.tables)
    assert len(records) == intervals
    assert {record.planner for record in records} == {planner}
    assert "migrate" in {record.kind for record in records}
    check_state_is_where_the_function_says(pipeline)
    for number in range(intervals):
        interval = first_interval(pipeline).shifted(number)
        assert_frame_equal(stored_results(pipeline, interval), expected_matches(pipeline, interval), check_dtypes=False)


@pytest.fixture(scope="module")
def single(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, intervals: int) -> Pipeline:
    """The same events on one channel, where nothing can be split, moved or merged."""
    folder = tmp_path_factory.mktemp("single")
    pipeline = make_world(folder, operator=WINDOWED_SUM, channels=1, planner="keep", intervals=intervals, **SIZE)
    assert run_intervals(pipeline) == intervals
    return pipeline


@pytest.mark.parametrize(
    ("planner", "more", "changes"),
    [
        pytest.param("hybrid", "", True, id="hybrid"),
        pytest.param("pkg", "", True, id="pkg"),
        # What it does depends on the seconds that Spark measures.
        pytest.param("cg", "", False, id="cg"),
        pytest.param("ststream", NODES, True, id="ststream on two nodes"),
        pytest.param("halving", EAGER, True, id="halving"),
        pytest.param("doubling", EAGER, True, id="doubling"),
        pytest.param("halving", EAGER, True, id="halving, state stays where it was made"),
    ],
)
def test_splits_tokens_and_virtual_workers_give_the_results_of_a_single_channel(
    single: Pipeline,
    tmp_path: Path,
    intervals: int,
    request: pytest.FixtureRequest,
    planner: str,
    more: str,
    changes: bool,
) -> None:
    pipeline = make_world(
        tmp_path, operator=WINDOWED_SUM, planner=planner, events_folder=Path(single.source.path), more=more
    )
    state_stays = "state stays" in request.node.callspec.id
    if state_stays:
        text = pipeline.file.read_text().replace("theta_max", 'consistency = "merge"\ntheta_max')
        pipeline.file.write_text(text)
        pipeline = load_pipeline(pipeline.file)
    assert run_intervals(pipeline) == intervals
    records = read_history(pipeline.tables)
    assert len(records) == intervals
    assert {record.planner for record in records} == {planner}
    assert "apply" in {record.decision for record in records} or not changes
    if not state_stays:
        check_state_is_where_the_function_says(pipeline)
    for number in range(intervals):
        interval = first_interval(pipeline).shifted(number)
        assert_frame_equal(stored_results(pipeline, interval), stored_results(single, interval))
