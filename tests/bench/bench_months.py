"""Months of small intervals, with maintenance now and then: does anything grow?

    python -m tests.bench.bench_months [--intervals 500] [--events 1000] [--maintain 24] [--plot docs/months.png]

Intervals of an hour, from a source in folders of days and hours, all steps in one process. Every so many intervals maintenance runs, which
keeps two days of everything. The table has a line for each tenth of the run: medians of an interval's seconds, by the clock and of processor
time in both processes, and at its end the files and log entries of all tables, their bytes, the heap that is in use after a collection, and
the memory of the Python process. Processor time hardly depends on what else the machine does.
"""

# ruff: noqa: T201 - a table for a person at a terminal

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from rebalance.demo.events import write_trades
from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.simulate.workload import Workload
from rebalance.spark.session import spark_session
from rebalance.steps.maintain import maintain
from rebalance.steps.run import run_interval
from tests.bench.bench_interval import cpu_seconds

FILE = """
tables = "tables"
[source]
path = "events"
format = "parquet"
key = "symbol"
time = "ts"
partitions = { day = "%Y-%m-%d", hour = "%H" }
[interval]
length = "1 h"
first = 2026-01-01T00:00:00Z
[operator]
name = "latest_match"
window = 3
[operator.parameters]
kind = "side"
value = "price"
[channels]
count = 4
[planning]
theta_max = 0.05
[retention]
results = "2 d"
statistics = "2 d"
plans = "2 d"
functions = "2 d"
epochs = "1 d"
files = "1 min"
"""
COLUMNS = (
    "intervals",
    "s an interval",
    "CPU s an interval",
    "s of maintenance",
    "files",
    "log entries",
    "MB",
    "heap MB",
    "Python MB",
)


@dataclass(frozen=True)
class Look:
    """What there is after an interval."""

    seconds: float
    cpu: float
    maintained: float
    files: int
    entries: int
    megabytes: float
    heap: float
    python: float


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--intervals", type=int, default=500)
    parser.add_argument("--events", type=int, default=1000)
    parser.add_argument("--maintain", type=int, default=24)
    parser.add_argument("--plot", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        looks = run(made(Path(folder), given.intervals, given.events), given.intervals, given.maintain)
    print("| " + " | ".join(COLUMNS) + " |")
    print("|---" * len(COLUMNS) + "|")
    part = max(1, given.intervals // 10)
    for end in range(part, len(looks) + 1, part):
        print(line(end - part, end, looks[end - part : end]))
    if given.plot:
        plot(looks, given.plot)


def made(folder: Path, intervals: int, events: int) -> Pipeline:
    """A pipeline and its events, each hour's in its own folder."""
    file = folder / "months.toml"
    file.write_text(FILE)
    pipeline = load_pipeline(file)
    first = pipeline.interval_at(pipeline.interval.first)
    write_trades(
        folder / "all", first, Workload(keys=200, channels=4, z=1.0, f=0.5, seed=7), intervals=intervals, events=events
    )
    for number in range(intervals):
        interval = first.shifted(number)
        hour = folder / "events" / f"day={interval.start:%Y-%m-%d}" / f"hour={interval.start:%H}"
        hour.mkdir(parents=True)
        (folder / "all" / f"{interval.id}.parquet").rename(hour / "events.parquet")
    return pipeline


def run(pipeline: Pipeline, intervals: int, every: int) -> list[Look]:
    """All intervals, one after the other."""
    spark, looks = spark_session(pipeline), []
    first = pipeline.interval_at(pipeline.interval.first)
    for number in range(intervals):
        began, used = time.perf_counter(), used_by_both(spark)
        trouble = run_interval(pipeline, first.shifted(number), say=lambda text: None)
        seconds, began, used = time.perf_counter() - began, time.perf_counter(), used_by_both(spark) - used
        assert not trouble, trouble
        if number % every == every - 1:
            maintain(pipeline)
        looks.append(look(pipeline, spark, seconds, used, time.perf_counter() - began))
        print(f"# {number + 1} of {intervals}: {looks[-1]}", file=sys.stderr)
    return looks


def used_by_both(spark: Any) -> float:
    """Processor seconds of this process and of Spark's so far."""
    return time.process_time() + cpu_seconds(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())


def look(pipeline: Pipeline, spark: Any, seconds: float, used: float, maintained: float) -> Look:
    """Count what is there."""
    found = [path for path in Path(pipeline.tables).rglob("*") if path.is_file()]
    logs = [path for path in found if "_delta_log" in path.parts]
    jvm = spark.sparkContext._jvm
    jvm.java.lang.System.gc()
    runtime = jvm.java.lang.Runtime.getRuntime()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return Look(
        seconds,
        used,
        maintained,
        len(found) - len(logs),
        len(logs),
        sum(path.stat().st_size for path in found) / 1e6,
        (runtime.totalMemory() - runtime.freeMemory()) / 1e6,
        pages * os.sysconf("SC_PAGE_SIZE") / 1e6,
    )


def line(start: int, end: int, looks: Sequence[Look]) -> str:
    """A tenth of the run."""
    last, upkeep = looks[-1], [look.maintained for look in looks if look.maintained > 0.5]
    cells = [
        f"{start + 1} to {end}",
        f"{median(look.seconds for look in looks):.2f}",
        f"{median(look.cpu for look in looks):.2f}",
        f"{median(upkeep):.1f}" if upkeep else "",
        f"{last.files:,}",
        f"{last.entries:,}",
        f"{last.megabytes:.1f}",
        f"{last.heap:.0f}",
        f"{last.python:.0f}",
    ]
    return "| " + " | ".join(cells) + " |"


def plot(looks: Sequence[Look], file: Path) -> None:
    """The same as curves, one below the other."""
    import matplotlib.pyplot as plt

    curves: dict[str, list[float]] = {
        "processor seconds": [look.cpu for look in looks],
        "files": [look.files + look.entries for look in looks],
        "MB": [look.megabytes for look in looks],
        "heap, MB": [look.heap for look in looks],
    }
    figure, axes = plt.subplots(len(curves), 1, sharex=True, figsize=(8, 8), layout="constrained")
    for axis, (name, values) in zip(axes, curves.items(), strict=True):
        axis.plot(range(1, len(values) + 1), values, linewidth=0.9)
        axis.set_ylabel(name)
        axis.set_ylim(0, 1.25 * sorted(values)[int(0.98 * (len(values) - 1))])
    axes[-1].set_xlabel("interval")
    figure.savefig(file, dpi=80)
    plt.close(figure)


if __name__ == "__main__":
    main()
