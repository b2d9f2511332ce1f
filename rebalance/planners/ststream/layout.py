"""The pieces St-Stream moves, the channels they are on and the nodes that own these.

A piece is a key on a channel: one per key, several for a split one. Loads are added up once and kept along.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rebalance.partition import Share
from rebalance.planning.exact import first_greatest, on_grid, total
from rebalance.planning.model import Floats, Indices, Ints, Mask, Request, check_nodes


class Step(NamedTuple):
    """One thing the planner did, and why."""

    tier: int
    #: Index of the key.
    key: int
    source: int
    target: int
    #: The load that changed its channel.
    load: float
    why: str


@dataclass(frozen=True)
class Machine:
    """A node with what the tiers need of it."""

    name: str
    #: Its open channels.
    channels: tuple[int, ...]
    #: M(S).
    performance: float


class Layout:
    """Where every piece is. The tiers change it; `steps` tells what they did."""

    def __init__(self, request: Request, p: float, q: float) -> None:
        self.request = request
        self.machines = machines_of(request, p)
        self.capacity = request.open_capacity
        self.node_of = np.full(request.channels, -1)
        for index, machine in enumerate(self.machines):
            self.node_of[list(machine.channels)] = index
        self.steps: list[Step] = []
        self._drained: set[int] = set()
        weight = load_of_keys(request, q)
        movable = request.movable
        self.key: Indices = np.arange(len(weight))
        self.channel: Ints = request.start.copy()
        self.load: Floats = weight.astype(np.float64)
        self.movable: Mask = movable & (weight > 0)
        self._start_split(weight, movable)
        self.recount()

    def _start_split(self, weight: Floats, movable: Mask) -> None:
        """Keys that are split already come in pieces; one without load any more, or pinned beside a closed channel, is whole again."""
        for key, shares in self.request.splits.items():
            where = [share.channel for share in shares]
            gone = [not self.request.is_open([c]) for c in where]
            if not self.request.mergeable or weight[key] == 0 or (any(gone) and not movable[key]):
                continue
            if any(gone):
                self._drained.add(key)
                where = [int(self.request.home[key]) if g else c for g, c in zip(gone, where, strict=True)]
            self.replace(key, [(c, share.share * weight[key]) for c, share in zip(where, shares, strict=True)])
        self.merge_pieces()

    def replace(self, piece: int, parts: Sequence[tuple[int, float]]) -> None:
        """Put a piece on one channel, or cut it into parts for several."""
        (self.channel[piece], self.load[piece]), *rest = parts
        if rest:
            self.key = np.append(self.key, [self.key[piece]] * len(rest))
            self.channel = np.append(self.channel, np.array([c for c, _ in rest], dtype=np.int32))
            self.load = np.append(self.load, [load for _, load in rest])
            self.movable = np.append(self.movable, [self.movable[piece]] * len(rest))

    def merge_pieces(self) -> None:
        """Pieces of one key on one channel are one piece."""
        parts = self._parts_by_key()
        alike = (np.diff(self.key[parts]) == 0) & (np.diff(self.channel[parts]) == 0)
        if not alike.any():
            return
        new = np.append(True, ~alike)
        self.load[parts[new]] = np.bincount(np.cumsum(new) - 1, weights=self.load[parts])
        kept = np.ones(len(self.key), dtype=np.bool_)
        kept[parts[1:][alike]] = False
        self.key, self.channel, self.load, self.movable = (
            self.key[kept],
            self.channel[kept],
            self.load[kept],
            self.movable[kept],
        )

    def _parts_by_key(self) -> Indices:
        """The pieces of keys that are in several, by key and channel; few, whatever the number of keys."""
        if len(self.key) == len(self.request.stats):
            return np.empty(0, dtype=np.int64)
        parts = np.flatnonzero(np.bincount(self.key)[self.key] > 1)
        return parts[np.lexsort((self.channel[parts], self.key[parts]))]

    def pieces_on(self, channels: Sequence[int]) -> Indices:
        """The pieces that may move, costliest first (ties: the smaller key, then the smaller channel)."""
        here = self.channel == channels[0] if len(channels) == 1 else np.isin(self.channel, channels)
        found = np.flatnonzero(here & self.movable)
        return found[np.lexsort((self.channel[found], self.key[found], -self.load[found]))]

    def parts(self, pieces: Indices) -> Mask:
        """Which of the pieces are parts of a split key."""
        if len(self.key) == len(self.request.stats):
            return np.zeros(len(pieces), dtype=np.bool_)
        return np.asarray(np.bincount(self.key)[self.key[pieces]] > 1)

    def recount(self) -> None:
        """Add the loads up again, so that rounding does not gather."""
        counted = np.bincount(self.channel, weights=self.load, minlength=self.request.channels)
        self.loads: Floats = counted.astype(np.float64)

    def node_load(self, index: int) -> float:
        """L(S): the load on a node's channels."""
        return total(self.loads[list(self.machines[index].channels)])

    def split_keys(self) -> Iterator[tuple[int, Indices]]:
        """Each key that is in several pieces, with them."""
        parts = self._parts_by_key()
        for pieces in np.split(parts, np.flatnonzero(np.diff(self.key[parts])) + 1):
            if len(pieces) > 1:
                yield int(self.key[pieces[0]]), pieces

    def first_of(self, key: int, pieces: Indices) -> int:
        """Where a split key's state is: it stays if a piece is left there, else goes to the largest (ties: the smaller channel)."""
        here = self.channel[pieces].tolist()
        current = int(self.request.current[key])
        return current if current in here else here[first_greatest(self.load[pieces])]

    def result(self) -> tuple[Ints, dict[int, tuple[Share, ...]]]:
        """The channel of each key and the splits."""
        channel = np.empty(len(self.request.stats), dtype=np.int32)
        channel[self.key] = self.channel
        splits: dict[int, tuple[Share, ...]] = {}
        touched = self._drained | {step.key for step in self.steps}
        for key, pieces in self.split_keys():
            if key not in touched and key in self.request.splits:
                splits[key] = self.request.splits[key]  # to the last bit: nothing changed
            else:
                first = self.first_of(key, pieces)
                whole = total(self.load[pieces])
                parts = [Share(int(self.channel[i]), float(self.load[i] / whole)) for i in pieces]
                splits[key] = tuple(sorted(parts, key=lambda part: (part.channel != first, part.channel)))
            channel[key] = splits[key][0].channel
        return channel, splits


def load_of_keys(request: Request, q: float) -> Floats:
    """q·cpu + (1-q)·mem of each key as shares of all cost and all state, their sums exact again; with q = 1 its cost as it is."""
    stats = request.stats
    if q == 1:
        return stats.cost
    cost, state = (column / max(float(column.sum()), 1e-300) for column in (stats.cost, stats.state))
    return on_grid(np.asarray(q * cost + (1 - q) * state, dtype=np.float64))


def machines_of(request: Request, p: float) -> tuple[Machine, ...]:
    """The nodes with their open channels; without nodes, one that owns all channels."""
    open_channels = set(np.flatnonzero(request.open).tolist())
    if not request.nodes:
        return (Machine("all channels", tuple(sorted(open_channels)), float(request.open_capacity.sum())),)
    check_nodes(request.nodes, request.channels)
    found = (
        Machine(node.name, tuple(sorted(open_channels & set(node.channels))), node.performance(p))
        for node in request.nodes
    )
    return tuple(machine for machine in found if machine.channels)
