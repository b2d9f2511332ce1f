"""How long every planner takes, in argsorts of the same keys, and how much memory, in arrays of their number.

    python -m tests.bench.bench_planners [--keys 1000000] [--channels 15] [--planners mixed,minmig]

One run, one machine, one request: the third interval of the papers' workload after two plans by Mixed. Times are the processor's, the best of a few,
and ratios to numpy's argsort of as many random floats (and of the costs themselves, which have ties and sort faster), so they
mean the same on another machine. Memory is the growth of the process's peak while it plans.
"""

# ruff: noqa: T201 - a table for a person at a terminal

from __future__ import annotations

import argparse
import ctypes
import time
from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from pathlib import Path

import numpy as np

from rebalance.planners.fang.compact import compact_records
from rebalance.planners.registry import PLANNERS, make_planner
from rebalance.planning.interface import Planner
from rebalance.planning.model import Limits, Request
from rebalance.simulate.intervals import steps
from rebalance.simulate.workload import Workload

#: Best of this many, unless one alone takes longer than `_PATIENCE` seconds.
_REPEATS = 5
_PATIENCE = 5.0


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--channels", type=int, default=15)
    parser.add_argument("--planners", default="", help="names, separated by commas; all unless given")
    options = parser.parse_args()
    names = [name for name in options.planners.split(",") if name] or list(PLANNERS)
    request = third_interval(options.keys, options.channels)
    print_planners(request, names)
    print_records(names, options.channels)


def third_interval(keys: int, channels: int) -> Request:
    """What Mixed is asked in the third interval."""
    *_, (_, request, _) = steps(
        make_planner("mixed"), Workload(keys=keys, channels=channels), 3, limits=Limits(), window=5
    )
    return request


def print_planners(request: Request, names: Iterable[str]) -> None:
    """Time and memory of each planner at two θ_max."""
    keys = len(request.stats)
    floats = np.random.default_rng(0).random(keys)
    argsort, argsort_cost = best(lambda: np.argsort(floats)), best(lambda: np.argsort(request.stats.cost))
    print(f"{keys:,} keys, {request.channels} channels, {np.count_nonzero(request.current != request.home):,} routes")
    print(f"argsort of {keys:,} random floats: {argsort * 1e3:.1f} ms; of the costs: {argsort_cost * 1e3:.1f} ms\n")
    print(
        f"{'planner':<12}{'θ_max':>7}{'ms':>10}{'argsorts':>10}{'of costs':>10}{'arrays':>8}{'max/fair':>10}{'moved %':>9}{'routes':>9}"
    )
    for name in names:
        planner = make_planner(name)
        planner.propose(small(request))  # compile
        for theta_max in (0.08, 0.02):
            asked = replace(request, limits=replace(request.limits, theta_max=theta_max))
            seconds = best(lambda planner=planner, asked=asked: planner.propose(asked))  # type: ignore[misc]
            memory = peak_growth(lambda planner=planner, asked=asked: planner.propose(asked)) / (8 * keys)  # type: ignore[misc]
            print(
                f"{name:<12}{theta_max:>7}{seconds * 1e3:>10.1f}{seconds / argsort:>10.2f}{seconds / argsort_cost:>10.2f}{memory:>8.1f}{quality(planner, asked)}"
            )


def print_records(names: Iterable[str], channels: int) -> None:
    """Time of planning on compact records against the number of keys."""
    family = [name for name in names if "r" in {f.name for f in fields(PLANNERS[name])} and name != "mixedbf"]
    if not family:
        return
    print("\nplanning on compact records, R = 2^4: ms, without the grouping into records\n")
    print(f"{'keys':>10}{'records':>9}{'grouping':>10}" + "".join(f"{name:>10}" for name in family))
    for keys in (10_000, 100_000, 1_000_000):
        request = third_interval(keys, channels)
        records = compact_records(request, r=4).records
        grouping = best(lambda request=request: compact_records(request, r=4))  # type: ignore[misc]
        times = [best(lambda name=name, records=records: make_planner(name).plan(records)) for name in family]  # type: ignore[attr-defined, misc]
        print(
            f"{keys:>10,}{len(records.cost):>9,}{grouping * 1e3:>10.1f}" + "".join(f"{t * 1e3:>10.2f}" for t in times)
        )


def best(work: Callable[[], object]) -> float:
    """Processor seconds of the fastest of a few runs; by the clock, other work on the machine would count."""
    times: list[float] = []
    while len(times) < _REPEATS and sum(times) < _PATIENCE:
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return min(times)


def peak_growth(work: Callable[[], object]) -> int:
    """Bytes by which the process's peak exceeds what it held before; Linux only, else 0."""
    status, reset = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    if not reset.exists():
        return 0
    ctypes.CDLL(None).malloc_trim(0)  # what is free but kept would hide what is taken
    reset.write_text("5")  # forget the peak so far
    before = _resident(status, "VmRSS")
    kept = work()
    peak = _resident(status, "VmHWM")
    del kept
    return max(peak - before, 0)


def _resident(status: Path, field: str) -> int:
    line = next(line for line in status.read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) * 1024


def small(request: Request) -> Request:
    """The first keys of the request."""
    few = slice(0, 1000)
    stats = request.stats
    columns = {f.name: getattr(stats, f.name)[few] for f in fields(stats)}
    return replace(request, stats=replace(stats, **columns), current=request.current[few])


def quality(planner: Planner, request: Request) -> str:
    """What the time was spent for."""
    proposal = planner.propose(request)
    home = request.home if proposal.ring is None else proposal.ring[request.stats.slots]
    load = np.bincount(proposal.channel, weights=request.stats.cost, minlength=request.channels)
    moved = request.stats.state[proposal.channel != request.current].sum() / request.stats.state.sum()
    return f"{(load / request.fair).max():>10.3f}{moved * 100:>9.2f}{np.count_nonzero(proposal.channel != home):>9,}"


if __name__ == "__main__":
    main()
