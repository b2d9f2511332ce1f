"""Carry out an interval's plan: move the state of the keys that change channel, then switch functions."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime

from jobs.command import command, run_verb


def run(pipeline_file: str, interval_start: str | datetime) -> str:
    """Carry out one interval's plan."""
    from rebalance.steps.migrate_state import migrate_state

    return run_verb(migrate_state, pipeline_file, interval_start)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    return command(run, __doc__, argv)


if __name__ == "__main__":
    sys.exit(main())
