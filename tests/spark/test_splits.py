"""Keys that are split, split otherwise and made whole again, through all five verbs on real Spark and Delta."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator, Mapping
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
from rebalance.pipeline.intervals import parse_start
from rebalance.planners.registry import PLANNERS
from rebalance.planning.model import Ints, Proposal, Request
from rebalance.steps.process_batch import process_batch
from rebalance.steps.run import run_intervals
from rebalance.storage import control
from rebalance.storage.epochs import Epoch, all_epochs, load_function
from rebalance.storage.statistics import loads_under
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

    def next_ring(
        self, memo: Mapping[str, Any], channels: int, excluded: Collection[int]
    ) -> tuple[Ints, Mapping[str, Any]]:
        return consistent_ring(channels), {}

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
    assert splits == [1, 1, 0, 0]
    for number in range(INTERVALS):
        interval = first_interval(pipeline).shifted(number)
        assert_frame_equal(stored_results(pipeline, interval), expected_sums(pipeline, interval), check_dtypes=False)


def test_a_split_key_s_state_is_one_row_an_interval_on_its_first_channel(moved: Pipeline) -> None:
    for epoch in all_epochs(moved.tables):
        if epoch.state_version >= 0:
            state = stored(moved, "state", version=epoch.state_version)
            function = load_function(moved.tables, epoch.function_version)
            assert state["channel"].to_list() == function.channel_of(state["key"].to_list()).tolist()
            assert not state.select("key", "interval_id").is_duplicated().any()


def test_each_change_of_a_split_moves_the_key_s_state_once_and_changes_no_row(moved: Pipeline) -> None:
    hot, processed, migrated = hot_key(moved), epochs_of(moved, "process"), epochs_of(moved, "migrate")
    homes = []
    for before, after in zip(processed, migrated[1 : len(TURNS)], strict=False):
        rows, rows_after = (
            stored(moved, "state", version=epoch.state_version).filter(pl.col("key") == hot)
            for epoch in (before, after)
        )
        assert len(rows) >= 1
        assert rows_after.drop("channel").equals(rows.drop("channel"))
        moves = control.rows(moved.tables, "plan_moves", plan_id=after.plan_id, key=hot)
        assert len(moves) == (rows["channel"].to_list() != rows_after["channel"].to_list())
        homes.append(rows_after["channel"].unique().item())
    assert homes == [3, 2]


def test_the_key_s_tuples_meet_its_shares(merged: Pipeline) -> None:
    """Where state stays, what each channel made of the key's tuples is there to be counted."""
    hot = hot_key(merged)
    for number, shares in enumerate(TURNS):
        interval, epoch = first_interval(merged).shifted(number), epochs_of(merged, "process")[number]
        state = stored(merged, "state", version=epoch.state_version)
        own = state.filter((pl.col("key") == hot) & (pl.col("interval_id") == interval.id))
        tuples = dict(own.select("channel", "count").rows())
        (stats,) = control.rows(merged.tables, "key_stats", interval_id=interval.id, key=hot)
        total = stats["tuples"]
        assert sum(tuples.values()) == total > 20
        if shares:
            assert 1 < len(tuples) <= len(shares)
            for part in shares:
                assert (
                    abs(tuples.get(part.channel, 0) - total * part.share)
                    <= 5 * (total * part.share * (1 - part.share)) ** 0.5
                )
        else:
            assert len(tuples) == 1


def test_what_was_counted_is_what_was_placed_but_for_the_shares(pipeline: Pipeline) -> None:
    for number in range(INTERVALS):
        interval = first_interval(pipeline).shifted(number)
        (batch,) = control.rows(pipeline.tables, "batches", interval_id=interval.id)
        stats = control.read(pipeline.tables, "key_stats", interval_id=interval.id)
        assert len(stats) == len(set(stats["key"].to_pylist()))
        assert sum(stats["tuples"].to_pylist()) == sum(batch["tuples"]) == batch["rows"] == 4000
        function = load_function(pipeline.tables, batch["function_version"])
        predicted = loads_under(function, stats, "tuples")
        off = np.abs(predicted - np.array(batch["tuples"]))
        # Shares are met as throws of a die meet theirs; whole keys to the row.
        assert off.max() <= (60 if function.splits else 0)
        assert batch["loads"] == loads_under(function, stats).tolist()
        assert min(batch["task_seconds"]) > 0


def test_what_a_key_holds_is_what_lies_in_the_state(pipeline: Pipeline) -> None:
    for epoch in epochs_of(pipeline, "process")[:-1]:
        state = stored(pipeline, "state", version=epoch.state_version)
        following = pipeline.interval_at(parse_start(epoch.interval_id)).shifted(1)
        stats = control.rows(pipeline.tables, "key_stats", interval_id=following.id)
        held = {row["key"]: row["held_rows"] for row in stats if row["held_rows"]}
        assert held == dict(state["key"].value_counts().rows())


def test_state_that_stays_is_never_moved_nor_rewritten(merged: Pipeline) -> None:
    assert len(epochs_of(merged, "migrate")) >= len(TURNS)
    versions = [epoch.state_version for epoch in all_epochs(merged.tables) if epoch.state_version >= 0]
    # The first commit makes the empty table.
    assert sorted(set(versions)) == list(range(1, INTERVALS + 1))
    assert all(move["state_bytes"] == 0 for move in control.rows(merged.tables, "plan_moves"))
    split = epochs_of(merged, "process")[0]
    state = stored(merged, "state", version=split.state_version)
    function = load_function(merged.tables, split.function_version)
    assert state["channel"].to_list() != function.channel_of(state["key"].to_list()).tolist()
    assert len(state.filter(pl.col("key") == hot_key(merged))) == 3


def copy_of(pipeline: Pipeline, folder: Path, was: str, becomes: str) -> Pipeline:
    """The pipeline's tables once more, under changed settings."""
    shutil.copytree(pipeline.tables, folder / "tables")
    text = pipeline.file.read_text()
    assert was in text
    (folder / "world.toml").write_text(text.replace(was, becomes))
    return load_pipeline(folder / "world.toml")


def test_state_that_stays_on_a_channel_that_is_gone_is_still_found(merged: Pipeline, tmp_path: Path) -> None:
    assert 3 in stored(merged, "state", version=all_epochs(merged.tables)[-1].state_version)["channel"]
    smaller = copy_of(merged, tmp_path, "count = 4", "count = 3")
    run_intervals(smaller, count=1)
    newest = all_epochs(smaller.tables)[-1]
    assert load_function(smaller.tables, newest.function_version).channels == 3
    last = first_interval(smaller).shifted(INTERVALS)
    assert newest.interval_id == last.id
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
    assert "rows of" in process_batch(whole, first_interval(whole))
