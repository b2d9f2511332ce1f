"""Intervals without Airflow: the same five steps in the same order, in one process and one Spark session."""

from __future__ import annotations

import time
from collections.abc import Callable

from rebalance.errors import ConfigError
from rebalance.pipeline.file import Pipeline
from rebalance.pipeline.intervals import Interval, parse_start
from rebalance.steps import STEPS, run_step


def run_interval(pipeline: Pipeline, interval: Interval, say: Callable[[str], object] = print) -> None:
    """Take one interval through all steps."""
    for step in STEPS:
        started = time.perf_counter()
        done = run_step(step.name, pipeline, interval)
        say(f"{interval.id} {step.name:13} {time.perf_counter() - started:5.1f} s  {done}")


def run_intervals(
    pipeline: Pipeline, *, first: Interval | None = None, count: int | None = None, say: Callable[[str], object] = print
) -> int:
    """Run `count` intervals, or as many as have data; returns how many."""
    if pipeline.planning.mode == "approve":
        raise ConfigError(
            "planning.mode = 'approve' waits for a person in Airflow. Run the pipeline there, or set mode to 'auto' or 'shadow'."
        )
    interval = first or next_interval(pipeline)
    last = interval.shifted(count - 1) if count is not None else last_interval(pipeline)
    done = 0
    while interval <= last:
        run_interval(pipeline, interval, say)
        interval, done = interval.shifted(1), done + 1
    return done


def next_interval(pipeline: Pipeline) -> Interval:
    """The interval to run next: the first that did not go through all steps."""
    from rebalance.storage.epochs import current_epoch

    epoch = current_epoch(pipeline.tables)
    if epoch is None or not epoch.interval_id:
        return pipeline.interval_at(pipeline.interval.first)
    newest = pipeline.interval_at(parse_start(epoch.interval_id))
    return newest if epoch.kind == "process" else newest.shifted(1)


def last_interval(pipeline: Pipeline) -> Interval:
    """The last interval that has events."""
    from rebalance.errors import SourceError
    from rebalance.spark.session import spark_session
    from rebalance.spark.source import newest_event

    newest = newest_event(spark_session(pipeline), pipeline)
    if newest is None:
        raise SourceError(
            f"there are no events at {pipeline.source.path} from {pipeline.interval.first:%Y-%m-%d %H:%M} on."
        )
    past = (newest - pipeline.interval.first) // pipeline.interval.length
    return pipeline.interval_at(pipeline.interval.first).shifted(past)
