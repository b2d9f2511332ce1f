"""`make demo`: a few hours of generated trades through Airflow, and what rebalancing made of them.

Starts clean each time: the demo's own folder is emptied first. Nothing else is touched.
"""

from __future__ import annotations

import argparse
import logging
import shutil
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from rebalance.demo.clock import race
from rebalance.demo.events import demo_workload, write_trades
from rebalance.demo.story import OnTheClock, Seconds, intervals_table, rebalancing_seconds
from rebalance.errors import RebalanceError
from rebalance.partition import consistent_ring
from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.pipeline.intervals import Interval
from rebalance.storage.history import IntervalRecord, read_history
from rebalance.storage.reader import open_tables
from rebalance.view.compare import best_readj, compare_planners, comparison_table
from rebalance.view.pictures import draw_loads

PROJECT = Path(__file__).resolve().parents[2]
FOLDER = PROJECT / ".local" / "demo"
PIPELINE = PROJECT / "dags" / "pipelines" / "demo.toml"
#: Planners whose plans are put beside the pipeline's own; then comes readj by the best of several σ.
OTHERS = ("mixed", "scan", "redist")


def main() -> int:
    """Generate, run, show."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--intervals", type=int, default=4)
    parser.add_argument("--events", type=int, default=600_000, help="events per interval")
    given = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
    try:
        _demo(console, given.intervals, given.events)
    except RebalanceError as error:
        console.print(f"[bold red]The demo stopped.[/] {error}")
        return 1
    return 0


def _demo(console: Console, intervals: int, events: int) -> None:
    started = time.perf_counter()
    pipeline = load_pipeline(PIPELINE)
    _generate(console, pipeline, intervals, events)
    seconds = _run(console, pipeline, intervals)
    records = read_history(pipeline.tables)
    console.print(intervals_table(records, seconds))
    _draw(console, pipeline, records, events)
    last = pipeline.interval_at(pipeline.interval.first).shifted(intervals - 1)
    _on_the_clock(console, pipeline, last, records[-1], seconds)
    _other_planners(console, pipeline, last)
    console.print(
        f"Done in {time.perf_counter() - started:.0f} s. Look around: `make ui` opens Airflow on the same runs; "
        "`.venv/bin/rebalance status demo` says why each plan was made, `inspect` shows the tables."
    )


def _generate(console: Console, pipeline: Pipeline, intervals: int, events: int) -> None:
    shutil.rmtree(FOLDER, ignore_errors=True)
    workload = demo_workload(pipeline.channels.count)
    first = pipeline.interval_at(pipeline.interval.first)
    written = write_trades(Path(pipeline.source.path), first, workload, intervals=intervals, events=events)
    console.print(
        f"{written:,} trades of {workload.keys:,} symbols in {intervals} intervals of an hour written to {Path(pipeline.source.path).relative_to(PROJECT)}"
    )


def _run(console: Console, pipeline: Pipeline, intervals: int) -> Seconds:
    """Every interval through Airflow; returns the seconds of each step."""
    from rebalance.demo.in_process import load_dag, prepare, run_interval

    console.print("Starting Airflow and Spark (about 20 s) …")
    # Airflow and its libraries talk to their own developers here; what the tasks have to say is shown below.
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    prepare()
    dag = load_dag(pipeline.dag_id)
    first = pipeline.interval_at(pipeline.interval.first)
    seconds: dict[str, dict[str, float]] = {}
    for number in range(intervals):
        interval = first.shifted(number)
        console.print(f"[bold]Interval {number + 1} of {intervals}[/], {interval}")
        steps, clock = seconds.setdefault(interval.id, {}), [time.perf_counter()]

        def report(
            task: str, state: str, said: str, steps: dict[str, float] = steps, clock: list[float] = clock
        ) -> None:
            took, clock[0] = time.perf_counter() - clock[0], time.perf_counter()
            steps[task] = took
            console.print(f"  {task:13} {took:5.1f} s  {'' if state == 'success' else f'[red]{state}[/] '}{said}")

        run_interval(dag, interval, report=report)
    return seconds


def _draw(console: Console, pipeline: Pipeline, records: list[IntervalRecord], events: int) -> None:
    planning, picture = pipeline.planning, FOLDER / "loads.png"
    title = f"{pipeline.channels.count} channels, {events:,} trades an hour: hash alone against {planning.planner}"
    draw_loads(records, picture, theta_max=planning.theta_max, title=title)
    without, reached = (
        sum(loads) / len(records) for loads in ([r.without for r in records], [r.reached for r in records])
    )
    console.print(
        f"On average the fullest channel got {reached:.2f}x the mean load; by the hash alone it would have got {without:.2f}x. "
        f"The picture of every channel's load: {picture.relative_to(PROJECT)}\n"
    )


def _on_the_clock(
    console: Console, pipeline: Pipeline, interval: Interval, record: IntervalRecord, seconds: Seconds
) -> None:
    """Process the last interval again, by the ring alone and by the function its plan has led to."""
    from rebalance.spark.session import spark_session

    planned, channels = open_tables(pipeline.tables).function, pipeline.channels
    ring = consistent_ring(channels.count, replicas=channels.replicas, excluded=channels.excluded)
    functions = {"hash": replace(planned, slots=ring, routes={}, splits={}), "plan": planned}
    runs = race(pipeline, interval, functions, FOLDER / "clock")
    shutil.rmtree(FOLDER / "clock")
    cores = spark_session(pipeline).sparkContext.defaultParallelism
    compared = OnTheClock(runs["hash"], runs["plan"], record, rebalancing_seconds(seconds[interval.id]), cores)
    console.print(compared.table())
    console.print("\n".join(compared.sentences()) + "\n")


def _other_planners(console: Console, pipeline: Pipeline, interval: Interval) -> None:
    own = pipeline.planning.planner
    plans = compare_planners(pipeline, interval, [own, *(name for name in OTHERS if name != own)])
    plans.append(best_readj(pipeline, interval))
    title = f"What other planners would have done with interval {interval.id}, beside the pipeline's own, {own}"
    console.print(comparison_table(plans, title))


if __name__ == "__main__":
    sys.exit(main())
