"""Small worlds for tests: generated events and a pipeline on them, and what the operators must give, recomputed by polars."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from rebalance.demo.events import write_trades
from rebalance.partition import KeyType
from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.pipeline.intervals import Interval
from rebalance.simulate.workload import Workload
from rebalance.steps import STEPS, run_step
from rebalance.storage import control
from rebalance.storage.schemas import SCHEMAS, schema_of
from tests.support.logged import json_lines

LATEST_MATCH = """
[operator]
name = "latest_match"
window = 2
[operator.parameters]
kind = "side"
value = "price"
"""
WINDOWED_SUM = """
[operator]
name = "windowed_sum"
window = 2
[operator.parameters]
value = "price"
"""


def make_world(
    folder: Path,
    *,
    operator: str = LATEST_MATCH,
    channels: int = 4,
    planner: str = "mixed",
    intervals: int = 3,
    events: int = 3000,
    keys: int = 200,
    events_folder: Path | None = None,
    more: str = "",
) -> Pipeline:
    """A pipeline file in `folder` and its events: Zipf keys that drift, the same in every world of the same size."""
    folder.mkdir(parents=True, exist_ok=True)
    source = events_folder or folder / "events"
    file = folder / "world.toml"
    file.write_text(
        f"""
tables = "tables"
[source]
path = "{source}"
format = "parquet"
key = "symbol"
time = "ts"
[interval]
length = "1 h"
first = 2026-01-01T00:00:00Z
[channels]
count = {channels}
[planning]
planner = "{planner}"
theta_max = 0.02
{operator}
{more}
"""
    )
    pipeline = load_pipeline(file)
    if not source.exists():
        workload = Workload(keys=keys, channels=4, z=1.0, f=0.5, seed=3)
        write_trades(source, first_interval(pipeline), workload, intervals=intervals, events=events)
    return pipeline


@dataclass(frozen=True)
class Stages:
    """A world whose intervals have gone through all verbs, and its tables as they were on the way.

    Only to be read: a test that changes something takes a copy of the stage from which it starts.
    """

    pipeline: Pipeline
    folder: Path
    #: What the steps have logged, as JSON.
    lines: list[dict[str, Any]] = field(default_factory=list)

    def keep(self, stage: str, pipeline: Pipeline | None = None) -> None:
        """Remember the tables as they are now."""
        shutil.copytree((pipeline or self.pipeline).tables, self.folder / stage)

    def copy(self, folder: Path, stage: str, was: str = "", becomes: str = "") -> Pipeline:
        """A world of its own at this stage; with one setting changed, or some added at the end, if asked."""
        shutil.copytree(self.folder / stage, folder / "tables")
        text = self.pipeline.file.read_text()
        assert was in text, f"{was!r} is not in the pipeline file"
        (folder / "world.toml").write_text(text.replace(was, becomes, 1) if was else text + becomes)
        return load_pipeline(folder / "world.toml")


def run_in_stages(pipeline: Pipeline, folder: Path, intervals: int) -> Stages:
    """Take the intervals through all verbs; the stages are those before each verb, "0 make_plan" for one, and "done"."""
    with json_lines() as lines:
        stages = Stages(pipeline, folder, lines)
        for number in range(intervals):
            for step in STEPS:
                Path(pipeline.tables).mkdir(exist_ok=True)
                stages.keep(f"{number} {step.name}")
                run_step(step.name, pipeline, first_interval(pipeline).shifted(number))
    stages.keep("done")
    return stages


def first_interval(pipeline: Pipeline) -> Interval:
    return pipeline.interval_at(pipeline.interval.first)


def events_of_window(pipeline: Pipeline, interval: Interval) -> tuple[pl.DataFrame, pl.DataFrame]:
    """All events of the window that ends with the interval, and those of the interval itself."""
    events = pl.read_parquet(f"{pipeline.source.path}/*.parquet")
    start = interval.shifted(1 - pipeline.operator.window).start
    window = events.filter((pl.col("ts") >= start) & (pl.col("ts") < interval.end))
    return window, window.filter(pl.col("ts") >= interval.start)


def expected_matches(pipeline: Pipeline, interval: Interval) -> pl.DataFrame:
    """latest_match, recomputed without channels, state or Spark."""
    window, own = events_of_window(pipeline, interval)
    buys = window.filter(pl.col("side") == "buy").group_by("symbol", "ts").agg(pl.col("price").max()).sort("ts")
    sells = own.filter(pl.col("side") == "sell").sort("ts")
    matched = sells.join_asof(
        buys.with_columns(match_time=pl.col("ts")).rename({"price": "match_value"}),
        on="ts",
        by="symbol",
        strategy="backward",
        allow_exact_matches=False,
        check_sortedness=False,
    )
    return matched.select(
        key="symbol", time="ts", value="price", match_time="match_time", match_value="match_value"
    ).sort("key", "time", "value")


def expected_sums(pipeline: Pipeline, interval: Interval) -> pl.DataFrame:
    """windowed_sum, recomputed without channels, state or Spark."""
    window, _ = events_of_window(pipeline, interval)
    return window.group_by(key="symbol").agg(count=pl.len().cast(pl.Int64), sum=pl.col("price").sum()).sort("key")


def stored_results(pipeline: Pipeline, interval: Interval) -> pl.DataFrame:
    """What the pipeline wrote for the interval, in a fixed order."""
    found = pl.read_delta(f"{pipeline.tables}/results").filter(pl.col("interval_id") == interval.id).drop("interval_id")
    if "sum" in found.columns:
        return found.select("key", "count", pl.col("sum").cast(pl.Float64)).sort("key")
    return found.sort("key", "time", "value")


def stored(pipeline: Pipeline, table: str, version: int | None = None) -> pl.DataFrame:
    """Any table of the pipeline, in a fixed order of rows."""
    found = pl.read_delta(f"{pipeline.tables}/{table}", version=version)
    return found.sort([name for name in found.columns if not found.schema[name].is_nested()])


def check_schemas(root: str, key_type: KeyType) -> None:
    """The tables with keys of their own have the columns of their schema; with an operator's own, some more. The others are cast to it."""
    for table in ("results", "state", "key_stats"):
        if not control.exists(root, table):
            continue
        found = control.read(root, table).schema
        columns = {column.name: column.type for column in schema_of(table, key_type)}
        own = table in ("results", "state")
        assert {column.name: column.type for column in found if not own or column.name in columns} == columns


def contents(pipeline: Pipeline) -> dict[str, Any]:
    """Everything a run leaves behind, less clocks and the numbers that count tries."""
    clocks = {
        "interval_stats": ["seconds"],
        "batches": ["seconds", "task_seconds"],
        "plans": ["seconds"],
        "epochs": ["published_at", "state_version"],
    }
    written = [name for name in SCHEMAS if control.exists(pipeline.tables, name)]
    return {name: stored(pipeline, name).drop(clocks.get(name, [])).to_dicts() for name in written}
