"""Three drifting intervals through all five verbs, on real Spark and Delta, for both operators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from pyspark.sql import SparkSession

import rebalance
from rebalance.pipeline.file import Pipeline
from rebalance.pipeline.intervals import Interval
from rebalance.spark.fingerprint import rows_changed
from rebalance.steps.process_batch import process_batch
from rebalance.steps.run import next_interval, run_intervals
from rebalance.storage import control
from rebalance.storage.epochs import all_epochs, load_function
from rebalance.storage.history import read_history
from tests.support.world import (
    LATEST_MATCH,
    WINDOWED_SUM,
    Stages,
    check_schemas,
    contents,
    expected_matches,
    expected_sums,
    first_interval,
    make_world,
    stored,
    stored_results,
)

INTERVALS = 3


@dataclass(frozen=True)
class World:
    """The same events through four channels with moves, and through a single one, where there is nothing to plan."""

    balanced: Pipeline
    single: Pipeline
    expected: Callable[[Pipeline, Interval], pl.DataFrame]


@pytest.fixture(scope="module", params=["latest_match", "windowed_sum"])
def world(
    request: pytest.FixtureRequest, spark: SparkSession, matches: Stages, tmp_path_factory: pytest.TempPathFactory
) -> World:
    folder, events = tmp_path_factory.mktemp(request.param), Path(matches.pipeline.source.path)
    operator, expected = (
        (LATEST_MATCH, expected_matches) if request.param == "latest_match" else (WINDOWED_SUM, expected_sums)
    )
    balanced = matches.pipeline
    if operator == WINDOWED_SUM:
        balanced = make_world(folder / "balanced", operator=operator, events_folder=events)
        assert run_intervals(balanced) == INTERVALS
    single = make_world(folder / "single", operator=operator, channels=1, planner="keep", events_folder=events)
    for interval in intervals(single):
        process_batch(single, interval)
    return World(balanced, single, expected)


def intervals(pipeline: Pipeline) -> list[Interval]:
    return [first_interval(pipeline).shifted(number) for number in range(INTERVALS)]


def test_results_equal_a_plain_recomputation_in_every_interval(world: World) -> None:
    for interval in intervals(world.balanced):
        expected = world.expected(world.balanced, interval)
        assert len(expected) > 100
        assert_frame_equal(stored_results(world.balanced, interval), expected, check_dtypes=False)


def test_results_equal_those_of_a_single_channel(world: World) -> None:
    for interval in intervals(world.balanced):
        assert_frame_equal(stored_results(world.balanced, interval), stored_results(world.single, interval))


def test_state_was_moved_and_the_load_came_down(world: World) -> None:
    records = read_history(world.balanced.tables)
    assert sum(record.kind == "migrate" for record in records) >= 2
    for record in records:
        assert record.kind == "keep" or record.predicted < record.before


def test_every_state_row_is_where_the_epoch_s_function_says(world: World, spark: SparkSession) -> None:
    for epoch in all_epochs(world.balanced.tables)[1:]:
        opened = rebalance.open(world.balanced.tables, epoch.epoch)
        state = stored(world.balanced, "state", version=opened.state_version)
        assert state["channel"].to_list() == opened.function.channel_of(state["key"].to_list()).tolist()
        assert opened.state(spark).count() == len(state) > 0


def test_only_the_window_is_kept(world: World) -> None:
    kept = set(stored(world.balanced, "state")["interval_id"])
    assert kept == {interval.id for interval in intervals(world.balanced)[-2:]}


def test_migration_touches_only_what_moves_by_the_log_itself(world: World, spark: SparkSession) -> None:
    root = world.balanced.tables
    for epoch in all_epochs(root):
        if epoch.kind == "migrate":
            moves = control.rows(root, "plan_moves", plan_id=epoch.plan_id)
            touched = {move["from_channel"] for move in moves} | {move["to_channel"] for move in moves}
            changed = rows_changed(spark, root, epoch.state_version)
            assert set(changed) <= touched
            assert sum(changed.values()) == 0


def test_running_every_interval_again_changes_nothing(world: World) -> None:
    before, versions = contents(world.balanced), control.read(world.balanced.tables, "epochs").num_rows
    said: list[str] = []
    run_intervals(world.balanced, first=first_interval(world.balanced), count=INTERVALS, say=said.append)
    assert len(said) == 5 * INTERVALS
    assert all("nothing changed" in line for line in said)
    assert contents(world.balanced) == before
    assert control.read(world.balanced.tables, "epochs").num_rows == versions


def test_the_next_interval_is_the_one_after_the_last(world: World) -> None:
    assert next_interval(world.balanced) == first_interval(world.balanced).shifted(INTERVALS)


def test_statistics_add_up_to_the_events(world: World) -> None:
    root = world.balanced.tables
    for interval in intervals(world.balanced):
        (batch,) = control.rows(root, "batches", interval_id=interval.id)
        stats = control.read(root, "key_stats", interval_id=interval.id).to_pandas()
        assert stats["tuples"].sum() == batch["rows"] == batch["events"] == 3000
        assert (stats["window_bytes"] >= stats["state_bytes"]).all()
        channels = control.rows(root, "channel_stats", interval_id=interval.id)
        assert sum(channel["cost"] for channel in channels) == stats["cost"].sum()
        assert sum(channel["task_seconds"] for channel in channels) > 0


def test_the_tables_have_the_columns_of_their_schemas(world: World) -> None:
    check_schemas(world.balanced.tables, "string")


def test_window_bytes_of_a_key_are_the_sum_of_what_its_intervals_added(world: World) -> None:
    root = world.balanced.tables
    *_, before, last = intervals(world.balanced)
    added: dict[str, int] = {}
    for interval in (before, last):
        for row in control.rows(root, "key_stats", interval_id=interval.id):
            added[row["key"]] = added.get(row["key"], 0) + row["state_bytes"]
    held = {row["key"]: row["window_bytes"] for row in control.rows(root, "key_stats", interval_id=last.id)}
    assert held == {key: size for key, size in added.items() if size or key in held}


def test_every_interval_has_its_quality_checks_and_data_docs(world: World) -> None:
    for interval in intervals(world.balanced):
        checks = control.rows(world.balanced.tables, "quality_runs", interval_id=interval.id)
        assert len(checks) >= 26
        assert all(check["success"] for check in checks)
    pages = list(Path(world.balanced.tables, "_quality").rglob("validations/**/*.html"))
    assert len(pages) == INTERVALS


def test_each_published_function_is_stored_once(world: World) -> None:
    versions = control.read(world.balanced.tables, "functions")["version"].to_pylist()
    assert sorted(versions) == sorted(set(versions))
    for epoch in all_epochs(world.balanced.tables):
        assert load_function(world.balanced.tables, epoch.function_version).channels == 4
