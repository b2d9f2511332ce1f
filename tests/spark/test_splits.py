"""Keys that are split, split otherwise and made whole again, through all five verbs on real Spark and Delta."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from pyspark.sql import SparkSession

from rebalance.errors import ConfigError, OperatorError
from rebalance.partition import Share, consistent_ring
from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.planners.registry import PLANNERS
from rebalance.planning.model import Ints, Proposal, Request
from rebalance.steps.process_batch import process_batch
from rebalance.steps.run import run_intervals
from rebalance.storage import control
from rebalance.storage.epochs import Epoch, all_epochs, load_function
from tests.support.world import WINDOWED_SUM, expected_sums, first_interval, make_world, stored, stored_results

pytestmark = pytest.mark.usefixtures("few_rows")
INTERVALS = 4
#: What each plan does with the largest key of the first interval.
TURNS = (
    (Share(0, 0.5), Share(1, 0.3), Share(2, 0.2)),
    (Share(3, 0.6), Share(1, 0.4)),
    None,
)


@dataclass(frozen=True)
class Scripted:
    """Splits one key as the script says, then leaves it whole on channel 2; turns a tenth of the ring each time."""

    name: ClassVar[str] = "scripted"
    splits_keys: ClassVar[bool] = True
    judges_itself: ClassVar[bool] = True

    def first_ring(self, channels: int, excluded: Collection[int]) -> Ints:
        return consistent_ring(channels)

    def propose(self, request: Request) -> Proposal:
        turn = int(request.memo.get("turn", 0))
        hot = request.memo.get("hot", str(request.stats.keys[request.stats.cost.argmax()]))
        memo = {"turn": turn + 1, "hot": hot}
        ring = request.ring.copy()
        ring[turn::10] = (ring[turn::10] + 1) % request.channels
        if turn >= len(TURNS):
            return Proposal(channel=request.current.copy(), memo=memo, splits=request.splits)
        channel = ring[request.stats.slots]
        (key,) = np.flatnonzero(request.stats.keys == hot)
        shares = TURNS[turn]
        channel[key] = shares[0].channel if shares else 2
        splits = {int(key): shares} if shares else {}
        return Proposal(channel=channel, ring=ring, splits=splits, memo=memo)


@pytest.fixture(scope="module", autouse=True)
def _planner() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(PLANNERS, "scripted", Scripted)
        yield


@pytest.fixture(scope="module")
def events(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two intervals more than are run."""
    world = make_world(tmp_path_factory.mktemp("events"), intervals=INTERVALS + 2, keys=60, events=4000)
    return Path(world.source.path)


@pytest.fixture(scope="module")
def moved(events: Path, tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """Four intervals: whole, split, split otherwise, whole again; state moves."""
    folder = tmp_path_factory.mktemp("splits")
    pipeline = make_world(folder, operator=WINDOWED_SUM, planner="scripted", events_folder=events)
    assert run_intervals(pipeline, count=INTERVALS) == INTERVALS
    return pipeline


@pytest.fixture(scope="module")
def merged(events: Path, tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """The same with state left where it was made."""
    pipeline = make_world(
        tmp_path_factory.mktemp("merged"),
        operator=WINDOWED_SUM,
        planner='scripted"\nconsistency = "merge',
        events_folder=events,
    )
    assert pipeline.planning.consistency == "merge"
    assert run_intervals(pipeline, count=INTERVALS) == INTERVALS
    return pipeline


@pytest.fixture(params=["moved", "merged"])
def pipeline(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


def epochs_of(pipeline: Pipeline, kind: str) -> list[Epoch]:
    return [epoch for epoch in all_epochs(pipeline.tables) if epoch.kind == kind]


def hot_key(pipeline: Pipeline) -> str:
    newest = all_epochs(pipeline.tables)[-1]
    return str(load_function(pipeline.tables, newest.function_version).memo["hot"])


def test_results_equal_a_plain_recomputation_in_every_interval(pipeline: Pipeline) -> None:
    splits = [
        len(load_function(pipeline.tables, epoch.function_version).splits) for epoch in epochs_of(pipeline, "process")
    ]
    assert splits == [0, 1, 1, 0]
    for number in range(INTERVALS):
        interval = first_interval(pipeline).shifted(number)
        assert_frame_equal(stored_results(pipeline, interval), expected_sums(pipeline, interval), check_dtypes=False)


def test_a_split_key_s_state_is_one_row_an_interval_on_its_first_channel(moved: Pipeline) -> None:
    for epoch in all_epochs(moved.tables)[1:]:
        state = stored(moved, "state", version=epoch.state_version)
        function = load_function(moved.tables, epoch.function_version)
        assert state["channel"].to_list() == function.channel_of(state["key"].to_list()).tolist()
        assert not state.select("key", "interval_id").is_duplicated().any()


def test_each_change_of_a_split_moves_the_key_s_state_once_and_changes_no_row(moved: Pipeline) -> None:
    hot, processed, migrated = hot_key(moved), epochs_of(moved, "process"), epochs_of(moved, "migrate")
    homes = []
    for before, after in zip(processed[: len(TURNS)], migrated, strict=False):
        rows, rows_after = (
            stored(moved, "state", version=epoch.state_version).filter(pl.col("key") == hot)
            for epoch in (before, after)
        )
        assert len(rows) >= 1
        assert rows_after.drop("channel").equals(rows.drop("channel"))
        moves = control.rows(moved.tables, "plan_moves", plan_id=after.plan_id, key=hot)
        assert len(moves) == (rows["channel"].to_list() != rows_after["channel"].to_list())
        homes.append(rows_after["channel"].unique().item())
    assert homes == [0, 3, 2]


def test_the_key_s_tuples_meet_its_shares_and_are_all_counted(pipeline: Pipeline) -> None:
    hot = hot_key(pipeline)
    for number, shares in enumerate((None, *TURNS)):
        interval = first_interval(pipeline).shifted(number)
        counts = control.rows(pipeline.tables, "key_counts", interval_id=interval.id, key=hot)
        tuples = {row["channel"]: row["tuples"] for row in counts if row["tuples"]}
        (stats,) = control.rows(pipeline.tables, "key_stats", interval_id=interval.id, key=hot)
        total = stats["tuples"]
        assert sum(tuples.values()) == total > 20
        if shares:
            assert stats["channel"] == shares[0].channel
            assert 1 < len(tuples) <= len(shares)
            for part in shares:
                assert (
                    abs(tuples.get(part.channel, 0) - total * part.share)
                    <= 5 * (total * part.share * (1 - part.share)) ** 0.5
                )
        else:
            assert len(tuples) == 1


def test_statistics_add_up_and_every_channel_has_its_seconds(pipeline: Pipeline) -> None:
    for number in range(INTERVALS):
        interval = first_interval(pipeline).shifted(number)
        (batch,) = control.rows(pipeline.tables, "batches", interval_id=interval.id)
        stats = control.rows(pipeline.tables, "key_stats", interval_id=interval.id)
        channels = control.rows(pipeline.tables, "channel_stats", interval_id=interval.id)
        counts = control.rows(pipeline.tables, "key_counts", interval_id=interval.id)
        assert len(stats) == len({row["key"] for row in stats})
        assert sum(row["tuples"] for row in stats) == sum(row["tuples"] for row in channels) == batch["events"]
        for row in channels:
            here = [count for count in counts if count["channel"] == row["channel"]]
            assert row["cost"] == sum(count["cost"] for count in here)
            assert row["keys"] == len(here)
            assert row["task_seconds"] > 0
        assert sum(row["state_bytes"] for row in channels) == sum(row["window_bytes"] for row in stats)


def test_state_that_stays_is_never_moved_nor_rewritten(merged: Pipeline) -> None:
    assert len(epochs_of(merged, "migrate")) >= len(TURNS)
    versions = [epoch.state_version for epoch in all_epochs(merged.tables) if epoch.state_version >= 0]
    assert sorted(set(versions)) == list(range(INTERVALS))
    assert all(move["state_bytes"] == 0 for move in control.rows(merged.tables, "plan_moves"))
    newest = all_epochs(merged.tables)[-1]
    state = stored(merged, "state", version=newest.state_version)
    function = load_function(merged.tables, newest.function_version)
    assert state["channel"].to_list() != function.channel_of(state["key"].to_list()).tolist()
    assert len(state.filter(pl.col("key") == hot_key(merged))) >= 3


def copy_of(pipeline: Pipeline, folder: Path, was: str, becomes: str) -> Pipeline:
    """The pipeline's tables once more, under changed settings."""
    shutil.copytree(pipeline.tables, folder / "tables")
    text = pipeline.file.read_text()
    assert was in text
    (folder / "world.toml").write_text(text.replace(was, becomes))
    return load_pipeline(folder / "world.toml")


def test_state_that_stays_on_a_channel_that_is_gone_is_still_found(merged: Pipeline, tmp_path: Path) -> None:
    smaller = copy_of(merged, tmp_path, "count = 4", "count = 3")
    run_intervals(smaller, count=1)
    newest = all_epochs(smaller.tables)[-1]
    assert load_function(smaller.tables, newest.function_version).channels == 3
    assert 3 in stored(smaller, "state", version=newest.state_version)["channel"]
    last = first_interval(smaller).shifted(INTERVALS + 1)
    process_batch(smaller, last)
    assert_frame_equal(stored_results(smaller, last), expected_sums(smaller, last), check_dtypes=False)


def test_state_that_was_left_behind_cannot_be_moved_later(merged: Pipeline, tmp_path: Path) -> None:
    back = copy_of(merged, tmp_path, 'consistency = "merge"', 'consistency = "move"')
    with pytest.raises(ConfigError, match=r"was 'merge' up to interval .* Keep 'merge'"):
        process_batch(back, first_interval(back).shifted(INTERVALS))


def test_an_operator_that_drops_the_salt_is_refused_with_what_to_add(
    spark: SparkSession, tmp_path: Path, project: Path
) -> None:
    own = (project / "rebalance" / "operators" / "windowed_sum.py").read_text() + "\n\nOPERATOR = WindowedSum\n"
    (tmp_path / "mine.py").write_text(own.replace('            "salt",\n', ""))
    operator = '[operator]\nfile = "mine.py"\n[operator.parameters]\nvalue = "price"'
    pipeline = make_world(tmp_path, operator=operator, planner="scripted", intervals=1, events=300)
    with pytest.raises(OperatorError, match=r"'scripted' splits keys.*'windowed_sum'.*Add \"salt\".*keep.*mixed"):
        process_batch(pipeline, first_interval(pipeline))
    whole = make_world(tmp_path, operator=operator, planner="mixed")
    assert "events of" in process_batch(whole, first_interval(whole))
