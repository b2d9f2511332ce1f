"""What a check costs after many others: it must not grow with the intervals.

    python -m tests.bench.bench_quality [--intervals 500] [--keys 60]

Every interval is checked once, in one process. After every fifth check one is made in a pipeline that is new in this block, so that both
meet the same load of the machine: the ratio is that of their CPU seconds. All figures are medians of a block. The very first check,
which imports Great Expectations, is a line of its own.
"""

# ruff: noqa: T201 - a table for a person at a terminal

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path
from statistics import median

from rebalance.pipeline.file import Pipeline
from rebalance.quality.docs import docs_index
from rebalance.steps import Insist
from rebalance.steps.check_quality import check_quality
from tests.support.counted import counted_pipeline, first_interval, key_row, put_statistics

BLOCK = 50
EVERY = 5
#: Seconds on the clock, and of CPU.
Figures = tuple[float, float]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--intervals", type=int, default=500)
    parser.add_argument("--keys", type=int, default=60)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        pipeline = counted_pipeline(Path(folder, "old"))
        seconds, cpu = measured(pipeline, 0, given.keys)
        print(f"the first check: {seconds:.2f} s, {cpu:.2f} s of CPU\n")
        print(f"{'checks':>12}{'seconds':>10}{'CPU s':>8}{'new CPU s':>12}{'ratio':>8}{'pages':>8}{'MiB at most':>13}")
        for start in range(1, given.intervals + 1, BLOCK):
            new = counted_pipeline(Path(folder, f"new{start}"))
            old_block, new_block = [], []
            for number in range(BLOCK):
                old_block.append(measured(pipeline, start + number, given.keys))
                if number % EVERY == 0:
                    new_block.append(measured(new, number, given.keys))
            report(f"{start}..{start + BLOCK - 1}", old_block, new_block, pipeline)


def report(name: str, old: list[Figures], new: list[Figures], pipeline: Pipeline) -> None:
    """One line of the table."""
    seconds, cpu, fresh = median(s for s, _ in old), median(c for _, c in old), median(c for _, c in new)
    pages = len(list(docs_index(pipeline).parent.glob("validations/*/*/*/*.html")))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{name:>12}{seconds:>10.3f}{cpu:>8.3f}{fresh:>12.3f}{cpu / fresh:>8.2f}{pages:>8}{peak:>13.0f}", flush=True)


def measured(pipeline: Pipeline, number: int, keys: int) -> Figures:
    """Seconds and CPU seconds of checking one interval."""
    interval = first_interval(pipeline).shifted(number)
    put_statistics(pipeline, interval, [key_row(f"k{key:07}") for key in range(keys)])
    clock, cpu = time.perf_counter(), time.process_time()
    # Statistics without results: every interval but the first follows a gap.
    check_quality(pipeline, interval, Insist(skip=True))
    return time.perf_counter() - clock, time.process_time() - cpu


if __name__ == "__main__":
    main()
