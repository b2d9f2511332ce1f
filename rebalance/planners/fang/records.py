"""The keys as records: what LLFD and its family plan on.

A record is the paper's (d', d, d_h, v_c, v_S, #): so many keys, alike in channel, home, cost and state. With one record per key the
planners are the exact algorithms of the paper's section III; with the compact records of `rebalance.planners.fang.compact` they
are those of section IV. Either way they are written once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rebalance.planning.exact import TOLERANCE
from rebalance.planning.model import Floats, Indices, Ints, Mask, Request


@dataclass(frozen=True, eq=False)
class Records:
    """Arrays over the records, and what the channels allow. Records are in a fixed order: ties go to the smaller index."""

    #: d': where the keys are planned to be; phase I changes it.
    planned: Ints
    #: d: where they are; may name a channel that exists no more.
    current: Ints
    #: d_h: where the ring alone would put them.
    home: Ints
    #: v_c: cost of one key.
    cost: Floats
    #: v_S: bytes of state of one key.
    state: Floats
    #: #: number of keys.
    count: Ints
    #: False for pinned keys.
    movable: Mask
    #: Which of the original records each one is a part of.
    origin: Ints
    #: cap(d), zero for channels that must end empty.
    capacity: Floats
    #: L_max(d), with the tolerance for what is at it.
    limit: Floats
    #: A_max.
    max_routes: int

    def draining(self) -> Mask:
        """Records that must leave since their channel is excluded."""
        excluded: Mask = self.capacity == 0
        return self.movable & excluded[self.planned]

    def all_home(self) -> Records:
        """Phase I of MinTable: every key that may move is planned at home."""
        return replace(self, planned=np.where(self.movable, self.home, self.planned))

    def routed(self) -> int:
        """|A|: keys away from home that may move."""
        return int(self.count[self._away()].sum())

    def cleaned(self, n: int) -> Records:
        """Phase I of Mixed: the n routed keys with the smallest state are planned at home; a record may be split for it."""
        if n == 0:
            return self
        order = self._away()
        up_to = np.cumsum(self.count[order])
        whole = int(np.searchsorted(up_to, n, side="right"))
        back = order[:whole]
        planned = self.planned.copy()
        planned[back] = self.home[back]
        cleaned = replace(self, planned=planned)
        rest = n - (int(up_to[whole - 1]) if whole else 0)
        return cleaned._split(int(order[whole]), rest) if rest else cleaned

    def _away(self) -> Indices:
        """Records away from home that may move, by ascending state."""
        away = np.flatnonzero((self.planned != self.home) & self.movable)
        return away[np.argsort(self.state[away], kind="stable")]

    def _split(self, row: int, n: int) -> Records:
        """The same records with n keys of `row` as a new last record, planned at home."""
        columns = ("planned", "current", "home", "cost", "state", "count", "movable", "origin")
        longer: dict[str, Any] = {name: np.append(getattr(self, name), getattr(self, name)[row]) for name in columns}
        longer["planned"][-1] = self.home[row]
        longer["count"][row] -= n
        longer["count"][-1] = n
        return replace(self, **longer)


@dataclass(frozen=True, eq=False)
class Placement:
    """Records after phase III: how many keys of each stay where they were planned, and where the others went."""

    records: Records
    stay: Ints
    #: Rows of (record, channel, number of keys).
    placed: Ints
    #: Keys that no channel accepted within L_max.
    refused: int

    def table_size(self) -> int:
        """|A'|: keys away from home."""
        records, (row, channel, count) = self.records, self.placed.T
        routed = self.stay[records.planned != records.home].sum() + count[channel != records.home[row]].sum()
        return int(routed)

    def migration(self) -> float:
        """M: bytes of state of the keys that change their channel."""
        records, (row, channel, count) = self.records, self.placed.T
        moved = np.where(records.planned != records.current, self.stay * records.state, 0.0).sum()
        return float(moved + (count * records.state[row])[channel != records.current[row]].sum())

    def notes(self) -> tuple[str, ...]:
        """What a person should know of it."""
        if not self.refused:
            return ()
        return (
            f"θ_max was not reachable: {self.refused:,} keys fit on no channel and went where they do the least harm",
        )


def key_records(request: Request) -> Records:
    """One record per key."""
    stats = request.stats
    return Records(
        planned=request.start,
        current=request.current,
        home=request.home,
        cost=stats.cost,
        state=stats.state,
        count=np.ones(len(stats), dtype=np.int32),
        movable=request.movable,
        origin=np.arange(len(stats), dtype=np.int32),
        capacity=request.open_capacity,
        limit=request.limit * (1.0 + TOLERANCE),
        max_routes=request.limits.max_routes,
    )
