"""Intervals that are left out on purpose: results, state and statistics are those of the intervals that were processed, and of no others."""

from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from pyspark.sql import SparkSession

from rebalance.pipeline.file import Pipeline
from rebalance.pipeline.intervals import Interval
from rebalance.steps import RESULTS, Insist, run_step
from rebalance.steps import process_batch as step
from rebalance.steps.rewind import rewind
from rebalance.steps.run import run_intervals
from rebalance.storage import control
from rebalance.storage.epochs import all_epochs, current_epoch, processed_ids
from tests.support.world import LATEST_MATCH, expected_matches, first_interval, make_world, stored, stored_results

pytestmark = pytest.mark.usefixtures("few_rows")

WINDOW = 3
SKIP = Insist(skip=True)


def world(folder: Path, intervals: int) -> Pipeline:
    operator = LATEST_MATCH.replace("window = 2", f"window = {WINDOW}")
    return make_world(folder, operator=operator, intervals=intervals, events=500, keys=60)


def run(pipeline: Pipeline, first: int, count: int) -> list[str]:
    """Run some intervals, all of them planned; returns what was said."""
    said: list[str] = []
    start = first_interval(pipeline).shifted(first)
    assert run_intervals(pipeline, first=start, count=count, say=said.append, insist=SKIP) == count
    assert [line for line in said if "not planned" in line] == []
    return said


def check_results(pipeline: Pipeline, folder: Path) -> None:
    """The results are those of a plain recomputation over the events of the processed intervals."""
    done = processed_ids(pipeline.tables)
    shutil.copytree(pipeline.source.path, folder)
    for file in folder.glob("*.parquet"):
        if file.stem not in done:
            file.unlink()
    plain = pipeline.model_copy(update={"source": pipeline.source.model_copy(update={"path": str(folder)})})
    assert sorted(set(stored(pipeline, "results")["interval_id"])) == done
    for file in folder.glob("*.parquet"):
        interval = next(i for i in intervals(pipeline) if i.id == file.stem)
        assert_frame_equal(stored_results(pipeline, interval), expected_matches(plain, interval), check_dtypes=False)


def intervals(pipeline: Pipeline) -> list[Interval]:
    return [first_interval(pipeline).shifted(number) for number in range(10)]


def check_state(pipeline: Pipeline) -> None:
    """The active epoch's state has the events of the processed intervals that the next one needs, and nothing else."""
    epoch = current_epoch(pipeline.tables)
    assert epoch is not None
    newest = next(i for i in intervals(pipeline) if i.id == epoch.interval_id)
    needed = [i.id for i in (newest.shifted(-1), newest) if i.id in processed_ids(pipeline.tables)]
    state = stored(pipeline, "state", version=epoch.state_version)
    assert dict(state.group_by("interval_id").len().iter_rows()) == {i: events(pipeline, i).height for i in needed}


def events(pipeline: Pipeline, interval_id: str) -> pl.DataFrame:
    return pl.read_parquet(f"{pipeline.source.path}/{interval_id}.parquet")


def check_held(pipeline: Pipeline) -> None:
    """What keys were counted to hold is what the state held of them then."""
    done = processed_ids(pipeline.tables)
    for counted in control.rows(pipeline.tables, "interval_stats"):
        if counted["interval_id"] not in done or not counted["state_newest"]:
            continue
        newest = next(i for i in intervals(pipeline) if i.id == counted["state_newest"])
        there = [i.id for i in (newest.shifted(-1), newest) if i.id in done]
        rows = pl.concat([events(pipeline, i) for i in there])["symbol"].value_counts()
        stats = control.read(pipeline.tables, "key_stats", interval_id=counted["interval_id"]).to_pylist()
        assert {row["key"]: row["held_rows"] for row in stats if row["held_rows"]} == dict(rows.iter_rows())


def test_after_a_gap_everything_is_as_if_the_intervals_left_out_had_had_no_events(
    spark: SparkSession, tmp_path: Path
) -> None:
    pipeline = world(tmp_path, 6)
    run(pipeline, 0, 2)
    said = run(pipeline, 3, 3)
    assert "left out on purpose: 20260101T0200Z" in next(line for line in said if RESULTS in line)
    assert sum("left out" in line for line in said) == 1
    assert [epoch.skipped_from for epoch in all_epochs(pipeline.tables) if epoch.skipped_from] == ["20260101T0200Z"]
    check_results(pipeline, tmp_path / "plain")
    check_state(pipeline)
    check_held(pipeline)

    rewind(pipeline, first_interval(pipeline).shifted(2))
    for number in (2, 3):
        for name in ("collect_stats", RESULTS):
            run_step(name, pipeline, first_interval(pipeline).shifted(number))
    assert len(processed_ids(pipeline.tables)) == 4
    check_held(pipeline)
    check_state(pipeline)


def test_what_a_rewind_has_undone_is_gone_once_its_intervals_are_left_out_also_after_a_kill(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = world(tmp_path, 4)
    for number in range(3):
        run_step(RESULTS, pipeline, first_interval(pipeline).shifted(number))
    rewind(pipeline, first_interval(pipeline))

    def killed(name: str) -> None:
        if name == "process_batch: epoch published":
            raise KeyboardInterrupt

    monkeypatch.setattr(step, "checkpoint", killed)
    with pytest.raises(KeyboardInterrupt):
        run_step(RESULTS, pipeline, first_interval(pipeline).shifted(2), SKIP)
    monkeypatch.undo()
    assert len(set(stored(pipeline, "results")["interval_id"])) == 3, (
        "the results of the undone intervals are still there"
    )
    run_step(RESULTS, pipeline, first_interval(pipeline).shifted(3))
    check_results(pipeline, tmp_path / "plain")
    check_state(pipeline)
