"""Check an interval's statistics; nothing is planned on bad ones."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime

from jobs.command import command, run_verb


def run(pipeline_file: str, interval_start: str | datetime) -> str:
    """Check one interval's statistics."""
    from rebalance.steps.check_quality import check_quality

    return run_verb(check_quality, pipeline_file, interval_start)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    return command(run, __doc__, argv)


if __name__ == "__main__":
    sys.exit(main())
