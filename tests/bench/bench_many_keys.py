"""Planning for very many keys, statistics = "compact": seconds of each step beside Spark's own groupBy-count of the same keys, and what the driver needs.

    python -m tests.bench.bench_many_keys [--keys 100000 1000000 10000000] [--channels 4 16 64] [--heap 6g] [--statistics compact] [--hours 1]
    python -m tests.bench.bench_many_keys --against-exact [--keys 1000000]
    python -m tests.bench.bench_many_keys --plot LINES --out FILE

Generated events: every key once, and as many events again whose keys are Zipf with z = 1. They are made by Spark and kept as Parquet in a temporary
folder. Each size has a process and a JVM of its own; the count is taken from the same files in the same session, right before and right after
the steps, and the ratio is to the mean of both. Seconds are those of processors, of Spark's JVM with its workers and of this process, which other work on the
machine hardly changes; seconds on the clock stand beside them. A small size is run first, so that Java is warm. With more `--hours`, all but
the last are processed first, so that keys hold state. Lines of JSON are what is printed; `--plot` draws them and says how each step grows.

`--against-exact` makes plans on all keys and on those that are named, from the same figures, in memory.
"""

# ruff: noqa: T201 - lines for a person at a terminal

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rebalance.partition import SLOTS, consistent_ring
from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.planners.registry import make_planner
from rebalance.planning.decide import decide
from rebalance.planning.model import KeyStats, Limits, Request
from rebalance.steps import run_step
from rebalance.storage import control
from tests.support.some_keys import needed, some_keys

STEPS = ("collect_stats", "check_quality", "make_plan")


def main() -> None:
    """Measure, compare or draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, nargs="*", default=[100_000, 1_000_000, 10_000_000])
    parser.add_argument("--channels", type=int, nargs="*", default=[4, 16, 64])
    parser.add_argument("--heap", default="6g")
    parser.add_argument("--statistics", default="compact")
    parser.add_argument("--hours", type=int, default=1)
    parser.add_argument("--against-exact", action="store_true")
    parser.add_argument("--plot")
    parser.add_argument("--out", default="many_keys.png")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.plot:
        plot(options.plot, options.out)
    elif options.one:
        measure(options)
    elif options.against_exact:
        for channels in options.channels:
            compare(options.keys[0], channels)
    else:
        for keys in options.keys:
            chosen = ["--keys", str(keys), "--heap", options.heap, "--statistics", options.statistics]
            chosen += ["--hours", str(options.hours)]
            channels = ["--channels", *map(str, options.channels)]
            command = [sys.executable, "-m", "tests.bench.bench_many_keys", "--one", *chosen, *channels]
            subprocess.run(command, check=True)


def pipeline_in(folder: Path, options: argparse.Namespace, keys: int, channels: int) -> Pipeline:
    """A pipeline on the events of a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "many.toml").write_text(
        f"""
tables = "tables"
[source]
path = "{folder.parent / "events"}"
format = "parquet"
key = "user"
time = "ts"
[interval]
length = "1 h"
first = 2026-01-01T00:00:00Z
[operator]
name = "windowed_sum"
window = {max(1, 3 * (options.hours > 1))}
[operator.parameters]
value = "value"
[channels]
count = {channels}
[planning]
theta_max = 0.02
statistics = "{options.statistics}"
[spark]
master = "local[2]"
[spark.settings]
"spark.driver.memory" = "{options.heap}"
"spark.sql.shuffle.partitions" = "{max(4, keys // 1_000_000)}"
"""
    )
    return load_pipeline(folder / "many.toml")


def write_events(spark: Any, folder: Path, keys: int, *, hour: int = 0) -> None:
    """Every key once, and as many events whose key is any rank's with a probability of about 1 / rank; in another hour other keys are hot."""
    hot = f"floor(pow({keys}D, (xxhash64(id) & 9007199254740991) / 9007199254740992D))"
    every = spark.range(keys).selectExpr("id AS user", "id")
    more = spark.range(keys).selectExpr(f"(cast({hot} AS BIGINT) + {hour} * {keys // 7}) % {keys} AS user", "id")
    start = f"timestamp'2026-01-01 {hour:02d}:00:00'"
    events = every.unionAll(more).selectExpr(
        "user", f"{start} + make_dt_interval(0, 0, id % 60) AS ts", "1.0D AS value"
    )
    events.write.mode("append").parquet(str(folder))


class Watch:
    """Seconds of processors and on the clock, since it was made."""

    def __init__(self, spark: Any) -> None:
        self.jvm = spark._jvm.java.lang.ProcessHandle.current().pid()
        self.began = self._now()

    def _now(self) -> tuple[float, float]:
        return time.process_time() + sum(map(processor_seconds, (self.jvm, *below(self.jvm)))), time.perf_counter()

    def seconds(self) -> tuple[float, float]:
        """What has passed."""
        cpu, clock = self._now()
        return cpu - self.began[0], clock - self.began[1]


def below(pid: int) -> list[int]:
    """The processes that a process has started, and those that these have: Spark's Python workers."""
    own = [int(child) for file in Path(f"/proc/{pid}/task").glob("*/children") for child in file.read_text().split()]
    return [*own, *(other for child in own for other in below(child))]


def processor_seconds(pid: int) -> float:
    """What a process has used, and those of its own that are gone."""
    used = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]
    return sum(map(int, used)) / os.sysconf("SC_CLK_TCK")


def groupby_seconds(spark: Any, folder: Path, hour: int) -> tuple[float, float]:
    """Spark's own count of the same keys; all of its rows are made, and thrown away."""
    watch, events = Watch(spark), spark.read.parquet(str(folder))
    if hour:
        events = events.where(f"ts >= timestamp'2026-01-01 {hour:02d}:00:00'")
    events.groupBy("user").count().write.format("noop").mode("overwrite").save()
    return watch.seconds()


def measure(options: argparse.Namespace) -> None:
    """One size in this process; a line for every number of channels."""
    (keys,) = options.keys
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        first = pipeline_in(folder / "small" / "first", options, keys, options.channels[0])
        spark = _session(first)
        write_events(spark, folder / "small" / "events", 10_000)
        for step in STEPS:
            run_step(step, first, first.interval_at(first.interval.first))
        newest = options.hours - 1
        for hour in range(options.hours):
            write_events(spark, folder / "events", keys, hour=hour)
        idle = heap(spark), resident()
        for channels in options.channels:
            pipeline = pipeline_in(folder / f"n{channels}", options, keys, channels)
            interval = pipeline.interval_at(pipeline.interval.first)
            for _ in range(newest):
                for step in (*STEPS, "migrate_state", "process_batch"):
                    run_step(step, pipeline, interval)
                interval = interval.shifted(1)
            before, seconds = groupby_seconds(spark, folder / "events", newest), {}
            for step in STEPS:
                watch = Watch(spark)
                run_step(step, pipeline, interval)
                seconds[step] = watch.seconds()
            after = groupby_seconds(spark, folder / "events", newest)
            (plan,) = control.rows(pipeline.tables, "plans", interval_id=interval.id)
            count, clock = ((before[n] + after[n]) / 2 for n in (0, 1))
            found = {
                "statistics": options.statistics,
                "keys": keys,
                "channels": channels,
                "count": round(count, 2),
                **{step: round(cpu, 2) for step, (cpu, _) in seconds.items()},
                "ratio": round(sum(cpu for cpu, _ in seconds.values()) / count, 2),
                "clock": {"count": round(clock, 2), **{step: round(taken, 2) for step, (_, taken) in seconds.items()}},
                "ratio_by_clock": round(sum(taken for _, taken in seconds.values()) / clock, 2),
                "hours": options.hours,
                "named": control.count(pipeline.tables, "key_stats", interval_id=interval.id),
                "heap_mib": round((heap(spark) - idle[0]) / 2**20),
                "python_mib": round((resident() - idle[1]) / 2**20),
                "skewness": [round(plan["skewness_before"], 4), round(plan["skewness_after"], 4)],
            }
            print(json.dumps(found), flush=True)
            shutil.rmtree(folder / f"n{channels}")
        spark.stop()


def _session(pipeline: Pipeline) -> Any:
    from rebalance.spark.session import spark_session

    return spark_session(pipeline)


def heap(spark: Any) -> int:
    """Bytes of Spark's JVM, driver and executor in one, that are still needed."""
    runtime = spark._jvm.java.lang.Runtime.getRuntime()
    runtime.gc()
    return int(runtime.totalMemory() - runtime.freeMemory())


def resident() -> int:
    """The most bytes that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def compare(keys: int, channels: int) -> None:
    """Plans on all keys and on those that a plan may need, from figures in memory; what is held comes from an hour in which other keys were hot."""
    rng, ring = np.random.default_rng(3), consistent_ring(channels)
    slots = rng.integers(0, SLOTS, keys).astype(np.int32)
    before, now = (np.bincount((_ranks(rng, keys) + shift) % keys, minlength=keys) + 1.0 for shift in (0, keys // 7))
    whole = Request(
        stats=KeyStats(keys=np.arange(keys), slots=slots, tuples=now, cost=now, state=17 * before),
        current=ring[slots].astype(np.int32),
        ring=ring,
        capacity=np.ones(channels),
        limits=Limits(theta_max=0.02),
    )
    named = needed(whole)
    part, active = some_keys(whole, named)
    for planner in ("frugal", "mixed"):
        plans = [decide(make_planner(planner), request, active) for request in (whole, part)]
        figures = {
            "skewness_before": [round(plan.before.skewness, 4) for plan in plans],
            "skewness_after": [round(plan.after.skewness, 4) for plan in plans],
            "moved_keys": [len(plan.moved) for plan in plans],
            "moved_bytes": [plan.moved_bytes for plan in plans],
        }
        print(
            json.dumps({"keys": keys, "channels": channels, "named": int(named.sum()), "planner": planner, **figures})
        )


def _ranks(rng: np.random.Generator, keys: int) -> NDArray[np.int64]:
    """A rank for each of as many events as there are keys, with a probability of about 1 / rank."""
    return np.floor(keys ** rng.random(keys)).astype(np.int64)


def plot(lines: str, out: str) -> None:
    """Seconds of each step over the number of keys, and the exponents with which they grow."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    found = [json.loads(line) for line in Path(lines).read_text().splitlines() if line.startswith("{")]
    curves: dict[tuple[str, int], list[tuple[int, float]]] = defaultdict(list)
    for row in found:
        for name in ("count", *STEPS):
            curves[name, row["channels"]].append((row["keys"], max(row[name], 0.01)))
    figure, axes = plt.subplots(figsize=(7, 4.5))
    for (name, channels), points in curves.items():
        keys, seconds = map(np.array, zip(*sorted(points), strict=True))
        if len(keys) > 1:
            exponent = np.polyfit(np.log(keys), np.log(seconds), 1)[0]
            last = np.log(seconds[-1] / seconds[-2]) / np.log(keys[-1] / keys[-2])
            print(
                f"{name}, N = {channels}: exponent {exponent:.2f}, from {keys[-2]:.0e} to {keys[-1]:.0e} keys {last:.2f}"
            )
        shade = ("count", *STEPS).index(name)
        marker = "os^Dv"[sorted({each for _, each in curves}).index(channels) % 5]
        axes.loglog(keys, seconds, marker=marker, color=f"C{shade}", label=f"{name}, N = {channels}", alpha=0.7)
    axes.set_xlabel("keys")
    axes.set_ylabel("processor seconds")
    axes.legend(fontsize=7, ncols=2)
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(out, dpi=120)


if __name__ == "__main__":
    main()
