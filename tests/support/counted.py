"""Pipelines whose intervals were counted, without Spark: the statistics are written as they are wanted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from rebalance.partition import KeyType, PartitionFunction, consistent_ring
from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.pipeline.intervals import Interval
from rebalance.storage import control
from rebalance.storage.epochs import store_function
from rebalance.storage.schemas import schema_of

CHANNELS = 4
TUPLES = 10


def counted_pipeline(folder: Path, quality: str = "", *, length: str = "1 h", key_type: KeyType = "string") -> Pipeline:
    """A pipeline with a function and no intervals yet; `quality` are knobs of that section."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "counted.toml"
    file.write_text(
        f"""
tables = "tables"
[source]
path = "events"
format = "parquet"
key = "symbol"
time = "ts"
[interval]
length = "{length}"
first = 2026-01-01T00:00:00Z
[operator]
name = "windowed_sum"
[channels]
count = {CHANNELS}
[quality]
{quality}
"""
    )
    pipeline = load_pipeline(file)
    ring = consistent_ring(CHANNELS)
    store_function(
        pipeline.tables, PartitionFunction(version=0, channels=CHANNELS, slots=ring, key_type=key_type), "start"
    )
    return pipeline


def key_row(key: str | int, **changed: Any) -> dict[str, Any]:
    """A key's statistics, with nothing wrong but what is changed."""
    usual = {
        "slot": 7,
        "channel": 1,
        "hash_channel": 3,
        "tuples": TUPLES,
        "cost": 12.5,
        "state_bytes": 80,
        "held_rows": 30,
        "held_bytes": 240,
        "added_rows": 10,
        "added_bytes": 80,
        "rate": 0.0,
    }
    return {"key": key, **usual, **changed}


def put_statistics(
    pipeline: Pipeline,
    interval: Interval,
    keys: list[dict[str, Any]],
    *,
    rows: int | None = None,
    key_type: KeyType = "string",
) -> None:
    """Leave what counting the interval would leave; `rows` are those of the interval, by default what its keys add up to."""
    table = pa.Table.from_pylist(
        [{"interval_id": interval.id, **row} for row in keys], schema=schema_of("key_stats", key_type)
    )
    path = control.table_path(pipeline.tables, "key_stats")
    write_deltalake(path, table, mode="append", partition_by=["interval_id"])
    put_volume(pipeline, interval, sum(row["tuples"] or 0 for row in keys) if rows is None else rows, len(keys))


def put_volume(pipeline: Pipeline, interval: Interval, rows: int, keys: int = 1) -> None:
    """Leave an interval's row in `interval_stats`, as if it had been counted."""
    counted = {
        "interval_id": interval.id,
        "events": rows,
        "rows": rows,
        "keys": keys,
        "function_version": 0,
        "state_newest": "",
        "seconds": 0.1,
        "statistics": "exact",
    }
    control.append(pipeline.tables, "interval_stats", [counted])


def first_interval(pipeline: Pipeline) -> Interval:
    return pipeline.interval_at(pipeline.interval.first)
