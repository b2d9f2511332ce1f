"""Table 1 and figure 3 of the token paper with letters of the same starting skews, and what happens when channels join.

    python -m tests.bench.bench_tokens [--sequences 200] [--parts table figure joining] [--store]

The stored letters were chosen because they end like those of table 1; of the many others only the start was looked at. `run` is the paper's
setting in ticks (`tests.reference.tokens.run_of_actors`): the ring changes while letters wait in queues. `plan` is what a pipeline sees:
one interval's letters are planned on, and the next interval has the same ones. Skews have no unit.
"""

# ruff: noqa: T201 - a table for a person at a terminal

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import replace

import numpy as np

from rebalance.partition import PartitionFunction
from rebalance.planners.registry import make_planner
from rebalance.planners.tokens.base import TOKENS
from rebalance.planning.decide import decide
from rebalance.planning.interface import first_function, ring_to_build_on
from rebalance.planning.measure import skew
from rebalance.planning.model import KeyStats, Limits, Request
from rebalance.simulate.intervals import steps
from rebalance.simulate.workload import Workload
from tests.support.token_workloads import (
    FIXTURE,
    REDUCERS,
    REPORTED,
    SKEWS,
    START,
    after_run,
    search,
    search_alike,
    slot_of,
    stored,
)

#: Rounds of figure 3.
ROUNDS = range(6)
#: Channels before and after some joined.
JOINING = ((10, 11), (10, 15), (10, 20))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sequences", type=int, default=200, help="other sequences per workload")
    parser.add_argument("--parts", nargs="+", default=["table", "figure", "joining"])
    parser.add_argument(
        "--store", action="store_true", help="search sequences like the paper's again and write the fixture"
    )
    options = parser.parse_args()
    if options.store:
        FIXTURE.write_text("".join(f"{name} {search_alike(name)}\n" for name in SKEWS), encoding="utf-8")
    others = {name: [search(name, seed) for seed in range(options.sequences)] for name in SKEWS}
    if "table" in options.parts:
        print_table(others)
    if "figure" in options.parts:
        print_figure(others)
    if "joining" in options.parts:
        print_joining()


def print_table(others: dict[str, list[str]]) -> None:
    """Table 1: one round."""
    print("| | method | before | paper | run | run, others: median (5..95 %) | plan | plan, others: median (5..95 %) |")
    print("|---|---|---|---|---|---|---|---|")
    for name, letters in stored().items():
        for i, method in enumerate(START):
            runs = [after_run(each, method) for each in others[name]]
            plans = [after_plan(each, method) for each in others[name]]
            print(
                f"| {name} | {method} | {SKEWS[name][i]:.2f} | {REPORTED[name][i]:.2f} "
                f"| {after_run(letters, method):.2f} | {spread(runs)} | {after_plan(letters, method):.2f} | {spread(plans)} |"
            )


def print_figure(others: dict[str, list[str]]) -> None:
    """Figure 3: skew of a run over the rounds allowed; the stored letters / the median of the others."""
    print("| | method |" + "".join(f" {rounds} |" for rounds in ROUNDS) + " lower than after 1 | higher |")
    print("|---|---|" + "---|" * (len(ROUNDS) + 2))
    for name, letters in stored().items():
        for method in START:
            runs = {rounds: [after_run(each, method, rounds) for each in others[name]] for rounds in ROUNDS}
            cells = "".join(f" {after_run(letters, method, r):.2f} / {np.median(runs[r]):.2f} |" for r in ROUNDS)
            off = np.round(np.array(runs[ROUNDS[-1]]) - np.array(runs[1]), 3)
            print(f"| {name} | {method} |{cells} {np.mean(off < 0):.0%} | {np.mean(off > 0):.0%} |")


def print_joining(seeds: int = 5) -> None:
    """State that moves when channels join after ten intervals: by claims alone, with a round of the trigger after them, and if the ring began anew."""
    print(
        "| method | channels | tokens claimed | a fair share | claims | and a round | beginning anew | newcomers' load, of fair |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for method in START:
        for before, after in JOINING:
            rows = [joined(method, seed, before, after) for seed in range(seeds)]
            tokens = sorted({tokens for tokens, _ in rows})
            claims, both, anew, load = np.mean([figures for _, figures in rows], axis=0)
            print(
                f"| {method} | {before} → {after} | {', '.join(map(str, tokens))} | {1 - before / after:.1%} "
                f"| {claims:.1%} | {both:.1%} | {anew:.1%} | {load:.2f} |"
            )


def joined(method: str, seed: int, before: int, after: int) -> tuple[int, tuple[float, float, float, float]]:
    """Tokens claimed; shares of the state that move; load of the newcomers over their fair one."""
    planner = make_planner(method)
    workload = Workload(keys=20_000, channels=before, z=0.85, f=1.0, seed=seed)
    *_, (_, request, plan) = steps(planner, workload, 10, window=5)
    function, stats = plan.function, request.stats
    request = replace(
        request,
        current=function.slots[stats.slots],
        ring=ring_to_build_on(planner, function, workload.ring, after, ()),
        capacity=np.ones(after),
    )
    plans = [decide(make_planner(method, {"tau": tau}), request, function, guard=False) for tau in (1e9, 0.2)]
    anew = planner.first_ring(after, ())[stats.slots] != request.current  # type: ignore[attr-defined]
    moved = (*(plan.moved_share for plan in plans), float(stats.state[anew].sum() / stats.state.sum()))
    tokens = plans[0].function.memo.get(TOKENS, [START[method]])[-1]
    return tokens, (*moved, float((plans[0].after.loads / plans[0].after.fair)[before:].mean()))


def after_plan(letters: str, method: str, rounds: int = 1, *, guard: bool = False) -> float:
    """S of the next interval, if it has the same letters, under the planned function."""
    planner = make_planner(method, {"rounds": rounds})
    counts = Counter(letters)
    keys = np.array(sorted(counts))
    tuples = np.array([counts[key] for key in keys.tolist()], dtype=float)
    slots = np.array([slot_of(key) for key in keys.tolist()], dtype=np.int32)
    plain = PartitionFunction(version=1, channels=REDUCERS, slots=planner.first_ring(REDUCERS, ()))  # type: ignore[attr-defined]
    active = first_function(planner, plain, ())
    request = Request(
        stats=KeyStats(keys, slots, tuples, tuples, tuples),
        current=active.slots[slots],
        ring=ring_to_build_on(planner, active, plain.slots, REDUCERS, ()),
        capacity=np.ones(REDUCERS),
        limits=Limits(theta_max=0.0),
    )
    function = decide(planner, request, active, guard=guard).function
    return skew(np.bincount(function.slots[slots], weights=tuples, minlength=REDUCERS))


def spread(values: list[float]) -> str:
    """Median and the middle nine tenths."""
    low, middle, high = np.quantile(values, [0.05, 0.5, 0.95])
    return f"{middle:.2f} ({low:.2f}..{high:.2f})"


if __name__ == "__main__":
    main()
