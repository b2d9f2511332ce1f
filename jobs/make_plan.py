"""Plan the next partitioning function from an interval's statistics. Starts no Spark, moves nothing."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime

from jobs.command import command, run_verb


def run(pipeline_file: str, interval_start: str | datetime) -> str:
    """Plan on one interval's statistics."""
    from rebalance.steps.make_plan import make_plan

    return run_verb(make_plan, pipeline_file, interval_start)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    return command(run, __doc__, argv)


if __name__ == "__main__":
    sys.exit(main())
