"""What planning to read the state in place takes: python -m tests.bench.bench_in_place [--channels 64] [--windows 2 12].

Seconds from the state's DataFrame to one that has a channel's files in each partition beside the placed rows, without any job: listing
the files, grouping them, and telling Spark where they are. A median of five; the state has one file an interval and channel.
"""

# ruff: noqa: T201 - a table for a person at a terminal

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median

from rebalance.pipeline.file import Pipeline
from rebalance.spark.in_place import placed_frame, scanned_in_place
from rebalance.spark.placement import placing_session
from rebalance.spark.session import spark_session
from rebalance.steps import run_step
from rebalance.storage.state import head_version, read_state
from tests.support.world import first_interval, make_world


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--channels", type=int, default=64)
    parser.add_argument("--windows", type=int, nargs="+", default=[2, 12])
    options = parser.parse_args()
    print("| channels | window | files | seconds |\n|---|---|---|---|")
    for window in options.windows:
        with tempfile.TemporaryDirectory() as folder:
            pipeline = filled(Path(folder), options.channels, window)
            files = len(list(Path(pipeline.tables, "state").rglob("*.parquet")))
            taken = median(planning_seconds(pipeline) for _ in range(5))
            print(f"| {options.channels} | {window} | {files} | {taken:.2f} |", flush=True)


def filled(folder: Path, channels: int, window: int) -> Pipeline:
    """A pipeline with a whole window of state."""
    operator = f'[operator]\nname = "windowed_sum"\nwindow = {window}\nparameters = {{ value = "price" }}'
    pipeline = make_world(
        folder, planner="keep", channels=channels, intervals=window - 1, operator=operator, events=4000, keys=2000
    )
    for number in range(window - 1):
        run_step("process_batch", pipeline, first_interval(pipeline).shifted(number))
    return pipeline


def planning_seconds(pipeline: Pipeline) -> float:
    """Of one plan."""
    spark = placing_session(spark_session(pipeline))
    state = read_state(spark, pipeline.tables, head_version(pipeline.tables))
    began = time.perf_counter()
    placed_frame(scanned_in_place(state, pipeline.channels.count), state, pipeline.channels.count)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
