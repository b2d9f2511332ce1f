"""Intervals without Airflow: the same five steps in the same order, in one process and one Spark session."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import median

from rebalance.errors import RebalanceError
from rebalance.pipeline.file import Pipeline
from rebalance.pipeline.intervals import Interval, parse_start
from rebalance.steps import AS_USUAL, RESULTS, Insist, logs, steps_of
from rebalance.steps.alerts import run_and_tell

log = logging.getLogger("rebalance")


@dataclass(frozen=True)
class StepDone:
    """A step that has ended."""

    interval: str
    step: str
    seconds: float
    #: What it did; of a step that has failed, why.
    said: str
    failed: bool

    def __str__(self) -> str:
        warning = "WARNING, not planned: " if self.failed else ""
        return f"{self.interval} {self.step:13} {self.seconds:5.1f} s  {warning}{self.said}"


def run_interval(
    pipeline: Pipeline,
    interval: Interval,
    say: Callable[[str], object] = print,
    insist: Insist = AS_USUAL,
    note: Callable[[StepDone], object] | None = None,
) -> str:
    """Take one interval through all steps; returns why it was not planned, or nothing if it was.

    What each step did is said in a line, and, for programs, noted.

    Results never wait for a plan: whatever goes wrong in a step that plans is a warning, and only the other steps that plan are left out.
    """
    trouble = ""
    for step in steps_of(pipeline):
        if trouble and step.name != RESULTS:
            continue
        started, failed = time.perf_counter(), False
        try:
            said = run_and_tell(step.name, pipeline, interval, insist)
        except Exception as error:
            if step.name == RESULTS:
                raise
            said, failed = f"{type(error).__name__}: {error}", True
            trouble = f"{step.name}: {said}"
            if logs.as_json() or not isinstance(error, RebalanceError):
                log.warning("%s of %s failed", step.name, interval.id, exc_info=error)
        done = StepDone(interval.id, step.name, time.perf_counter() - started, said, failed)
        if not logs.as_json():
            # As JSON, each step logs a line of its own.
            say(str(done))
        if note is not None:
            note(done)
    return trouble


def run_intervals(
    pipeline: Pipeline,
    *,
    first: Interval | None = None,
    count: int | None = None,
    say: Callable[[str], object] = print,
    insist: Insist = AS_USUAL,
    note: Callable[[StepDone], object] | None = None,
    begins: Callable[[str, int, int, float | None], object] | None = None,
) -> int:
    """Run `count` intervals, or as many as are closed and have data, and say which were not planned; returns how many have results.

    `begins` is told of each interval: its name, which of how many it is, and how many seconds are left by the median of those done.
    """
    from rebalance.steps.turn import require_closed, require_order, time_left

    interval = first or next_interval(pipeline)
    require_order(pipeline, interval, insist)
    last = interval.shifted(count - 1) if count is not None else last_interval(pipeline)
    done, unplanned = 0, {}
    seconds: list[float] = []
    while interval <= last:
        if count is None and not insist.now and time_left(pipeline, interval):
            say(
                f"{interval.id} and later ones are not closed yet and are left for another time; --now takes them all the same"
            )
            break
        if begins is not None:
            rest = _rest(pipeline, interval, last, everything=insist.now or count is not None)
            begins(interval.id, done + 1, done + rest, median(seconds) * rest if seconds else None)
        started = time.perf_counter()
        # Once for all its steps: a clock that jumps in between must not leave some of them out.
        require_closed(pipeline, interval, insist)
        trouble = run_interval(pipeline, interval, say, replace(insist, now=True), note)
        seconds.append(time.perf_counter() - started)
        if trouble:
            unplanned[interval.id] = trouble
        # What was left out lies before the first of them.
        interval, done, insist = interval.shifted(1), done + 1, replace(insist, skip=False)
    if unplanned:
        say(f"not planned, with complete results: {len(unplanned)} of {done} interval{'s' * (done != 1)}")
        for interval_id, trouble in unplanned.items():
            say(f"  {interval_id} {trouble}")
    return done


def _rest(pipeline: Pipeline, interval: Interval, last: Interval, *, everything: bool) -> int:
    """How many intervals are to be run from this one on: to the last, or to the last that is closed."""
    from rebalance.steps.turn import time_left

    rest = (last.start - interval.start) // pipeline.interval.length + 1
    while rest > 1 and not everything and time_left(pipeline, interval.shifted(rest - 1)):
        rest -= 1
    return rest


def next_interval(pipeline: Pipeline) -> Interval:
    """The interval to run next: the one after the last that has results."""
    from rebalance.storage.epochs import newest_processed_ids

    done = newest_processed_ids(pipeline.tables, 1)
    if not done:
        return pipeline.interval_at(pipeline.interval.first)
    return pipeline.interval_at(parse_start(done[-1])).shifted(1)


def last_interval(pipeline: Pipeline) -> Interval:
    """The last interval that has events."""
    from rebalance.errors import SourceError
    from rebalance.spark.session import spark_session
    from rebalance.spark.source import newest_event
    from rebalance.steps.trouble import trouble_in_words

    with trouble_in_words(pipeline.tables):
        newest = newest_event(spark_session(pipeline), pipeline)
    if newest is None:
        raise SourceError(
            f"there are no events at {pipeline.source.place} from {pipeline.interval.first:%Y-%m-%d %H:%M} on."
        )
    past = (newest - pipeline.interval.first) // pipeline.interval.length
    return pipeline.interval_at(pipeline.interval.first).shifted(past)
