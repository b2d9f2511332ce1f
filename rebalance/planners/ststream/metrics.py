"""The metrics of St-Stream: offset of a node, balance degree of all, restoration rate of a plan.

- Offset (equation 5): α = S_y / S_x. S_x is the share of a node's keys that are on a channel above the node's mean, S_y the share of its
  tuples these carry. 1 where no channel is above the mean; the larger, the fewer keys carry the excess.
- Balance degree (equation 6, which mixes units, read as a ratio): b = max / mean over the nodes of α·W, their weights with the offset
  counted in. 1 is perfect.
- Restoration rate: b after a plan over b before; the paper reports 1.4401 / 1.738 = 82.86 %.
- Load difference (equations 4 and 7): ΔL = (W_before - W_after) · M of a node, with L = q·cost + (1-q)·state in W = L / M, as a share of all load: what
  it gives up, or takes if below 0. All of them sum to 0.
- Slot difference (section 5.2): δ = |usage after - usage before| of a node. The paper's is in per cent of its processors; how busy those are is not
  known here, so usage is the weight over the mean weight of all nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rebalance.partition import Share
from rebalance.planners.ststream.layout import load_of_keys, machines_of
from rebalance.planning.exact import TOLERANCE, total
from rebalance.planning.measure import channel_loads
from rebalance.planning.model import Floats, Indices, Ints, Request


@dataclass(frozen=True)
class Balance:
    """Offsets and weights of the nodes, in their order, and the balance degree."""

    offsets: tuple[float, ...]
    weights: tuple[float, ...]
    degree: float


def balance_of(
    request: Request, channel: Ints, splits: Mapping[int, tuple[Share, ...]] | None = None, p: float = 0.5
) -> Balance:
    """The metrics of an assignment. Keys on channels that are gone or excluded count for no node."""
    channels = max(request.channels, int(channel.max(initial=0)) + 1)
    inside = {key: shares for key, shares in (splits or {}).items() if all(s.channel < channels for s in shares)}
    loads = channel_loads(request.stats.cost, channel, channels, inside)
    tuples = channel_loads(request.stats.tuples, channel, channels, inside)
    keys = np.bincount(channel, minlength=channels).astype(np.int64)
    for shares in inside.values():
        keys += np.bincount([s.channel for s in shares[1:]], minlength=channels)
    offsets, weights = [], []
    for machine in machines_of(request, p):
        here = list(machine.channels)
        offsets.append(offset(loads[here] / request.capacity[here], keys[here], tuples[here], request.capacity[here]))
        weights.append(total(loads[here]) / machine.performance)
    weighted = np.array(offsets) * np.array(weights)
    degree = float(weighted.max()) / (total(weighted) / len(weighted)) if weighted.any() else 1.0
    return Balance(tuple(offsets), tuple(weights), degree)


@dataclass(frozen=True)
class Change:
    """What a plan does to one node."""

    node: str
    #: ΔL, as a share of all load; below 0 it takes.
    load: float
    #: δ, in mean usages.
    slots: float


def changes_of(
    request: Request, channel: Ints, splits: Mapping[int, tuple[Share, ...]], p: float = 0.5, q: float = 0.5
) -> tuple[Change, ...]:
    """Load and slot difference of each node, between where the request's keys are and where they shall be."""
    weight = load_of_keys(request, q)
    everything = max(float(weight.sum()), 1e-300)
    machines = machines_of(request, p)
    mean = everything / total(np.array([machine.performance for machine in machines]))

    def loads(where: Ints, parts: Mapping[int, tuple[Share, ...]]) -> list[float]:
        most = max(
            [request.channels - 1, int(where.max(initial=0)), *(s.channel for each in parts.values() for s in each)]
        )
        found = channel_loads(weight, where, most + 1, parts)
        return [total(found[list(machine.channels)]) for machine in machines]

    return tuple(
        Change(machine.name, (before - after) / everything, abs(after - before) / machine.performance / mean)
        for machine, before, after in zip(
            machines, loads(request.current, request.splits), loads(channel, splits), strict=True
        )
    )


def offset(level: Floats, keys: Indices, tuples: Floats, capacity: Floats) -> float:
    """α of one node, from its channels: relative load, keys, tuples, capacity.

    >>> offset(np.array([3.0, 1.0]), np.array([2, 6]), np.array([3.0, 1.0]), np.ones(2))
    3.0
    """
    mean = total(level * capacity) / total(capacity)
    hot = level > mean * (1 + TOLERANCE)
    if not (keys[hot].any() and tuples.any()):
        return 1.0
    return total(tuples[hot]) / total(tuples) / float(keys[hot].sum() / keys.sum())


def restoration_rate(before: Balance, after: Balance) -> float:
    """b after over b before; below 1 is better."""
    return after.degree / before.degree
