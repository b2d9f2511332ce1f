"""Planners of every family through real Spark and Delta, over intervals whose hot keys change.

Results are those of a plain recomputation in every interval, whatever was moved: over three intervals, in a long run over ten, or over
any other number with make test ARGS="tests/spark/test_planners_in_pipeline.py --intervals 20".
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from polars.testing import assert_frame_equal
from pyspark.sql import SparkSession

from rebalance.documents.plan import plan_document
from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.planners.tokens.base import TOKENS, claimed, token_ring
from rebalance.steps.process_batch import process_batch
from rebalance.steps.run import run_intervals
from rebalance.storage import control
from rebalance.storage.epochs import load_function
from rebalance.storage.history import read_history
from rebalance.storage.reader import open_tables
from rebalance.storage.statistics import loads_under
from tests.support.budget import cases, is_long
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
#: Planners that keep keys whole: of each family in every run, all of them in a long one.
WHOLE = ["mixed", "redist", "readj", "frugal"]
WHOLE += ["scan", "llfd", "mintable", "minmig", "mixedbf"] if is_long() else []
EAGER = "[planning.parameters]\ntau = 0.01\n"
pytestmark = pytest.mark.usefixtures("few_rows")


@pytest.fixture(scope="module")
def intervals(pytestconfig: pytest.Config) -> int:
    """How many intervals to go through."""
    return int(pytestconfig.getoption("--intervals") or cases(3, long=10))


def check_state_is_where_the_function_says(pipeline: Pipeline) -> None:
    opened = open_tables(pipeline.tables)
    state = stored(pipeline, "state", version=opened.state_version)
    assert state["channel"].to_list() == opened.function.channel_of(state["key"].to_list()).tolist()


def check_what_was_planned_was_reached(pipeline: Pipeline) -> None:
    """To the row, where keys stay whole: by the statistics, and by what Spark's own metrics say that each channel got."""
    for batch in control.rows(pipeline.tables, "batches"):
        plan = control.rows(pipeline.tables, "plans", interval_id=batch["interval_id"])[-1]
        if plan["decision"] == "apply":
            assert batch["loads"] == plan["loads_after"]
        stats = control.read(pipeline.tables, "key_stats", interval_id=batch["interval_id"])
        function = load_function(pipeline.tables, batch["function_version"])
        assert batch["tuples"] == loads_under(function, stats, "tuples").tolist()


def check_every_plan_tells_the_measures_of_the_paper(pipeline: Pipeline) -> None:
    for plan in control.rows(pipeline.tables, "plans"):
        told = [note for note in plan["notes"].split("; ") if note.startswith(("before: ", "planned: ", "as it is: "))]
        assert len(told) == (1 if told[0].startswith("as it is") else 2)
        assert all(figure in note for note in told for figure in ("r_s ", "b_s ", ", b ", ", m ", "b·(1+m) "))
    explained = plan_document(pipeline)["considered"]
    assert any(sentence.startswith(("Planned: r_s ", "As it is: r_s ")) for sentence in explained)


@pytest.mark.parametrize("planner", WHOLE)
def test_a_planner_named_in_the_file_moves_state_and_keeps_results(
    spark: SparkSession, tmp_path: Path, intervals: int, planner: str
) -> None:
    pipeline = make_world(tmp_path, planner=planner, intervals=intervals, **SIZE)
    assert run_intervals(pipeline) == intervals
    records = read_history(pipeline.tables)
    assert len(records) == intervals
    assert {record.planner for record in records} == {planner}
    assert any(record.applied and record.moved_bytes for record in records)
    check_what_was_planned_was_reached(pipeline)
    check_state_is_where_the_function_says(pipeline)
    if planner in ("scan", "redist", "readj"):
        check_every_plan_tells_the_measures_of_the_paper(pipeline)
    for number in range(intervals):
        interval = first_interval(pipeline).shifted(number)
        assert_frame_equal(stored_results(pipeline, interval), expected_matches(pipeline, interval), check_dtypes=False)


@pytest.fixture(scope="module")
def single(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, intervals: int) -> Pipeline:
    """The same events on one channel, where nothing can be split, moved or merged; so nothing is planned either."""
    folder = tmp_path_factory.mktemp("single")
    pipeline = make_world(folder, operator=WINDOWED_SUM, channels=1, planner="keep", intervals=intervals, **SIZE)
    for number in range(intervals):
        process_batch(pipeline, first_interval(pipeline).shifted(number))
    return pipeline


@pytest.mark.parametrize(
    ("planner", "more", "consistency"),
    [
        pytest.param("hybrid", "", "move", id="hybrid"),
        pytest.param("pkg", "", "move", id="pkg"),
        pytest.param("cg", "", "move", id="cg"),
        pytest.param("ststream", NODES, "move", id="ststream on two nodes"),
        pytest.param("halving", EAGER, "move", id="halving"),
        pytest.param("doubling", EAGER, "move", id="doubling"),
        pytest.param("halving", EAGER, "merge", id="halving, state stays where it was made"),
    ],
)
def test_splits_tokens_and_virtual_workers_give_the_results_of_a_single_channel(
    single: Pipeline, tmp_path: Path, intervals: int, planner: str, more: str, consistency: str
) -> None:
    pipeline = make_world(
        tmp_path,
        operator=WINDOWED_SUM,
        planner=f'{planner}"\nconsistency = "{consistency}',
        events_folder=Path(single.source.path),
        more=more,
    )
    assert run_intervals(pipeline, count=intervals) == intervals
    records = read_history(pipeline.tables)
    assert len(records) == intervals
    assert {record.planner for record in records} == {planner}
    # What cg does depends on the seconds that Spark measures.
    assert "apply" in {record.decision for record in records} or planner == "cg"
    if consistency == "move":
        check_state_is_where_the_function_says(pipeline)
    if planner in ("ststream", "halving", "doubling"):
        check_what_was_planned_was_reached(pipeline)
    for number in range(intervals):
        interval = first_interval(pipeline).shifted(number)
        assert_frame_equal(stored_results(pipeline, interval), stored_results(single, interval))


def test_a_channel_that_joins_claims_tokens_and_the_results_stay_those_of_a_single_channel(
    single: Pipeline, tmp_path: Path, intervals: int
) -> None:
    source = Path(single.source.path)
    three = make_world(tmp_path, operator=WINDOWED_SUM, planner="halving", channels=3, events_folder=source, more=EAGER)
    assert run_intervals(three, count=intervals - 1) == intervals - 1
    before = open_tables(three.tables).function
    file = tmp_path / "world.toml"
    file.write_text(file.read_text().replace("count = 3", "count = 4"))
    four = load_pipeline(file)
    assert run_intervals(four, count=1) == 1
    after = open_tables(four.tables).function
    tokens = after.memo[TOKENS]
    assert np.array_equal(after.slots, token_ring(tokens))
    # From the ring of the last plan, in which somebody was halved; it would begin with 64 each.
    kept = before.memo[TOKENS]
    assert all(new <= old for new, old in zip(tokens, [*kept, claimed(kept)], strict=True))
    assert min(kept) < 64
    check_state_is_where_the_function_says(four)
    check_what_was_planned_was_reached(four)
    for number in range(intervals):
        interval = first_interval(four).shifted(number)
        assert_frame_equal(stored_results(four, interval), stored_results(single, interval))
