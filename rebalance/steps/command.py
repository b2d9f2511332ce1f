"""The command line of the files in jobs/, one per step.

spark-submit jobs/process_batch.py --pipeline dags/pipelines/demo.toml --interval 20260101T0000Z
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from rebalance.errors import RebalanceError
from rebalance.pipeline.file import load_pipeline
from rebalance.pipeline.intervals import parse_start
from rebalance.steps import STEPS, Insist, logs
from rebalance.steps.alerts import run_and_tell
from rebalance.steps.exits import DONE, code_of


def main(name: str, argv: Sequence[str] | None = None) -> int:
    """Run a step from the command line; trouble with a plain message is one line on standard error and an exit code that says who can help."""
    (about,) = (step.about for step in STEPS if step.name == name)
    parser = argparse.ArgumentParser(description=f"{name} {about}.")
    parser.add_argument("--pipeline", required=True, metavar="FILE", help="the pipeline's TOML file")
    parser.add_argument(
        "--interval",
        required=True,
        metavar="START",
        help="start of the interval, UTC: 20260101T0000Z or 2026-01-01T00:00",
    )
    parser.add_argument("--now", action="store_true", help="take the interval even if it is not closed yet")
    parser.add_argument(
        "--skip", action="store_true", help="leave out the intervals between the newest processed one and this one"
    )
    given = parser.parse_args(argv)
    try:
        logs.set_up(steps=True)
        pipeline = load_pipeline(given.pipeline)
        interval = pipeline.interval_at(parse_start(given.interval))
        run_and_tell(name, pipeline, interval, Insist(now=given.now, skip=given.skip))
    except RebalanceError as error:
        logs.refuse(error)
        return code_of(error)
    return DONE
