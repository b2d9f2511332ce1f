"""Table 1 of the token paper with letters of the same starting skews: the stored ones, which were chosen because they end like the
paper's, and many others of which only the start was looked at.

    python -m tests.bench.bench_tokens [--sequences 200] [--rounds 1] [--store]

`run` is the paper's setting in ticks (`tests.reference.tokens.run_of_actors`): the ring changes while letters wait in queues. `plan` is what
a pipeline sees: one interval's letters are planned on, and the next interval has the same ones. Skews have no unit.
"""

# ruff: noqa: T201 - a table for a person at a terminal

from __future__ import annotations

import argparse
from collections import Counter

import numpy as np

from rebalance.partition import PartitionFunction
from rebalance.planners.registry import make_planner
from rebalance.planning.decide import decide
from rebalance.planning.interface import first_function, ring_to_build_on
from rebalance.planning.measure import skew
from rebalance.planning.model import KeyStats, Limits, Request
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


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sequences", type=int, default=200, help="other sequences per workload")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument(
        "--store", action="store_true", help="search sequences like the paper's again and write the fixture"
    )
    options = parser.parse_args()
    if options.store:
        FIXTURE.write_text("".join(f"{name} {search_alike(name)}\n" for name in SKEWS), encoding="utf-8")
    print("| | method | before | paper | run | run, others: median (5..95 %) | plan | plan, others: median (5..95 %) |")
    print("|---|---|---|---|---|---|---|---|")
    for name, letters in stored().items():
        others = [search(name, seed) for seed in range(options.sequences)]
        for i, method in enumerate(START):
            runs = [after_run(each, method, options.rounds) for each in others]
            plans = [after_plan(each, method, options.rounds) for each in others]
            print(
                f"| {name} | {method} | {SKEWS[name][i]:.2f} | {REPORTED[name][i]:.2f} "
                f"| {after_run(letters, method, options.rounds):.2f} | {spread(runs)} "
                f"| {after_plan(letters, method, options.rounds):.2f} | {spread(plans)} |"
            )


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
