"""Planners of every family through real Spark and Delta, over intervals whose hot keys change.

Results are those of a plain recomputation in every interval, whatever was moved. pkg, cg, ststream, halving and doubling go through ten
intervals, the others through three; all through any other number, some ten seconds each, with
make test ARGS="tests/spark/test_planners_in_pipeline.py --intervals 10".
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from polars.testing import assert_frame_equal
from pyspark.sql import SparkSession

from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.steps.process_batch import process_batch
from rebalance.steps.run import run_intervals
from rebalance.storage.history import read_history
from rebalance.storage.reader import open_tables
from tests.support.world import WINDOWED_SUM, expected_matches, first_interval, make_world, stored, stored_results

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
FEW, MANY = 3, 10


def asked_for(config: pytest.Config, default: int) -> int:
    """How many intervals to go through."""
    return int(config.getoption("--intervals") or default)


@pytest.fixture(autouse=True, scope="module")
def _few_rows(spark: SparkSession) -> Iterator[None]:
    """Without generated code, adaptive plans and parallel reading: for a few rows, all of them take longer than the work.

    The other files of this folder run all verbs with the product's defaults.
    """
    settings = {
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.leafNodeDefaultParallelism": "1",
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
    spark: SparkSession, tmp_path: Path, pytestconfig: pytest.Config, planner: str
) -> None:
    intervals = asked_for(pytestconfig, FEW)
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
def single(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Pipeline:
    """The same events on one channel, where nothing can be split, moved or merged; so nothing is planned either."""
    folder, intervals = tmp_path_factory.mktemp("single"), asked_for(pytestconfig, MANY)
    pipeline = make_world(folder, operator=WINDOWED_SUM, channels=1, planner="keep", intervals=intervals, **SIZE)
    for number in range(intervals):
        process_batch(pipeline, first_interval(pipeline).shifted(number))
    return pipeline


@pytest.mark.parametrize(
    ("planner", "more", "intervals"),
    [
        pytest.param("hybrid", "", FEW, id="hybrid"),
        pytest.param("pkg", "", MANY, id="pkg"),
        pytest.param("cg", "", MANY, id="cg"),
        pytest.param("ststream", NODES, MANY, id="ststream on two nodes"),
        pytest.param("halving", EAGER, MANY, id="halving"),
        pytest.param("doubling", EAGER, MANY, id="doubling"),
        pytest.param("halving", EAGER, FEW, id="halving, state stays where it was made"),
    ],
)
def test_splits_tokens_and_virtual_workers_give_the_results_of_a_single_channel(
    single: Pipeline, tmp_path: Path, request: pytest.FixtureRequest, planner: str, more: str, intervals: int
) -> None:
    intervals = asked_for(request.config, intervals)
    pipeline = make_world(
        tmp_path, operator=WINDOWED_SUM, planner=planner, events_folder=Path(single.source.path), more=more
    )
    state_stays = "state stays" in request.node.callspec.id
    if state_stays:
        text = pipeline.file.read_text().replace("theta_max", 'consistency = "merge"\ntheta_max')
        pipeline.file.write_text(text)
        pipeline = load_pipeline(pipeline.file)
    assert run_intervals(pipeline, count=intervals) == intervals
    records = read_history(pipeline.tables)
    assert len(records) == intervals
    assert {record.planner for record in records} == {planner}
    # What cg does depends on the seconds that Spark measures.
    assert "apply" in {record.decision for record in records} or planner == "cg"
    if not state_stays:
        check_state_is_where_the_function_says(pipeline)
    for number in range(intervals):
        interval = first_interval(pipeline).shifted(number)
        assert_frame_equal(stored_results(pipeline, interval), stored_results(single, interval))
