"""`make demo`: eight hours of generated trades through Airflow, and what rebalancing made of them.

Starts clean each time: the demo's own folder is emptied first. Nothing else is touched.
"""

from __future__ import annotations

import argparse
import logging
import shutil
import sys
import time
import warnings
from pathlib import Path

from rich.console import Console

from rebalance.demo.events import write_trades
from rebalance.errors import RebalanceError
from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.simulate.workload import Workload
from rebalance.storage.history import read_history
from rebalance.view.pictures import draw_loads
from rebalance.view.status import history_table

PROJECT = Path(__file__).resolve().parents[2]
FOLDER = PROJECT / ".local" / "demo"
PIPELINE = PROJECT / "dags" / "pipelines" / "demo.toml"
#: A skew that plain hashing cannot even out (Zipf with z = 1), drifting by a fifth of a mean load every interval.
KEYS, Z, DRIFT, SEED = 20_000, 1.0, 0.2, 1


def main() -> int:
    """Generate, run, show."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--intervals", type=int, default=8)
    parser.add_argument("--events", type=int, default=130_000, help="events per interval")
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
    _run(console, pipeline, intervals)
    picture = FOLDER / "loads.png"
    records = read_history(pipeline.tables)
    console.print(history_table(records))
    draw_loads(
        records,
        picture,
        theta_max=pipeline.planning.theta_max,
        title=f"{pipeline.channels.count} channels, {events:,} trades an hour: hash alone against {pipeline.planning.planner}",
    )
    later = records[1:] or records
    without, rebalanced = (
        sum(values) / len(later) for values in ([r.without for r in later], [r.before for r in later])
    )
    console.print(
        f"After the first plan the fullest channel had {rebalanced:.2f}x the mean load; by the hash alone it would have had {without:.2f}x."
    )
    console.print(f"The picture of every channel's load: {picture.relative_to(PROJECT)}")
    console.print(
        f"Done in {time.perf_counter() - started:.0f} s. Look around: `make ui` opens Airflow on the same runs; `.venv/bin/rebalance inspect demo` the tables."
    )


def _generate(console: Console, pipeline: Pipeline, intervals: int, events: int) -> None:
    shutil.rmtree(FOLDER, ignore_errors=True)
    workload = Workload(keys=KEYS, channels=pipeline.channels.count, z=Z, f=DRIFT, seed=SEED)
    first = pipeline.interval_at(pipeline.interval.first)
    written = write_trades(Path(pipeline.source.path), first, workload, intervals=intervals, events=events)
    console.print(
        f"{written:,} trades of {KEYS:,} symbols in {intervals} intervals of an hour written to {Path(pipeline.source.path).relative_to(PROJECT)}"
    )


def _run(console: Console, pipeline: Pipeline, intervals: int) -> None:
    from rebalance.demo.in_process import load_dag, prepare, run_interval

    console.print("Starting Airflow and Spark (about 20 s) …")
    # Airflow and its libraries talk to their own developers here; what the tasks have to say is shown below.
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    prepare()
    dag = load_dag(pipeline.dag_id)
    first = pipeline.interval_at(pipeline.interval.first)
    for number in range(intervals):
        interval = first.shifted(number)
        console.print(f"[bold]Interval {number + 1} of {intervals}[/], {interval}")
        clock = [time.perf_counter()]

        def report(task: str, state: str, said: str, clock: list[float] = clock) -> None:
            took, clock[0] = time.perf_counter() - clock[0], time.perf_counter()
            console.print(f"  {task:13} {took:5.1f} s  {'' if state == 'success' else f'[red]{state}[/] '}{said}")

        run_interval(dag, interval, report=report)


if __name__ == "__main__":
    sys.exit(main())
