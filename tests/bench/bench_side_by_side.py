"""Every planner on one workload, side by side: `python -m tests.bench.bench_side_by_side`.

The workload is the paper's generator; a planner's plans are carried from interval to interval. Migration is put over the certified
bound of the same interval, seconds over those of `mixed` in the same run.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

from rebalance.model import Limits
from rebalance.planners import PLANNERS, make_planner
from rebalance.simulate.intervals import simulate
from rebalance.workload import Workload


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=20_000)
    parser.add_argument("--channels", type=int, default=15)
    parser.add_argument("--intervals", type=int, default=10)
    parser.add_argument("--planners", default=",".join(name for name in PLANNERS if name != "mixedbf"))
    given = parser.parse_args()
    workload = Workload(keys=given.keys, channels=given.channels)
    seconds: dict[str, float] = {}
    sys.stdout.write(
        "| planner | max/mean reached, mean | within θ_max | state moved per interval | routes at the end | time, of mixed |\n|---|---|---|---|---|---|\n"
    )
    for name in sorted(given.planners.split(","), key=lambda name: name != "mixed"):
        planner = make_planner(name)
        simulate(planner, workload, 2, limits=Limits(), window=5)  # compiles what is compiled
        records = simulate(planner, workload, given.intervals, limits=Limits(), window=5)
        seconds[name] = sum(record.seconds for record in records)
        within = sum(record.theta_after <= 0.08 + 1e-9 for record in records)
        moved = np.mean([record.moved_bytes / record.state_bytes for record in records])
        reached = np.mean([record.skewness_after for record in records])
        sys.stdout.write(
            f"| `{name}` | {reached:.3f} | {within} of {len(records)} | {moved:.2%} | {records[-1].routes:,} | {seconds[name] / max(seconds['mixed'], 1e-9):.2f} |\n"
        )
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
