"""Does a user gain? The same results by a plain Spark job, by ours without planning, and by ours planned, in one run.

    python -m tests.bench.bench_gain [--events 3000000] [--keys 200000] [--windows 2 12] [--channels 2 8]
        [--streams zipf skewed] [--operators latest_match python function] [--repeat 3]

A  a plain Spark job: the raw events of the window, the same work by key, N partitions, results to a Delta table; adaptive execution on and off
B  ours with the planner `keep`: all five steps, nothing ever planned
C  ours with the default planner

The stream `zipf` has Zipf keys (z = 1) whose hot ones change hands a little in every interval. In `skewed` most of the load falls on keys that
plain hashing puts into one of two partitions: max/mean 1.8. The operator `python` calls, as A does, a Python function per key on all rows of the
window by Spark's applyInArrow, which works about 10 µs a row. `function` is the same work as a function per key of ours, which remembers what it
made of the hours before; A, which has no state, works on the whole window.
Spark's own count by key is taken of the interval's events, and of the events that the operator takes, which reads the column it filters by.
The window is filled first, without the clock. Then A, B and C take turns, `repeat` intervals long; figures are medians, ratios are to the faster A.
"""

# ruff: noqa: T201 - a table for a person at a terminal

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.pipeline.intervals import Interval
from rebalance.spark.session import own_session, spark_session
from rebalance.spark.task_times import channel_work, job_group
from rebalance.steps import STEPS, run_step
from rebalance.steps.rewind import adopt
from rebalance.storage import control
from tests.bench.gain_streams import write_events

#: Seconds of Python work a row, about; the number of rounds is found once and is then the same for everybody.
ROW_SECONDS = 10e-6
COLUMNS = (
    "case",
    "A, s",
    "A without AQE, s",
    "B process_batch, s",
    "B all five, s",
    "C process_batch, s",
    "C all five, s",
    "B process_batch / A",
    "C process_batch / A",
    "B all / A",
    "C all / A",
    "C first four / process_batch",
    "collect_stats / count by key",
    "collect_stats / count of the same columns",
    "A slowest/mean task s",
    "C slowest/mean task s",
)
PYTHON = """
from dataclasses import dataclass
from typing import ClassVar

from tests.bench.gain_work import worked


@dataclass(frozen=True)
class Worked:
    name: ClassVar[str] = "worked"
    mergeable: ClassVar[bool] = False
    keeps_rows: ClassVar[bool] = True
    rounds: int = 100

    def rows(self, events):
        return events.select("key", "price")

    def results(self, rows):
        return rows.select("key", "channel", "price").groupBy("key", "channel").applyInArrow(worked(self.rounds), "key string, total double")

    def state(self, rows):
        return rows

    def cost(self, new_rows, window_rows):
        return window_rows


OPERATOR = Worked
"""
FUNCTION = """
from tests.bench.gain_work import process_hour as process

RESULTS = "total DOUBLE"
STATE = "hour BIGINT, total DOUBLE"
ROWS = ["price"]
"""
OPERATORS = ("latest_match", "python", "function")


@dataclass(frozen=True)
class Case:
    """One line of the table."""

    events: int
    keys: int
    window: int
    channels: int
    stream: str
    operator: str

    def __str__(self) -> str:
        return f"{self.operator}, {self.stream}, {self.events:,} events, w = {self.window}, N = {self.channels}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, nargs="+", default=[3_000_000])
    parser.add_argument("--keys", type=int, default=200_000)
    parser.add_argument("--windows", type=int, nargs="+", default=[2, 12])
    parser.add_argument("--channels", type=int, nargs="+", default=[2, 8])
    parser.add_argument("--streams", nargs="+", default=["zipf", "skewed"], choices=["zipf", "skewed"])
    parser.add_argument("--operators", nargs="+", default=OPERATORS, choices=OPERATORS)
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    print("| " + " | ".join(COLUMNS) + " |")
    print("|---" * len(COLUMNS) + "|")
    for operator in given.operators:
        for stream in given.streams:
            for events in given.events:
                for window in given.windows:
                    for channels in given.channels:
                        case = Case(events, given.keys, window, channels, stream, operator)
                        with tempfile.TemporaryDirectory() as folder:
                            print(Bench(case, Path(folder)).line(given.repeat), flush=True)


class Bench:
    """One case: its events, its two pipelines and the plain job."""

    def __init__(self, case: Case, folder: Path) -> None:
        self.case, self.folder = case, folder
        # What a function per key remembers is made of its work; rows are kept as they are, so there the window is filled without it.
        self.rounds = rounds_of_work() if case.operator == "function" else 0
        self.ours = self._pipelines()
        self.first = self.ours["keep"].interval_at(self.ours["keep"].interval.first)
        self.spark = spark_session(self.ours["keep"])
        self.taken: dict[str, list[float]] = {}
        self.spread: dict[str, str] = {}

    def line(self, repeat: int) -> str:
        """Fill the window, let all take turns, and sum up."""
        first, last = self.case.window + 1, self.case.window + repeat
        case = self.case
        write_events(self.folder / "events", self.first, case.stream, case.events, case.keys, last + 1)
        self._fill()
        if case.operator == "python":
            self.rounds = rounds_of_work()
            self.ours = self._pipelines()
            for pipeline in self.ours.values():
                adopt(pipeline)
        for number in range(first, last + 1):
            self._take_turns(self.first.shifted(number))
        self._check(self.first.shifted(last))
        taken = {name: median(values) for name, values in self.taken.items()}
        return "| " + " | ".join([str(self.case), *self._cells(taken)]) + " |"

    def _take_turns(self, interval: Interval) -> None:
        """One interval, by each of them."""
        taken: dict[str, float] = {}
        for name, aqe in (("A", True), ("A off", False)):
            taken[name], self.spread[name] = self._plain(interval, aqe)
        taken["count"], taken["same count"] = self._count(interval), self._count(interval, self._of_the_operator())
        for planner in self.ours:
            steps = self._ours(planner, interval)
            taken[planner], taken[f"{planner} all"] = steps["process_batch"], sum(steps.values())
            taken[f"{planner} counted"] = steps["collect_stats"]
            self.spread[planner] = self._tasks(planner, interval)
        print(f"# {self.case}, {interval.id}: " + ", ".join(f"{k} {v:.1f}" for k, v in taken.items()), file=sys.stderr)
        for name, seconds in taken.items():
            self.taken.setdefault(name, []).append(seconds)

    def _cells(self, taken: dict[str, float]) -> list[str]:
        plain, planned = min(taken["A"], taken["A off"]), taken["frugal"]
        seconds = [f"{taken[name]:.1f}" for name in ("A", "A off", "keep", "keep all", "frugal", "frugal all")]
        ratios = [
            taken["keep"] / plain,
            planned / plain,
            taken["keep all"] / plain,
            taken["frugal all"] / plain,
            (taken["frugal all"] - planned) / planned,
            taken["frugal counted"] / taken["count"],
            taken["frugal counted"] / taken["same count"],
        ]
        return [*seconds, *(f"{ratio:.2f}" for ratio in ratios), self.spread["A off"], self.spread["frugal"]]

    def _fill(self) -> None:
        """The window's state: counted and by the ring, once for both, then one interval of all steps, whose plan moves what has to move."""
        first, *others = self.ours.values()
        for number in range(self.case.window):
            for step in ("collect_stats", "process_batch"):
                run_step(step, first, self.first.shifted(number))
        for other in others:
            shutil.copytree(first.tables, other.tables)
        for pipeline in self.ours.values():
            for step in STEPS:
                run_step(step.name, pipeline, self.first.shifted(self.case.window))

    def _ours(self, planner: str, interval: Interval) -> dict[str, float]:
        taken = {}
        for step in STEPS:
            began = time.perf_counter()
            run_step(step.name, self.ours[planner], interval)
            taken[step.name] = time.perf_counter() - began
        print(
            f"#   {planner}: " + ", ".join(f"{name} {seconds:.2f}" for name, seconds in taken.items()), file=sys.stderr
        )
        return taken

    def _tasks(self, planner: str, interval: Interval) -> str:
        (batch,) = control.rows(self.ours[planner].tables, "batches", interval_id=interval.id)
        return slowest_over_mean(batch["task_seconds"])

    def _plain(self, interval: Interval, aqe: bool) -> tuple[float, str]:
        settings = {
            "spark.sql.adaptive.enabled": str(aqe).lower(),
            "spark.sql.shuffle.partitions": str(self.case.channels),
        }
        spark = own_session(self.spark, settings)
        start = interval.shifted(1 - self.case.window).start
        events = spark.read.parquet(str(self.folder / "events"))
        events = events.where((F.col("ts") >= F.lit(start)) & (F.col("ts") < F.lit(interval.end)))
        work = {"latest_match": matched, "python": self._worked, "function": self._worked_by_hour}[self.case.operator]
        began = time.perf_counter()
        with job_group(spark, "plain") as group:
            result = work(events, interval).withColumn("interval_id", F.lit(interval.id))
            result.write.format("delta").mode("append").save(str(self.folder / f"plain {aqe}"))
            seconds = time.perf_counter() - began
            return seconds, slowest_over_mean(channel_work(spark, group, self.case.channels).seconds)

    def _of_the_operator(self) -> Column:
        """The events that the operator takes."""
        return F.col("side").isin("buy", "sell") if self.case.operator == "latest_match" else F.lit(True)

    def _count(self, interval: Interval, which: Column | None = None) -> float:
        """Spark's own count by key of the interval's events."""
        events = self.spark.read.parquet(str(self.folder / "events"))
        events = events.where((F.col("ts") >= F.lit(interval.start)) & (F.col("ts") < F.lit(interval.end)))
        events = events if which is None else events.where(which)
        began = time.perf_counter()
        events.groupBy("symbol").count().write.format("noop").mode("overwrite").save()
        return time.perf_counter() - began

    def _worked(self, events: DataFrame, interval: Interval) -> DataFrame:
        from tests.bench.gain_work import worked

        rows = events.select(F.col("symbol").alias("key"), "price")
        return rows.groupBy("key").applyInArrow(worked(self.rounds), "key string, total double")

    def _worked_by_hour(self, events: DataFrame, interval: Interval) -> DataFrame:
        from tests.bench.gain_work import HOUR, worked_by_hour

        hour = (F.unix_micros("ts") / F.lit(HOUR)).cast("bigint")
        rows = events.select(F.col("symbol").alias("key"), "price", hour.alias("hour"))
        newest = int(interval.start.timestamp()) // 3600
        return rows.groupBy("key").applyInArrow(worked_by_hour(self.rounds, newest), "key string, total double")

    def _check(self, interval: Interval) -> None:
        """All three have the same results."""
        places = [str(self.folder / "plain False"), *(f"{p.tables}/results" for p in self.ours.values())]
        sums = []
        for place in places:
            found = self.spark.read.format("delta").load(place).where(F.col("interval_id") == interval.id)
            columns = sorted(set(found.columns) - {"interval_id"})
            sums.append(found.agg(F.count(F.lit(1)), F.sum(F.hash(*columns).cast("bigint"))).first())
        assert sums[0] is not None
        assert len(set(map(tuple, sums))) == 1, f"results differ: {sums}"

    def _pipelines(self) -> dict[str, Pipeline]:
        (self.folder / "worked.py").write_text(PYTHON)
        (self.folder / "function.py").write_text(FUNCTION)
        return {planner: self._pipeline(planner) for planner in ("keep", "frugal")}

    def _pipeline(self, planner: str) -> Pipeline:
        window = self.case.window
        operator = {
            "latest_match": f'window = {window}\nname = "latest_match"\nparameters = {{ kind = "side", value = "price" }}',
            "python": f'window = {window}\nfile = "worked.py"\nparameters = {{ rounds = {self.rounds} }}',
            "function": f'function = "function.py"\nparameters = {{ rounds = {self.rounds}, window = {window} }}',
        }[self.case.operator]
        file = self.folder / f"{planner}.toml"
        file.write_text(
            f'tables = "{planner}"\n[source]\npath = "events"\nformat = "parquet"\nkey = "symbol"\ntime = "ts"\n'
            f'[interval]\nlength = "1 h"\nfirst = 2026-01-01T00:00:00Z\n[operator]\n{operator}\n'
            f'[channels]\ncount = {self.case.channels}\n[planning]\nplanner = "{planner}"\ntheta_max = 0.05\n'
        )
        return load_pipeline(file)


def matched(events: DataFrame, interval: Interval) -> DataFrame:
    """latest_match as one would write it by hand."""
    before = Window.partitionBy("symbol").orderBy(F.unix_micros("ts")).rangeBetween(Window.unboundedPreceding, -1)
    candidate = F.when(F.col("side") == "buy", F.struct("ts", "price"))
    return (
        events.withColumn("match", F.max(candidate).over(before))
        .where((F.col("side") == "sell") & (F.col("ts") >= F.lit(interval.start)))
        .select(
            F.col("symbol").alias("key"),
            F.col("ts").alias("time"),
            F.col("price").alias("value"),
            F.col("match.ts").alias("match_time"),
            F.col("match.price").alias("match_value"),
        )
    )


def slowest_over_mean(seconds: list[float]) -> str:
    """Of the channels' tasks."""
    return f"{max(seconds):.1f}/{sum(seconds) / len(seconds):.1f}"


def rounds_of_work() -> int:
    """How many rounds of the Python work take about as long as a row should."""
    from tests.bench.gain_work import spin

    began = time.perf_counter()
    spin(1.0, 200_000)
    return max(1, round(ROW_SECONDS / ((time.perf_counter() - began) / 200_000)))


if __name__ == "__main__":
    main()
