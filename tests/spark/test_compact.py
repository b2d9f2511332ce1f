"""Keys that are counted and kept by Spark, of which only some come to the planner by name: the same results, and what is planned is reached."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from pyspark.sql import SparkSession

from rebalance.documents.interval import interval_document
from rebalance.documents.key import key_document
from rebalance.documents.plan import plan_document
from rebalance.documents.trial import try_plan
from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.steps import counting_compact
from rebalance.steps.run import run_intervals
from rebalance.storage import control
from rebalance.storage.held import NUMBERS
from rebalance.storage.history import read_history
from tests.support.few_names import (
    check_again,
    check_more_channels,
    check_places,
    check_quality_of,
    check_reached,
    check_results,
    check_stopped,
)
from tests.support.world import (
    WINDOWED_SUM,
    Stages,
    check_schemas,
    expected_sums,
    first_interval,
    make_world,
    run_in_stages,
    stored,
    stored_results,
)

INTERVALS = 4
#: So few routes that most of the keys need no name.
FEW = 'mixed"\nstatistics = "compact"\nmax_routes = 6\nmode = "auto'
pytestmark = pytest.mark.usefixtures("few_rows")


def intervals(pipeline: Pipeline) -> list[str]:
    return [first_interval(pipeline).shifted(number).id for number in range(INTERVALS)]


@pytest.fixture(scope="module")
def stages(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Stages:
    folder = tmp_path_factory.mktemp("compact")
    pipeline = make_world(folder / "world", planner=FEW, intervals=INTERVALS)
    return run_in_stages(pipeline, folder, INTERVALS)


@pytest.fixture(scope="module")
def exact(stages: Stages, tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """The same events, counted exactly."""
    planner = FEW.replace("compact", "exact")
    events = Path(stages.pipeline.source.path)
    pipeline = make_world(tmp_path_factory.mktemp("exact"), planner=planner, events_folder=events)
    run_intervals(pipeline, count=INTERVALS)
    return pipeline


def test_results_equal_a_plain_recomputation_in_every_interval(stages: Stages) -> None:
    check_results(stages.pipeline, range(INTERVALS))


def test_most_keys_are_counted_without_a_name_and_state_moves_all_the_same(stages: Stages) -> None:
    root = stages.pipeline.tables
    for counted in control.rows(root, "interval_stats"):
        named = control.count(root, "key_stats", interval_id=counted["interval_id"])
        assert counted["statistics"] == "compact"
        assert 0 < named < counted["keys"] / 2
    records = read_history(root)
    assert all(record.applied for record in records)
    assert any(record.moved_bytes for record in records)
    assert all(record.reached < record.before for record in records)


def test_what_the_plan_predicted_is_what_was_reached(stages: Stages) -> None:
    check_reached(stages.pipeline, range(INTERVALS))


def test_named_keys_and_the_rest_of_the_slots_add_up_to_exact_statistics(stages: Stages, exact: Pipeline) -> None:
    for interval_id in intervals(exact):
        all_keys = stored(exact, "key_stats").filter(pl.col("interval_id") == interval_id)
        sums = stored(stages.pipeline, "key_sums").filter(pl.col("interval_id") == interval_id)
        assert_frame_equal(sums.select("key", *NUMBERS), all_keys.select("key", *NUMBERS).sort("key"))
        named = stored(stages.pipeline, "key_stats").filter(pl.col("interval_id") == interval_id)
        same = all_keys.filter(pl.col("key").is_in(named["key"].implode())).sort("key")
        assert_frame_equal(
            named.sort("key").select("key", "slot", "cost", *NUMBERS), same.select("key", "slot", "cost", *NUMBERS)
        )
        rest = stored(stages.pipeline, "slot_stats").filter(pl.col("interval_id") == interval_id)
        left = all_keys.filter(~pl.col("key").is_in(named["key"].implode()))
        expected = left.group_by("slot").agg(
            pl.len().cast(pl.Int64).alias("keys"), *(pl.col(name).sum() for name in ("cost", *NUMBERS))
        )
        assert_frame_equal(rest.select(expected.columns).sort("slot"), expected.sort("slot"))


def test_every_state_row_is_where_the_function_says(stages: Stages) -> None:
    check_places(stages.pipeline)


def test_checks_of_quality_hold_and_know_the_rows_of_keys_without_a_name(stages: Stages) -> None:
    check_quality_of(stages.pipeline, INTERVALS)


def test_the_tables_have_the_columns_of_their_schemas(stages: Stages) -> None:
    check_schemas(stages.pipeline.tables, "string")


@pytest.mark.parametrize("step", ["2 collect_stats", "2 make_plan", "2 migrate_state", "2 process_batch"])
def test_a_step_that_is_run_again_gives_the_same(stages: Stages, tmp_path: Path, step: str) -> None:
    check_again(stages, tmp_path, step, INTERVALS)


@pytest.mark.parametrize("moment", ["sums stored", "keys stored", "channels stored"])
def test_counting_that_is_stopped_on_the_way_and_run_again_gives_the_same(
    stages: Stages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    check_stopped(stages, tmp_path, monkeypatch, moment, counting_compact)


def test_documents_know_all_keys_and_say_which_have_no_name(stages: Stages) -> None:
    pipeline, newest = stages.pipeline, intervals(stages.pipeline)[-1]
    keys = control.read(pipeline.tables, "key_sums", columns=["key"], interval_id=newest)["key"].to_pylist()
    named = control.read(pipeline.tables, "key_stats", columns=["key"], interval_id=newest)["key"].to_pylist()
    found = interval_document(pipeline, newest)
    assert found["keys"] == len(keys) == sum(channel["keys"] for channel in found["channels"])
    assert found["reached"] == found["planned"]
    nameless = min(set(keys) - set(named))
    assert "not among the keys that were counted by name" in key_document(pipeline, nameless)["why"]
    assert "events" in key_document(pipeline, named[0])["why"].rpartition("it had")[2]
    tried = try_plan(pipeline, planner="frugal", channels=5)
    assert tried["keys"] == len(keys)
    assert plan_document(pipeline)["certificate"] is None


def test_adding_channels_moves_keys_that_have_no_name(stages: Stages, tmp_path: Path) -> None:
    check_more_channels(stages, tmp_path)


@pytest.mark.parametrize(
    ("was", "becomes"), [("compact", "exact"), ("exact", "compact")], ids=["to exact", "to compact"]
)
def test_the_way_of_counting_can_be_changed_between_intervals(
    stages: Stages, exact: Pipeline, tmp_path: Path, was: str, becomes: str
) -> None:
    pipeline = make_world(
        tmp_path, planner=FEW.replace("compact", was), events_folder=Path(stages.pipeline.source.path)
    )
    run_intervals(pipeline, count=2)
    file = pipeline.file
    file.write_text(file.read_text().replace(f'statistics = "{was}"', f'statistics = "{becomes}"'))
    pipeline = load_pipeline(file)
    run_intervals(pipeline, first=first_interval(pipeline).shifted(2), count=2)
    check_results(pipeline, (2, 3))
    for number in (2, 3):
        interval = first_interval(pipeline).shifted(number)
        mine, theirs = (control.rows(one.tables, "channel_stats", interval_id=interval.id) for one in (pipeline, exact))
        assert sum(row["held_bytes"] for row in mine) == sum(row["held_bytes"] for row in theirs)
        assert sum(row["keys"] for row in mine) == sum(row["keys"] for row in theirs)


def test_an_operator_that_does_not_keep_its_rows_is_counted_alike(
    spark: SparkSession, stages: Stages, tmp_path: Path
) -> None:
    pipelines = []
    for statistics in ("compact", "exact"):
        pipeline = make_world(
            tmp_path / statistics,
            operator=WINDOWED_SUM,
            planner=FEW.replace("compact", statistics),
            events_folder=Path(stages.pipeline.source.path),
        )
        run_intervals(pipeline, count=3)
        pipelines.append(pipeline)
    compact, exact = pipelines
    for number in range(3):
        interval = first_interval(compact).shifted(number)
        assert_frame_equal(stored_results(compact, interval), expected_sums(compact, interval), check_dtypes=False)
        sums, keys = (
            stored(one, table).filter(pl.col("interval_id") == interval.id).sort("key").select("key", *NUMBERS)
            for one, table in ((compact, "key_sums"), (exact, "key_stats"))
        )
        assert_frame_equal(sums, keys)


def test_plans_balance_and_move_about_as_little_as_exact_ones(stages: Stages, exact: Pipeline) -> None:
    ours, theirs = read_history(stages.pipeline.tables), read_history(exact.tables)
    assert np.mean([record.reached for record in ours]) <= np.mean([record.reached for record in theirs]) * 1.02


def test_intervals_without_events_are_counted_with_what_is_held_and_then_with_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    pipeline = make_world(tmp_path, planner=FEW, intervals=1)
    run_intervals(pipeline, count=4)
    counted = sorted(control.rows(pipeline.tables, "interval_stats"), key=lambda row: str(row["interval_id"]))
    assert [row["rows"] for row in counted] == [3000, 0, 0, 0]
    assert counted[0]["keys"] == counted[1]["keys"] > 100
    assert [row["keys"] for row in counted[2:]] == [0, 0]
    assert [plan["decision"] for plan in control.rows(pipeline.tables, "plans")].count("reject") == 0
