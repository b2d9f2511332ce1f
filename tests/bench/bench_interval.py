"""What an interval of next to no events costs, verb by verb, with the product's Spark settings and without some of them.

    python -m tests.bench.bench_interval [--intervals 7] [--repeat 2]

Each variant has a process and a JVM of its own, one after the other, `repeat` times over. CPU seconds of Spark's JVM and seconds on the
clock, a mean of the intervals after the first three, in which Java warms up; the ratio is to the product's settings.
"""

# ruff: noqa: T201 - a table for a person at a terminal

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from rebalance.steps import STEPS, run_step
from tests.support.world import WINDOWED_SUM, first_interval, make_world

NAMES = [step.name for step in STEPS]
WARM = 3
SHIPPED = "as shipped"
VARIANTS = {
    SHIPPED: {},
    "100 classes kept compiled": {"spark.sql.codegen.cache.maxEntries": "100"},
    "2 tasks a log": {"spark.databricks.delta.snapshotPartitions": "2"},
    "both": {"spark.sql.codegen.cache.maxEntries": "100", "spark.databricks.delta.snapshotPartitions": "2"},
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--intervals", type=int, default=7)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--variant", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.variant:
        print(json.dumps(measure(VARIANTS[options.variant], options.intervals)))
        return
    found: dict[str, list[dict[str, list[float]]]] = defaultdict(list)
    for _ in range(options.repeat):
        for name in VARIANTS:
            found[name].append(in_own_process(name, options.intervals))
            print(f"# {name}: {total(found[name], 0):.1f} CPU s an interval", file=sys.stderr)
    print("| settings | " + " | ".join(NAMES) + " | CPU s an interval | seconds an interval | CPU, ratio |")
    print("|---" * (len(NAMES) + 4) + "|")
    for name, runs in found.items():
        verbs = " | ".join(f"{mean(runs, verb, 0):.1f}" for verb in NAMES)
        cpu, clock = total(runs, 0), total(runs, 1)
        print(f"| {name} | {verbs} | {cpu:.1f} | {clock:.1f} | {cpu / total(found[SHIPPED], 0):.2f} |")


def mean(runs: list[dict[str, list[float]]], verb: str, which: int) -> float:
    """Of the CPU seconds (0) or seconds (1) of a verb."""
    return sum(run[verb][which] for run in runs) / len(runs)


def total(runs: list[dict[str, list[float]]], which: int) -> float:
    """The same of a whole interval."""
    return sum(mean(runs, verb, which) for verb in NAMES)


def in_own_process(name: str, intervals: int) -> dict[str, list[float]]:
    """CPU seconds and seconds by verb."""
    command = [sys.executable, "-m", "tests.bench.bench_interval", "--variant", name, "--intervals", str(intervals)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    told: dict[str, list[float]] = json.loads(done.stdout.splitlines()[-1])
    return told


def measure(settings: dict[str, str], intervals: int) -> dict[str, list[float]]:
    """Take a small world through the intervals."""
    from rebalance.spark.session import spark_session

    more = "[spark.settings]\n" + "".join(f'"{name}" = "{value}"\n' for name, value in settings.items())
    spent = {verb: [0.0, 0.0] for verb in NAMES}
    with tempfile.TemporaryDirectory() as folder:
        pipeline = make_world(
            Path(folder), planner="frugal", intervals=intervals, operator=WINDOWED_SUM, events=1000, keys=60, more=more
        )
        jvm = spark_session(pipeline).sparkContext._jvm
        pid = jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]
        for number in range(intervals):
            for verb in NAMES:
                cpu, clock = cpu_seconds(pid), time.perf_counter()
                run_step(verb, pipeline, first_interval(pipeline).shifted(number))
                if number >= WARM:
                    spent[verb][0] += (cpu_seconds(pid) - cpu) / (intervals - WARM)
                    spent[verb][1] += (time.perf_counter() - clock) / (intervals - WARM)
    return spent


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
