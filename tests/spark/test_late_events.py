"""Events that come after their interval was processed: counted, shown with what to do, and gone once the interval ran again."""

from __future__ import annotations

import logging
from pathlib import Path

import polars as pl
import pytest
from pyspark.sql import SparkSession

from rebalance.cli import main
from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.spark import late as late_module
from rebalance.steps.process_batch import process_batch
from rebalance.steps.rewind import rewind
from rebalance.storage import control
from tests.support.world import first_interval, make_world

pytestmark = pytest.mark.usefixtures("few_rows")


def watching(folder: Path, length: str) -> Pipeline:
    pipeline = make_world(folder, intervals=4, events=200, keys=20)
    text = pipeline.file.read_text()
    pipeline.file.write_text(text.replace('length = "1 h"', f'length = "1 h"\nwatch_late = "{length}"'))
    return load_pipeline(pipeline.file)


def file_of(pipeline: Pipeline, number: int) -> Path:
    return Path(pipeline.source.path) / f"{first_interval(pipeline).shifted(number).id}.parquet"


def come_late(pipeline: Pipeline, number: int, rows: int) -> None:
    """Some more events of an interval, in a file of their own."""
    file = file_of(pipeline, number)
    pl.read_parquet(file)[:rows].write_parquet(file.with_name(f"late_{rows}_{file.name}"))


def late(pipeline: Pipeline) -> list[tuple[str, int, int]]:
    rows = sorted(control.rows(pipeline.tables, "late_events"), key=lambda row: str(row["interval_id"]))
    return [(row["interval_id"], row["events"], row["late"]) for row in rows]


def test_late_events_are_counted_as_far_back_as_is_watched_and_gone_after_the_interval_ran_again(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    pipeline = watching(tmp_path, "2 h")
    intervals = [first_interval(pipeline).shifted(number) for number in range(4)]
    events = [pl.read_parquet(file_of(pipeline, number)).height for number in range(4)]
    for interval in intervals[:2]:
        assert "WARNING" not in process_batch(pipeline, interval)
    come_late(pipeline, 0, 3)
    file = file_of(pipeline, 1)
    pl.read_parquet(file)[5:].write_parquet(file)
    with caplog.at_level(logging.WARNING, "rebalance"):
        said = process_batch(pipeline, intervals[2])
    seen = [(intervals[0].id, events[0], 3), (intervals[1].id, events[1], -5)]
    assert late(pipeline) == seen
    todo = f"To process them: rebalance rewind world --to {intervals[0].id}, then rebalance run world"
    for words in (said, caplog.text):
        assert f"{intervals[0].id}: 3 came late (of {events[0]}); {intervals[1].id}: 5 are gone" in words
        assert todo in words

    come_late(pipeline, 0, 4)
    come_late(pipeline, 1, 5)
    process_batch(pipeline, intervals[3])
    assert late(pipeline) == seen[:1], "the second interval is as it was, the first is out of sight"
    assert main(["status", str(pipeline.file)]) == 0
    assert todo in " ".join(capsys.readouterr().out.split())

    rewind(pipeline, intervals[0])
    assert main(["status", str(pipeline.file)]) == 0
    assert "late" not in capsys.readouterr().out, "all intervals are to be run again anyway"
    assert "WARNING" not in process_batch(pipeline, intervals[0])
    assert late(pipeline) == []
    assert "WARNING" not in process_batch(pipeline, intervals[1])


def test_a_count_that_fails_is_a_warning_and_the_results_are_there(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pipeline = watching(tmp_path, "1 h")
    second = first_interval(pipeline).shifted(1)
    process_batch(pipeline, first_interval(pipeline))

    def broken(*_: object) -> None:
        raise OSError("the disk is on fire")

    monkeypatch.setattr(late_module, "read_source", broken)
    with caplog.at_level(logging.WARNING, "rebalance"):
        assert "rows of" in process_batch(pipeline, second)
    assert "late events were not counted: the disk is on fire" in caplog.text


def test_without_watching_nothing_is_counted_twice(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = watching(tmp_path, "0 min")
    process_batch(pipeline, first_interval(pipeline))
    (batch,) = control.rows(pipeline.tables, "batches", columns=["events"])
    assert batch["events"] is None
    assert not control.exists(pipeline.tables, "late_events")
