"""Three drifting intervals through all five verbs, on real Spark and Delta, for both operators."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable as LightTable
from polars.testing import assert_frame_equal
from pyspark.sql import SparkSession

import rebalance
from rebalance.errors import OrderError
from rebalance.pipeline.file import Pipeline
from rebalance.pipeline.intervals import Interval, parse_start
from rebalance.steps.process_batch import process_batch
from rebalance.steps.run import next_interval, run_intervals
from rebalance.storage import control
from rebalance.storage.epochs import all_epochs, load_function
from rebalance.storage.history import read_history
from rebalance.storage.statistics import loads_under
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
    assert all(record.applied for record in records), "the first interval is planned too"
    for record in records:
        assert record.reached < record.before
        assert record.reached <= min(record.without, 1.03)
    assert sum(record.moved_bytes > 0 for record in records) == 2
    assert records[0].moved_bytes == 0


def test_what_the_plan_predicted_is_what_was_reached(world: World) -> None:
    """To the row: by the statistics, and by what Spark's own metrics say that each channel got."""
    root = world.balanced.tables
    for interval in intervals(world.balanced):
        (batch,) = control.rows(root, "batches", interval_id=interval.id)
        (plan,) = control.rows(root, "plans", interval_id=interval.id)
        stats = control.read(root, "key_stats", interval_id=interval.id)
        assert batch["function_version"] == plan["function_version"]
        assert batch["loads"] == plan["loads_after"]
        assert batch["tuples"] == loads_under(load_function(root, batch["function_version"]), stats, "tuples").tolist()


def test_every_state_row_is_where_the_epoch_s_function_says(world: World, spark: SparkSession) -> None:
    for epoch in all_epochs(world.balanced.tables):
        if epoch.state_version < 0:
            continue
        opened = rebalance.open(world.balanced.tables, epoch.epoch)
        state = stored(world.balanced, "state", version=opened.state_version)
        assert state["channel"].to_list() == opened.function.channel_of(state["key"].to_list()).tolist()
        assert opened.state(spark).count() == len(state) > 0


def test_only_what_the_next_interval_needs_is_kept(world: World) -> None:
    kept = set(stored(world.balanced, "state")["interval_id"])
    assert kept == {intervals(world.balanced)[-1].id}


def test_state_files_are_sorted_by_key_and_one_for_each_channel(world: World) -> None:
    (file_of_channel,) = {
        epoch.state_version
        for epoch in all_epochs(world.balanced.tables)
        if epoch.interval_id == intervals(world.balanced)[-1].id
    }
    table = LightTable(f"{world.balanced.tables}/state", version=file_of_channel)
    files = pa.RecordBatchReader.from_stream(table.get_add_actions(flatten=True)).read_all()
    assert sorted(files["partition.channel"].to_pylist()) == list(range(4))
    for path in files["path"].to_pylist():
        keys = pl.read_parquet(f"{world.balanced.tables}/state/{path}")["key"]
        assert keys.is_sorted()


def test_migration_touches_only_what_moves_by_the_log_itself(world: World, spark: SparkSession) -> None:
    root = world.balanced.tables
    for before, epoch in pairwise(all_epochs(root)):
        if epoch.kind == "migrate" and epoch.state_version > before.state_version:
            moves = control.rows(root, "plan_moves", plan_id=epoch.plan_id)
            touched = {move["from_channel"] for move in moves} | {move["to_channel"] for move in moves}
            log = Path(root, "state", "_delta_log", f"{epoch.state_version:020d}.json").read_text().splitlines()
            actions = [json.loads(line) for line in log]
            files = [action[kind] for action in actions for kind in ("add", "remove") if kind in action]
            assert {int(file["partitionValues"]["channel"]) for file in files} <= touched
            added = [action["add"] for action in actions if "add" in action]
            hidden = {file["path"] for file in added if file.get("deletionVector")}
            written = sum(json.loads(file["stats"])["numRecords"] for file in added if file["path"] not in hidden)
            moved = {move["key"] for move in moves}
            state = stored(world.balanced, "state", version=epoch.state_version)
            assert written == state["key"].is_in(moved).sum() > 0


def test_running_an_interval_again_changes_nothing_and_an_older_one_says_how_it_could_be(world: World) -> None:
    before, versions = contents(world.balanced), control.read(world.balanced.tables, "epochs").num_rows
    said: list[str] = []
    *older, newest = intervals(world.balanced)
    run_intervals(world.balanced, first=newest, count=1, say=said.append)
    for interval in older:
        with pytest.raises(OrderError, match=f"rebalance rewind {world.balanced.name} --to {interval.id}"):
            run_intervals(world.balanced, first=interval, count=1, say=said.append)
    assert len(said) == 5 + 4 * len(older)
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
        assert stats["tuples"].sum() == batch["rows"] == 3000
        assert (stats["held_bytes"] >= stats["added_bytes"]).all()
        channels = control.rows(root, "channel_stats", interval_id=interval.id)
        assert sum(channel["cost"] for channel in channels) == stats["cost"].sum() == sum(batch["loads"])
        assert min(batch["task_seconds"]) > 0


def test_the_tables_have_the_columns_of_their_schemas(world: World) -> None:
    check_schemas(world.balanced.tables, "string")


def test_what_a_key_holds_is_what_lies_in_the_state_when_the_interval_is_counted(world: World) -> None:
    root = world.balanced.tables
    for epoch in all_epochs(root):
        if epoch.kind != "process" or epoch.interval_id == intervals(world.balanced)[-1].id:
            continue
        state = stored(world.balanced, "state", version=epoch.state_version)
        following = world.balanced.interval_at(parse_start(epoch.interval_id)).shifted(1)
        stats = control.rows(root, "key_stats", interval_id=following.id)
        held = {row["key"]: row["held_rows"] for row in stats if row["held_rows"]}
        assert held == dict(state["key"].value_counts().rows())
        assert all((row["held_bytes"] > 0) == (row["held_rows"] > 0) for row in stats)


def test_every_interval_has_its_quality_checks_and_data_docs(world: World) -> None:
    for interval in intervals(world.balanced):
        checks = control.rows(world.balanced.tables, "quality_runs", interval_id=interval.id)
        assert len(checks) >= 20
        assert all(check["success"] for check in checks)
    pages = list(Path(world.balanced.tables, "_quality").rglob("validations/**/*.html"))
    assert len(pages) == INTERVALS


def test_each_published_function_is_stored_once(world: World) -> None:
    versions = control.read(world.balanced.tables, "functions")["version"].to_pylist()
    assert sorted(versions) == sorted(set(versions))
    for epoch in all_epochs(world.balanced.tables):
        assert load_function(world.balanced.tables, epoch.function_version).channels == 4
