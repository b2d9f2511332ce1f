"""Plans of seeded requests as digests, to be compared between processors: `python -m tests.support.plan_digests tiny small`.

The requests are hard on purpose: costs with ties and costs that no power of two divides, capacities that do not add up to a round
number, channels that vanish or are drained, pinned keys, tight limits, measured utilisation, nodes. Every planner plans most of them
twice, the second time from where the first plan left the keys; of the many tiny ones once, and the slow planners only every fifth.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from hashlib import sha256

import numpy as np

from rebalance.partition import SLOTS, PartitionFunction, consistent_ring
from rebalance.planners.registry import PLANNERS
from rebalance.planning.decide import decide
from rebalance.planning.interface import Planner, ring_to_build_on
from rebalance.planning.model import KeyStats, Limits, Node, Plan, Request

#: Seeds and most keys of the requests of each size.
SIZES = {
    "few": (range(980, 1000), 12),
    "tiny": (range(1000, 1180), 12),
    "small": (range(12), 60),
    "large": (range(100, 104), 1000),
}
SLOW = ("frugal", "hybrid")
#: Parameters beyond the defaults, where they lead through other arithmetic.
VARIANTS = {
    "mixed": [{}, {"r": 3}],
    "readj": [{}, {"utility": "A", "resources": "LML"}, {"utility": "ATLM", "resources": "LML"}, {"utility": "BTM"}],
    "redist": [{}, {"utility": "APLM", "resources": "MQL"}, {"utility": "BTM", "resources": "MML"}],
    "scan": [{}, {"utility": "ATLM", "resources": "QQL"}, {"utility": "BTM", "resources": "MQL"}],
    "ststream": [{}, {"cut": "l_max"}],
}


def seeded_request(seed: int, most_keys: int) -> tuple[Request, PartitionFunction]:
    """A request, and the function under which its keys are where it says."""
    rng = np.random.default_rng(seed)
    size, channels = int(rng.integers(most_keys // 4, most_keys + 1)), int(rng.integers(2, 8 if most_keys > 12 else 5))
    before = channels + int(rng.choice([-1, 0, 0, 1]))
    excluded = np.arange(channels) == channels - 1 if channels > 3 and seed % 4 == 1 else None
    closed = () if excluded is None else (channels - 1,)
    slots = np.sort(rng.choice(SLOTS, size, replace=False)).astype(np.int32)
    tenths = rng.integers(0, 12, size) / 10  # ties that are none to the last bit: 0.1 + 0.2 is not 0.3
    cost = (tenths, rng.pareto(1.1, size), rng.zipf(1.5, size) / 3, np.ones(size))[seed % 4]
    current = np.minimum(consistent_ring(before, replicas=20)[slots], before - 1)
    current = np.where(rng.random(size) < 0.1, rng.integers(0, before, size), current).astype(np.int32)
    nodes = (
        Node("left", tuple(range(channels // 2)), cores=3, ghz=2.3),
        Node("right", tuple(range(channels // 2, channels))),
    )
    request = Request(
        stats=KeyStats(
            keys=np.arange(size),
            slots=slots,
            tuples=np.ceil(cost),
            cost=cost,
            state=rng.integers(0, 50, size) * (0.1 if seed % 3 else 1000.0),
        ),
        current=current,
        ring=consistent_ring(channels, replicas=20, excluded=closed),
        capacity=np.ones(channels) if seed % 2 else rng.integers(1, 12, channels) / 10,
        limits=Limits(
            theta_max=(0.0 if size < 20 else 0.1, 0.05, 0.08, 0.3)[seed % 4],
            max_routes=(3000, size // 10, size)[seed % 3],
            max_bytes=None if seed % 5 else 100.0 * size,
        ),
        pinned=rng.random(size) < 0.05 if seed % 3 == 2 else None,
        excluded=excluded,
        mergeable=seed % 2 == 0,
        utilisation=rng.random(channels) / 3 + 0.5,
        nodes=nodes if seed % 2 else (),
    )
    return request, _function(request, current, before)


def _function(request: Request, current: np.ndarray, channels: int) -> PartitionFunction:
    home = request.home.tolist()
    routes = {k: int(c) for k, c in enumerate(current.tolist()) if c != home[k]}
    return PartitionFunction(
        version=1, channels=max(channels, request.channels), slots=request.ring, key_type="long", routes=routes
    )


def plans_of(planner: Planner, request: Request, function: PartitionFunction, number: int) -> list[Plan]:
    """So many plans, each from where the one before left the keys."""
    plans = []
    for _ in range(number):
        closed = np.flatnonzero(~request.open).tolist()
        ring = ring_to_build_on(planner, function, request.ring, request.channels, closed)
        plan = decide(planner, replace(request, ring=ring), function)
        current = request.current.copy()
        if plan.decision == "apply":
            current[plan.moved] = plan.moved_to
        request, function = replace(request, current=current), plan.function
        plans.append(plan)
    return plans


def told(plan: Plan) -> str:
    """All of a plan that somebody acts on, and what it reports to nine digits."""
    reported = (
        plan.before.skewness,
        plan.after.skewness,
        plan.after.theta,
        plan.moved_bytes,
        plan.bound,
        plan.bound_theta,
    )
    return f"{plan.decision} {plan.function.digest()} {plan.moved_to.tolist()} {[f'{x:.9g}' for x in reported]} {plan.notes}"


def digests(size: str) -> dict[str, str]:
    """One digest for each planner and request."""
    seeds, most_keys = SIZES[size]
    found = {}
    for seed in seeds:
        request, function = seeded_request(seed, most_keys)
        for name, planner in PLANNERS.items():
            if size == "tiny" and name in SLOW and seed % 5:
                continue
            for parameters in VARIANTS.get(name, [{}]):
                plans = plans_of(planner(**parameters), request, function, 1 if size == "tiny" else 2)
                text = "\n".join(told(plan) for plan in plans)
                found[f"{name} {parameters or ''} {size} {seed}"] = sha256(text.encode()).hexdigest()[:16]
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps({name: digest for size in sys.argv[1:] for name, digest in digests(size).items()}))
