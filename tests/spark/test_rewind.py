"""The past put right: a corrected interval runs again with all later ones, and a process that was overtaken changes nothing."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import SparkSession

from rebalance.errors import OrderError, OvertakenError
from rebalance.pipeline.file import Pipeline
from rebalance.steps import process_batch as step
from rebalance.steps import run_step
from rebalance.steps.rewind import rewind, undo
from rebalance.steps.run import run_intervals
from rebalance.storage import control
from rebalance.storage.epochs import Epoch, all_epochs, current_epoch
from tests.support.world import expected_matches, first_interval, make_world, stored, stored_results

pytestmark = pytest.mark.usefixtures("few_rows")


def small_world(folder: Path, intervals: int, events_folder: Path | None = None) -> Pipeline:
    return make_world(folder, intervals=intervals, events=600, keys=100, events_folder=events_folder)


def run(pipeline: Pipeline, intervals: int) -> None:
    assert run_intervals(pipeline, count=intervals, say=lambda _: None) == intervals


def state_rows(pipeline: Pipeline) -> pl.DataFrame:
    """What the active epoch's state holds, wherever it lies."""
    epoch = current_epoch(pipeline.tables)
    assert epoch is not None
    found = stored(pipeline, "state", version=epoch.state_version).drop("channel")
    return found.sort(found.columns)


def check_results(pipeline: Pipeline, intervals: int) -> None:
    for number in range(intervals):
        interval = first_interval(pipeline).shifted(number)
        assert stored_results(pipeline, interval).equals(expected_matches(pipeline, interval))


@pytest.mark.parametrize("number", [0, 1])
def test_after_a_rewind_everything_comes_out_as_if_the_events_had_been_right_from_the_start(
    spark: SparkSession, tmp_path: Path, number: int
) -> None:
    pipeline = small_world(tmp_path, 3)
    run(pipeline, 3)
    corrected = first_interval(pipeline).shifted(number)
    file = sorted(Path(pipeline.source.path).glob("*.parquet"))[number]
    pl.read_parquet(file)[::2].write_parquet(file)

    with pytest.raises(OrderError, match=f"rebalance rewind world --to {corrected.id}"):
        run_step("process_batch", pipeline, corrected)
    rewind(pipeline, corrected)
    undo(pipeline)
    rewind(pipeline, corrected)
    run(pipeline, 3 - number)

    check_results(pipeline, 3)
    fresh = small_world(tmp_path / "fresh", 3, Path(pipeline.source.path))
    run(fresh, 3)
    assert state_rows(pipeline).equals(state_rows(fresh))


def test_a_process_that_falls_asleep_just_before_it_commits_its_results_does_not_replace_those_of_its_retry(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = small_world(tmp_path, 1)
    monkeypatch.setattr("rebalance.steps.turn.writer_lock", lambda root: nullcontext())
    looked, retried = step.Batch.still_active, []

    def asleep(batch: step.Batch) -> None:
        looked(batch)
        if not retried:
            retried.append(batch)
            run_step("process_batch", pipeline, first_interval(pipeline))

    monkeypatch.setattr(step.Batch, "still_active", asleep)
    with pytest.raises(OvertakenError, match="table results was at version -1 when this step began"):
        run_step("process_batch", pipeline, first_interval(pipeline))
    assert control.version(pipeline.tables, "results") == 0
    check_results(pipeline, 1)


@pytest.mark.parametrize("moment", ["results written", "state written", "batch recorded"])
def test_a_process_that_wakes_up_after_its_retry_has_published_changes_nothing_and_says_so(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    pipeline = small_world(tmp_path, 2)
    run(pipeline, 1)
    second = first_interval(pipeline).shifted(1)
    # A process that sleeps for long loses its lock where locks end by themselves.
    monkeypatch.setattr("rebalance.steps.turn.writer_lock", lambda root: nullcontext())
    retried: list[str] = []

    def asleep(name: str) -> None:
        if name == f"process_batch: {moment}" and not retried:
            retried.append(name)
            run_step("process_batch", pipeline, second)

    monkeypatch.setattr(step, "checkpoint", asleep)
    with pytest.raises(OvertakenError, match="Nothing was"):
        run_step("process_batch", pipeline, second)
    assert [epoch.interval_id for epoch in all_epochs(pipeline.tables)][-2:] == [first_interval(pipeline).id, second.id]
    check_results(pipeline, 2)
    fresh = small_world(tmp_path / "fresh", 2, Path(pipeline.source.path))
    run(fresh, 2)
    assert state_rows(pipeline).equals(state_rows(fresh))


def test_a_process_that_is_overtaken_before_it_asks_what_to_build_on_does_not_build_on_its_own_interval(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = small_world(tmp_path, 1)
    monkeypatch.setattr("rebalance.steps.turn.writer_lock", lambda root: nullcontext())
    first, asked, retried = first_interval(pipeline), step.active_epoch, list[str]()

    def asleep(*what: Any) -> Epoch:
        if not retried:
            retried.append("now")
            run_step("process_batch", pipeline, first)
        return asked(*what)

    monkeypatch.setattr(step, "active_epoch", asleep)
    assert "was processed already" in run_step("process_batch", pipeline, first)
    assert [epoch.kind for epoch in all_epochs(pipeline.tables)] == ["start", "process"]
    check_results(pipeline, 1)
