"""The five steps of an interval: four that plan for it, and the one that makes its results.

Airflow reads this with every DAG file: a step's own module, which imports Spark or Great Expectations, is imported when the step runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from rebalance.steps import logs

if TYPE_CHECKING:
    from rebalance.pipeline.file import Pipeline
    from rebalance.pipeline.intervals import Interval


@dataclass(frozen=True)
class Insist:
    """What a person insists on; `rebalance.steps.turn` refuses it otherwise."""

    #: The interval is taken though it is not closed.
    now: bool = False
    #: The intervals between the newest processed one and this one are left out.
    skip: bool = False
    #: What was asked of this one plan, in words; it stands in the plan's notes.
    asked: str = ""


#: Nobody insists on anything.
AS_USUAL = Insist()


@dataclass(frozen=True)
class Step:
    """One step; its module, function, job file, Airflow task and log line all have its name."""

    name: str
    #: What it does, as the end of a sentence that starts with the name.
    about: str


#: The step that makes the results. The others only make them cheaper: none of them may keep it from running.
RESULTS = "process_batch"

STEPS = (
    Step(
        "collect_stats",
        "counts the interval's events by key, straight from the source: tuples, cost, state held, channel; "
        "writes `interval_stats`, `key_stats` and `channel_stats`",
    ),
    Step(
        "check_quality",
        "checks these statistics with Great Expectations; writes `quality_runs`. Nothing is planned on bad statistics",
    ),
    Step(
        "make_plan",
        "looks for a better function if a channel is further from its fair load than θ_max; "
        "writes `plans`, `plan_moves`, `functions`. Moves nothing",
    ),
    Step(
        "migrate_state",
        "moves the state that must move in one commit, verifies it, and switches to the new function by an epoch; "
        "writes `state` and `epochs`",
    ),
    Step(
        RESULTS,
        "routes the events by the active function, reads the window's state where it lies, runs the operator; "
        "writes `results`, `state` and `epochs`",
    ),
)


def steps_of(pipeline: Pipeline) -> tuple[Step, ...]:
    """The steps in the order in which the pipeline runs them."""
    if pipeline.planning.when == "before":
        return STEPS
    return (STEPS[-1], *STEPS[:-1])


def run_step(name: str, pipeline: Pipeline, interval: Interval, insist: Insist = AS_USUAL) -> str:
    """Run one step for one interval; returns, and logs, what was done in a sentence."""
    # Imported here: Airflow reads this module with every DAG file, and storage needs Arrow.
    from rebalance.steps.trouble import trouble_in_words

    began = time.perf_counter()
    with logs.at(pipeline=pipeline.name, interval=interval.id, step=name):
        with trouble_in_words(pipeline.tables):
            done = function_of(name)(pipeline, interval, insist)
        seconds = time.perf_counter() - began
        logs.done(f"{pipeline.name} {interval.id} {name}: {done} ({seconds:.1f} s)", done, seconds)
    return done


def function_of(name: str) -> Callable[[Pipeline, Interval, Insist], str]:
    """The function of a step."""
    function: Callable[[Pipeline, Interval, Insist], str] = getattr(import_module(f"rebalance.steps.{name}"), name)
    return function
