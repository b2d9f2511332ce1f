"""The metrics of St-Stream: offset of a node, balance degree of all, restoration rate of a plan.

- Offset (equation 5): α = S_y / S_x. S_x is the share of a node's keys that are on a channel above the node's mean, S_y the share of its
  tuples these carry. 1 where no channel is above the mean; the larger, the fewer keys carry the excess.
- Balance degree (equation 6, which mixes units, read as a ratio): b = max / mean over the nodes of α·W, their weights with the offset
  counted in. 1 is perfect.
- Restoration rate: b after a plan over b before; the paper reports 1.4401 / 1.738 = 82.86 %.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rebalance.partition import Share
from rebalance.planners.ststream.layout import machines_of
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
