"""What the five jobs share: their two arguments, their log line, their exit code.

spark-submit jobs/process_batch.py --pipeline dags/pipelines/demo.toml --interval 20260101T0000Z
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Callable, Sequence
from datetime import datetime

from rebalance.errors import RebalanceError
from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.pipeline.intervals import Interval, parse_start

Verb = Callable[[Pipeline, Interval], str]
#: Exit code for trouble that has a plain message; a bug leaves its traceback and code 1.
REFUSED = 2

log = logging.getLogger("rebalance")


def run_verb(verb: Verb, pipeline_file: str, interval_start: str | datetime) -> str:
    """Do one verb for one interval; returns, and logs, what was done in a sentence."""
    pipeline = load_pipeline(pipeline_file)
    start = parse_start(interval_start) if isinstance(interval_start, str) else interval_start
    interval = pipeline.interval_at(start)
    began = time.perf_counter()
    done = verb(pipeline, interval)
    log.info("%s %s %s: %s (%.1f s)", pipeline.name, interval.id, verb.__name__, done, time.perf_counter() - began)
    return done


def command(run: Callable[[str, str], str], about: str | None, argv: Sequence[str] | None) -> int:
    """Run a job from the command line; trouble with a plain message is one line on standard error and exit code 2."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pipeline", required=True, metavar="FILE", help="the pipeline's TOML file")
    parser.add_argument(
        "--interval",
        required=True,
        metavar="START",
        help="start of the interval, UTC: 20260101T0000Z or 2026-01-01T00:00",
    )
    given = parser.parse_args(argv)
    logging.basicConfig(format="%(message)s", stream=sys.stderr)
    log.setLevel(logging.INFO)
    try:
        run(given.pipeline, given.interval)
    except RebalanceError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return REFUSED
    return 0
