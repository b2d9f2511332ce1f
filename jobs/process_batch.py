"""Process an interval's events under the active partitioning function: results and new state."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime

from jobs.command import command, run_verb


def run(pipeline_file: str, interval_start: str | datetime) -> str:
    """Process one interval."""
    from rebalance.steps.process_batch import process_batch

    return run_verb(process_batch, pipeline_file, interval_start)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    return command(run, __doc__, argv)


if __name__ == "__main__":
    sys.exit(main())
