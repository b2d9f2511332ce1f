"""One interval in a process of its own, to be killed: says `ready` once Spark is there, and `done` at the end."""

from __future__ import annotations

import sys
from pathlib import Path

from rebalance.pipeline.file import load_pipeline
from rebalance.pipeline.intervals import parse_start
from rebalance.spark.session import spark_session
from rebalance.steps.run import run_interval


def main(file: Path, start: str) -> None:
    """Run it."""
    pipeline = load_pipeline(file)
    spark_session(pipeline).range(1).count()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    run_interval(pipeline, pipeline.interval_at(parse_start(start)), say=lambda text: None)
    sys.stdout.write("done\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
