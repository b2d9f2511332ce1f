"""Operators that keep less than every event give the same results, over every window."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import SparkSession

from rebalance.errors import ConfigError
from rebalance.operators import make_operator
from rebalance.pipeline.file import Pipeline
from rebalance.steps import run_step
from tests.support.world import first_interval, make_world, stored

pytestmark = pytest.mark.usefixtures("few_rows")

INTERVALS = 4


def world(folder: Path, events: Path, name: str, window: int, parameters: str) -> Pipeline:
    operator = f'[operator]\nname = "{name}"\nwindow = {window}\n[operator.parameters]\nkind = "side"\nvalue = "price"\n{parameters}'
    return make_world(folder, operator=operator, planner="keep", intervals=INTERVALS, events=400, events_folder=events)


def ties(source: Path) -> None:
    """Round times and prices, so that several events of a key are at one instant, some with equal prices."""
    for file in source.glob("*.parquet"):
        events = pl.read_parquet(file)
        events.with_columns(pl.col("ts").dt.truncate("5m"), pl.col("price").round(0)).write_parquet(file)


@pytest.mark.parametrize("window", [2, 3])
@pytest.mark.parametrize(
    ("name", "keep", "more"),
    [("latest_match", "latest", ""), ("self_join", "earlier", "seconds = 5400")],
)
def test_keeping_less_gives_the_same_results(
    spark: SparkSession, tmp_path: Path, name: str, keep: str, more: str, window: int
) -> None:
    everything = world(tmp_path / "all", tmp_path / "events", name, window, more)
    ties(tmp_path / "events")
    less = world(tmp_path / "less", tmp_path / "events", name, window, f'{more}\nkeep = "{keep}"')
    for pipeline in (everything, less):
        for number in range(INTERVALS):
            for step in ("collect_stats", "process_batch"):
                run_step(step, pipeline, first_interval(pipeline).shifted(number))
    assert rows(stored(everything, "results")) == rows(stored(less, "results"))
    kept, all_rows = stored(less, "state"), stored(everything, "state")
    assert 0 < len(kept) < 0.8 * len(all_rows)
    assert kept["is_earlier"].all()
    if keep == "latest":
        assert kept.group_by("interval_id", "key").len()["len"].max() == 1
        matched = stored(less, "results").drop_nulls("match_time")
        # Some matches come from an earlier interval, or nothing would depend on what was kept.
        assert len(matched.filter(pl.col("match_time").dt.truncate("1h") < pl.col("time").dt.truncate("1h"))) > 10


def rows(table: pl.DataFrame) -> list[tuple[Any, ...]]:
    return sorted(table.rows(), key=str)


def test_what_is_kept_decides_whether_rows_are_counted_as_state() -> None:
    assert make_operator("latest_match").keeps_rows
    assert not make_operator("latest_match", {"keep": "latest"}).keeps_rows
    assert make_operator("self_join").keeps_rows
    assert not make_operator("self_join", {"keep": "earlier"}).keeps_rows
    for name in ("latest_match", "self_join"):
        with pytest.raises(ConfigError, match=f"{name}: keep = 'nothing' must be"):
            make_operator(name, {"keep": "nothing"})
