"""St-Stream on seven nodes loaded from 11 to 88 as in the paper's run, and its time on a million keys against `mixed`.

    python -m tests.bench.bench_ststream [--runs 20]

Loads are shares of the fullest node's 88; times are ratios within this run.
"""

# ruff: noqa: T201 - a table for a person at a terminal

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import numpy as np

from rebalance.partition import SLOTS, consistent_ring
from rebalance.planners.registry import make_planner
from rebalance.planners.ststream.metrics import balance_of, restoration_rate
from rebalance.planners.ststream.ststream import StStream
from rebalance.planning.model import KeyStats, Limits, Node, Request

#: CPU use of the nodes before, per cent; the paper gives the ends.
LOADS = (88, 70, 60, 45, 30, 20, 11)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    options = parser.parse_args()
    print("| states | nodes before | nodes after | balance degree | restoration rate | keys split | state moved |")
    print("|---|---|---|---|---|---|---|")
    for mergeable in (False, True):
        print_restored([replace(cluster(seed), mergeable=mergeable) for seed in range(options.runs)])
    print_times()


def cluster(seed: int, keys: int = 400) -> Request:
    """Seven nodes of three channels with these loads, by keys of Zipf's sizes (z = 0.6)."""
    rng = np.random.default_rng(seed)
    node = rng.choice(len(LOADS), keys, p=np.array(LOADS) / sum(LOADS))
    cost = np.ceil(1000 * rng.permutation(np.arange(1.0, keys + 1) ** -0.6))
    return Request(
        stats=KeyStats(np.arange(keys), np.arange(keys, dtype=np.int32), cost, cost, cost),
        current=(3 * node + rng.choice(3, keys, p=[0.6, 0.3, 0.1])).astype(np.int32),
        ring=np.zeros(SLOTS, dtype=np.int32),
        capacity=np.ones(3 * len(LOADS)),
        limits=Limits(max_routes=keys),
        nodes=tuple(
            Node(f"s{i}", (3 * i, 3 * i + 1, 3 * i + 2), cores=4, ghz=2.4, memory=8) for i in range(len(LOADS))
        ),
    )


def print_restored(requests: list[Request]) -> None:
    """Means over the runs; node loads so that their mean is the paper's."""
    rows = []
    for request in requests:
        proposal = StStream().propose(request)
        before = balance_of(request, request.current)
        after = balance_of(request, proposal.channel, proposal.splits)
        scale = np.mean(LOADS) / np.mean(before.weights)
        moved = request.stats.state[proposal.channel != request.current].sum() / request.stats.state.sum()
        ends = (f(b.weights) * scale for b in (before, after) for f in (min, max))
        rows.append((*ends, before.degree, after.degree, restoration_rate(before, after), len(proposal.splits), moved))
    low, high, low2, high2, b, b2, rate, split, moved = np.mean(rows, axis=0)
    print(
        f"| {'merge' if requests[0].mergeable else 'do not merge'} | {low:.0f}..{high:.0f} | {low2:.0f}..{high2:.0f} "
        f"| {b:.2f} → {b2:.2f} | {rate:.0%} | {split:.1f} | {moved:.0%} |"
    )


def print_times() -> None:
    """A million keys, Zipf with z = 0.85, 15 channels on 5 nodes, θ = 0.05: seconds of `mixed` and those of St-Stream over them."""
    rng = np.random.default_rng(7)
    size, channels = 1_000_000, 15
    slots = rng.integers(0, SLOTS, size).astype(np.int32)
    cost = rng.permutation(np.ceil(1e6 * np.arange(1.0, size + 1) ** -0.85))
    ring = consistent_ring(channels)
    request = Request(
        stats=KeyStats(np.arange(size), slots, cost, cost, cost),
        current=ring[slots],
        ring=ring,
        capacity=np.ones(channels),
        limits=Limits(theta_max=0.05),
        nodes=tuple(Node(f"n{i}", (3 * i, 3 * i + 1, 3 * i + 2)) for i in range(5)),
    )
    make_planner("mixed").propose(request)  # compiles what is compiled
    taken = {}
    for name, planner, mergeable in (
        ("mixed", make_planner("mixed"), False),
        ("ststream", StStream(theta=0.05), False),
        ("ststream, splitting", StStream(theta=0.05), True),
    ):
        started = time.perf_counter()
        planner.propose(replace(request, mergeable=mergeable))
        taken[name] = time.perf_counter() - started
        print(f"{name}: {taken[name] / taken['mixed']:.2f} of mixed")


if __name__ == "__main__":
    main()
