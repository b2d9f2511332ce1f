"""Collect an interval's statistics per key and per channel, from what process_batch left."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime

from jobs.command import command, run_verb


def run(pipeline_file: str, interval_start: str | datetime) -> str:
    """Collect one interval's statistics."""
    from rebalance.steps.collect_stats import collect_stats

    return run_verb(collect_stats, pipeline_file, interval_start)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    return command(run, __doc__, argv)


if __name__ == "__main__":
    sys.exit(main())
