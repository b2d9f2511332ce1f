"""How much faster scan, redist and readj are than the plain transcription, and how their time grows; the ring against memory.

    python -m tests.bench.bench_gedik [--keys 500] [--quick | --whole] [--plot docs/growth.png]

One run, one machine, processor time: ratios mean the same elsewhere. Frequencies are Zipf with z = 1 over 10^5 keys, a channel has just been added.
scan and redist are compared in full. readj takes hundreds of steps there, of which the plain transcription needs ten seconds each: its first steps are
compared one by one, and a whole run on a fifth of the keys; with --whole, which takes over an hour, on all of them.
"""

# ruff: noqa: T201 - a table for a person at a terminal

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np

from rebalance.partition import SLOTS, channels_at, consistent_ring
from rebalance.partition.ring import channel_points
from rebalance.planners.baselines.consistent import hashed
from rebalance.planners.gedik.readj import Readj
from rebalance.planners.gedik.readj_search import Search
from rebalance.planners.registry import make_planner
from rebalance.planning.model import KeyStats, Limits, Request
from tests.reference import gedik

PLAIN: dict[str, Callable[[gedik.Case], list[int]]] = {
    "scan": gedik.scan,
    "redist": gedik.redist,
    "readj": gedik.readj,
}
#: So small that max_routes alone decides how many keys are tracked.
ALL = {"sigma": 1e-6}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=500, help="tracked keys R")
    parser.add_argument("--quick", action="store_true", help="leave the plain transcription out")
    parser.add_argument("--whole", action="store_true", help="a whole run of the plain readj on all tracked keys")
    parser.add_argument("--plot", default="", help="where to draw time against R and N, a PNG")
    options = parser.parse_args()
    for name in PLAIN:
        make_planner(name, ALL).propose(added_channel(10, 4))  # compile
    if not options.quick:
        print_against_plain(options.keys, options.keys if options.whole else options.keys // 5)
    print_growth(options.keys, options.plot)
    print_ring()


def added_channel(tracked: int, channels: int, keys: int = 100_000) -> Request:
    """Zipf keys on one channel less, of which the most frequent are to be tracked."""
    rng = np.random.default_rng(1)
    tuples = rng.permutation(np.rint(1e7 / np.arange(1.0, keys + 1)))
    slots = rng.integers(0, SLOTS, keys).astype(np.int32)
    return Request(
        stats=KeyStats(np.arange(keys), slots, tuples, tuples, tuples),
        current=consistent_ring(channels - 1)[slots],
        ring=consistent_ring(channels),
        capacity=np.ones(channels),
        limits=Limits(max_routes=tracked),
    )


def plain_case(request: Request) -> gedik.Case:
    """The same request for the plain transcription."""
    return gedik.Case(
        tuples=request.stats.tuples.tolist(),
        current=request.current.tolist(),
        home=request.home.tolist(),
        capacity=request.capacity.tolist(),
        cost=request.stats.cost.tolist(),
        state=request.stats.state.tolist(),
        sigma=ALL["sigma"],
        max_routes=request.limits.max_routes,
    )


def print_against_plain(tracked: int, few: int) -> None:
    """Processor seconds of both, their ratio, and whether they agree; a whole run of readj on few keys."""
    print(f"{'':<10}{'N':>4}{'R':>6}{'plain s':>10}{'ours s':>10}{'ratio':>9}  same result")
    for channels in (10, 32):
        # Untracked keys only cost the plain transcription time to list: few are enough.
        request = added_channel(tracked, channels, keys=2 * tracked)
        case = plain_case(request)
        for name in ("scan", "redist"):
            print_row(
                name, channels, tracked, lambda n=name, c=case: PLAIN[n](c), lambda n=name, r=request: planned(n, r)
            )  # type: ignore[misc]
        steps = 3
        plain, ours = plain_search(case), our_search(request)
        print_row(
            f"readj, {steps} steps",
            channels,
            tracked,
            lambda s=plain, n=steps: list(islice(s, n)),  # type: ignore[misc]
            lambda s=ours, n=steps: list(islice(s, n)),  # type: ignore[misc]
            repeat=1,
        )
        request = added_channel(few, channels, keys=2 * few)
        case = plain_case(request)
        print_row("readj", channels, few, lambda c=case: PLAIN["readj"](c), lambda r=request: planned("readj", r))  # type: ignore[misc]


def print_row(
    name: str, channels: int, tracked: int, plain: Callable[[], Any], ours: Callable[[], Any], repeat: int = 3
) -> None:
    """One comparison."""
    started = time.process_time()
    expected = plain()
    plain_seconds = time.process_time() - started
    seconds, got = np.inf, None
    for _ in range(repeat):
        started = time.process_time()
        got = ours()
        seconds = min(seconds, time.process_time() - started)
    ratio = plain_seconds / seconds
    print(f"{name:<16}{channels:>4}{tracked:>6}{plain_seconds:>9.2f}{seconds:>10.4f}{ratio:>9.0f}  {expected == got}")


def planned(name: str, request: Request) -> list[int]:
    """The planner's answer."""
    return make_planner(name, ALL).propose(request).channel.tolist()


def plain_search(case: gedik.Case) -> Any:
    """The steps of the plain readj."""
    table = gedik.with_all(case)
    while step := gedik.best_step(table):
        d1, d2, i, j = step
        gedik.exchange(table, d1, d2, i, j)
        yield d1, -1 if d2 is None else d2, i, j


def our_search(request: Request) -> Any:
    """The steps of readj, by key."""
    planner, by_hash = Readj(**ALL), hashed(request, request.ring)
    tracked, _ = planner.tracked(request, by_hash)
    search = Search(planner.problem(request, by_hash.channel, tracked), planner.c)
    while step := search.best_step():
        search.take(step)
        yield int(tracked[step.d1]), int(tracked[step.d2]) if step.d2 >= 0 else -1, step.i, step.j


def print_growth(tracked: int, plot: str) -> None:
    """Milliseconds against R and against N, with the exponent between the last two of a doubling row."""
    many = [tracked // 4, tracked // 2, tracked, 2 * tracked]
    wide = [4, 8, 16, 32, 64]
    against_r = {name: [milliseconds(name, r, 10) for r in many] for name in PLAIN}
    against_n = {name: [milliseconds(name, tracked, n) for n in wide] for name in PLAIN}
    print_curves(f"ms against R at N = 10\n{'R':<10}", many, against_r)
    print_curves(f"ms against N at R = {tracked}\n{'N':<10}", wide, against_n)
    if plot:
        draw(plot, tracked, (many, against_r), (wide, against_n))


def print_curves(title: str, sizes: list[int], curves: dict[str, list[float]]) -> None:
    """One table."""
    print(f"\n{title}" + "".join(f"{size:>9}" for size in sizes) + "   exponent over all, last doubling")
    for name, times in curves.items():
        print_curve(name, sizes, times)


def draw(path: str, tracked: int, *curves: tuple[list[int], dict[str, list[float]]]) -> None:
    """Both on logarithmic paper."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.2), layout="constrained")
    labels = ("tracked keys R, N = 10", f"channels N, R = {tracked}")
    for place, (sizes, times) in enumerate(curves):
        axes = figure.add_subplot(1, 2, place + 1)
        for name, values in times.items():
            axes.loglog(sizes, values, marker="o", label=name)
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.minorticks_off()
        axes.set_xlabel(labels[place])
        axes.set_ylabel("ms")
        axes.legend(frameon=False)
    figure.savefig(path, dpi=80)


def print_curve(name: str, sizes: list[int], times: list[float]) -> None:
    """A row of times and its slope on logarithmic paper."""
    slope = np.polyfit(np.log(sizes), np.log(times), 1)[0]
    print(
        f"{name:<10}" + "".join(f"{t:>9.1f}" for t in times) + f"{slope:>11.2f}, {np.log2(times[-1] / times[-2]):.2f}"
    )


def milliseconds(name: str, tracked: int, channels: int) -> float:
    """The best of two, without the ring."""
    request = added_channel(tracked, channels)
    return best(lambda: make_planner(name, ALL).propose(request), 2) * 1e3


def best(run: Callable[[], Any], repeat: int) -> float:
    """Processor seconds of the fastest run."""
    seconds = []
    for _ in range(repeat):
        started = time.process_time()
        run()
        seconds.append(time.process_time() - started)
    return min(seconds)


def print_ring() -> None:
    """Building a ring, and a lookup of 10^7 keys against copying as many numbers."""
    channel_points.cache_clear()
    cold, warm = best(lambda: consistent_ring(100), 1), best(lambda: consistent_ring(100), 5)
    print(
        f"\nring of 100 channels with 1,000 replicas: {cold * 1e3:.0f} ms, {warm * 1e3:.0f} ms when the points are known"
    )
    ring = consistent_ring(100)
    slots = np.random.default_rng(0).integers(0, SLOTS, 10**7).astype(np.int32)
    channels_at(ring, slots)  # compile
    copy, ours, plain = best(slots.copy, 7), best(lambda: channels_at(ring, slots), 7), best(lambda: ring[slots], 7)
    print(
        f"lookup of 10^7 keys: {ours * 1e3:.1f} ms, {ours / copy:.1f} copies of the slots ({copy * 1e3:.1f} ms); by numpy's index {plain / copy:.1f}"
    )


if __name__ == "__main__":
    main()
