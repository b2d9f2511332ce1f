"""What holds of a pipeline of which only some keys have a name, whichever way they were counted."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

import pytest
from polars.testing import assert_frame_equal

from rebalance.pipeline.file import Pipeline
from rebalance.steps import collect_stats, run_step
from rebalance.steps.run import run_intervals
from rebalance.storage import control
from rebalance.storage.epochs import load_function
from rebalance.storage.reader import open_tables
from rebalance.storage.rest import read_rest
from rebalance.storage.statistics import loads_under
from tests.support.world import Stages, contents, expected_matches, first_interval, stored, stored_results


def check_results(pipeline: Pipeline, numbers: Iterable[int]) -> None:
    """The results of these intervals are those of a plain recomputation."""
    for number in numbers:
        interval = first_interval(pipeline).shifted(number)
        assert_frame_equal(stored_results(pipeline, interval), expected_matches(pipeline, interval), check_dtypes=False)


def check_reached(pipeline: Pipeline, numbers: Iterable[int]) -> None:
    """In these intervals, what the plan predicted is what was reached."""
    root = pipeline.tables
    for number in numbers:
        interval_id = first_interval(pipeline).shifted(number).id
        (batch,) = control.rows(root, "batches", interval_id=interval_id)
        (plan,) = control.rows(root, "plans", interval_id=interval_id)
        stats, function = control.read(root, "key_stats", interval_id=interval_id), batch["function_version"]
        assert function == plan["function_version"]
        assert batch["loads"] == plan["loads_after"]
        tuples = loads_under(load_function(root, function), stats, "tuples", rest=read_rest(root, interval_id))
        assert batch["tuples"] == tuples.tolist()


def check_places(pipeline: Pipeline) -> None:
    """Every row of the state is where the function says."""
    opened = open_tables(pipeline.tables)
    state = stored(pipeline, "state", version=opened.state_version)
    assert state["channel"].to_list() == opened.function.channel_of(state["key"].to_list()).tolist()


def check_more_channels(stages: Stages, folder: Path) -> None:
    """Six channels instead of four from the third interval on: keys without a name move, too."""
    pipeline = stages.copy(folder, "2 collect_stats", "count = 4", "count = 6")
    interval = first_interval(pipeline).shifted(2)
    run_intervals(pipeline, first=interval, count=2)
    assert open_tables(pipeline.tables).function.channels == 6
    check_places(pipeline)
    check_results(pipeline, (2, 3))
    (plan,) = control.rows(pipeline.tables, "plans", interval_id=interval.id)
    (batch,) = control.rows(pipeline.tables, "batches", interval_id=interval.id)
    assert batch["loads"] == plan["loads_after"]


def check_again(stages: Stages, folder: Path, step: str, intervals: int) -> None:
    """From this stage of the third interval on, everything comes out as it did."""
    pipeline = stages.copy(folder, step)
    run_intervals(pipeline, first=first_interval(pipeline).shifted(2), count=intervals - 2)
    again = contents(pipeline)
    for table, rows in contents(stages.copy(folder / "done", "done")).items():
        assert again[table] == rows, table


def check_stopped(
    stages: Stages, folder: Path, monkeypatch: pytest.MonkeyPatch, moment: str, *counting: ModuleType
) -> None:
    """Counting that is stopped at a moment counts for nothing, and run again it gives the same."""

    class StoppedError(Exception):
        pass

    def stop(name: str) -> None:
        if name == f"collect_stats: {moment}":
            raise StoppedError

    pipeline = stages.copy(folder, "2 collect_stats")
    interval = first_interval(pipeline).shifted(2)
    for module in (collect_stats, *counting):
        monkeypatch.setattr(module, "checkpoint", stop)
    with pytest.raises(StoppedError):
        run_step("collect_stats", pipeline, interval)
    assert not control.has_rows(pipeline.tables, "interval_stats", interval.id)
    monkeypatch.undo()
    run_step("collect_stats", pipeline, interval)
    assert contents(pipeline) == contents(stages.copy(folder / "counted", "2 check_quality"))


def check_quality_of(pipeline: Pipeline, intervals: int) -> None:
    """Every interval was checked, and every check held."""
    checks = control.rows(pipeline.tables, "quality_runs")
    assert len({check["interval_id"] for check in checks}) == intervals
    assert all(check["success"] for check in checks)
