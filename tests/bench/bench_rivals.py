"""The default planner beside plainer ones, and its ratio to the certified bound: on hard generated requests, and on a series of one's own.

    python -m tests.bench.bench_rivals [--requests 3000]
    python -m tests.bench.bench_rivals --file events.parquet --time ts --unit h --keys page,editor [--channels 4,10,40,100] [--seeds 3]

A series is cut into intervals of a unit of time, and each interval planned twice: on its own counts before it is processed, and on its own counts
after it, when its state has been written. The planner's function is carried from interval to interval, over a window of three. A seed is
another hash of the keys. "Met" is a plan within θ_max or within the least θ that is certified; "beaten" one that another is nearer to
balance than, or as near for fewer bytes, with more than 2 % above the bound. Seconds are of the process.
"""

# ruff: noqa: T201 - tables for a person at a terminal

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow.parquet as pq

from rebalance.partition import consistent_ring, slots_of
from rebalance.planners.frugal.frugal import Frugal
from rebalance.planning.model import Floats, KeyStats, Request
from tests.support.hard_requests import COSTS, hard_request
from tests.support.rivals import ratio_to_bound, reached, rivals

#: Not the seeds that the planner was made with.
FIRST_SEED = 10_000
#: State of a tuple, in bytes, and how many intervals hold it.
_BYTES, _WINDOW = 100.0, 3
_HEAD = "| requests | number | met | beaten | bytes over bound, all | median | 95 % | largest | ms a plan | largest |"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=3000)
    parser.add_argument("--file")
    parser.add_argument("--time", default="ts")
    parser.add_argument("--unit", default="h", help="of the intervals: h, D …")
    parser.add_argument("--keys", default="key")
    parser.add_argument("--channels", default="4,10,40,100")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    Frugal().propose(hard_request(12, 6000))  # compile
    Frugal().propose(hard_request(3))
    print(_HEAD + "\n" + "|---" * 10 + "|")
    if options.file is None:
        for number, kind in enumerate(COSTS):
            seeds = range(FIRST_SEED + number, FIRST_SEED + options.requests, len(COSTS))
            print_row(kind, (hard_request(seed - seed % len(COSTS) + number) for seed in seeds))
        return
    for column in options.keys.split(","):
        names, counts = counted(options.file, options.time, column, options.unit)
        for channels in map(int, options.channels.split(",")):
            for ahead in (True, False):
                chains = (series(names, counts, channels, FIRST_SEED + i, ahead=ahead) for i in range(options.seeds))
                label = f"`{column}`, N = {channels}, {'before' if ahead else 'after'} the interval"
                print_row(label, (request for chain in chains for request in chain))


def counted(file: str, at: str, column: str, unit: str) -> tuple[list[str], Floats]:
    """The keys, and the tuples of each interval and key."""
    table = pq.read_table(file, columns=[at, column])  # type: ignore[no-untyped-call]
    keys, key = np.unique(
        np.array(table[column].cast("string").to_pylist(), dtype=object).astype(str), return_inverse=True
    )
    intervals, interval = np.unique(table[at].to_numpy().astype(f"datetime64[{unit}]"), return_inverse=True)
    counts = np.zeros((len(intervals), len(keys)))
    np.add.at(counts, (interval, key), 1.0)
    return keys.tolist(), counts


def series(names: list[str], counts: Floats, channels: int, seed: int, *, ahead: bool) -> Iterator[Request]:
    """What Frugal is asked interval by interval, its own plans carried out."""
    slots, ring = slots_of((f"{seed}/{name}" for name in names), "string"), consistent_ring(channels)
    current = ring[slots].astype(np.int32)
    for i, cost in enumerate(counts):
        state = counts[max(i - _WINDOW + 1, 0) : i if ahead else i + 1].sum(axis=0)
        here = np.flatnonzero((cost > 0) | (state > 0))
        request = Request(
            stats=KeyStats(here, slots[here], cost[here], cost[here], _BYTES * state[here]),
            current=current[here],
            ring=ring,
            capacity=np.ones(channels),
        )
        yield request
        current = ring[slots].astype(np.int32)
        current[here] = Frugal().propose(request).channel


def print_row(label: str, requests: Iterable[Request]) -> None:
    """One line of the table."""
    ratios: list[float] = []
    seconds: list[float] = []
    met = beaten = 0
    moved = bounds = 0.0
    for request in requests:
        started = time.process_time()
        plan = reached(request, Frugal().propose(request).channel)
        seconds.append(time.process_time() - started)
        ratio = ratio_to_bound(request, plan)
        far = ratio is None or ratio > 1.02
        beaten += far and any(plan.beaten_by(other) for _, other in rivals(request))
        if ratio is not None:
            met += 1
            ratios += [ratio] if ratio < np.inf else []
            moved, bounds = moved + plan.bytes, bounds + (plan.bytes / ratio if ratio > 0 else 0.0)
    print(
        f"| {label} | {len(seconds):,} | {met:,} | {beaten} | {moved / bounds if bounds > 0 else 1.0:.3f} | {np.median(ratios):.3f} | {np.quantile(ratios, 0.95):.3f} "
        f"| {max(ratios):.2f} | {np.mean(seconds) * 1e3:.0f} | {max(seconds) * 1e3:.0f} |",
        flush=True,
    )


if __name__ == "__main__":
    main()
