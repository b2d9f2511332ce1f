"""What was counted by slot of the ring, whatever the way of counting.

Every way leaves sums of all keys of a slot: of the keys with a name, and of the rest. So what a slot holds is a rolling sum like that of a key
(`rebalance.storage.held`), whichever way the earlier intervals were counted.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from rebalance.partition import SLOTS
from rebalance.planning.model import Indices
from rebalance.storage import control
from rebalance.storage.held import NUMBERS, Earlier

#: Sums over the keys of every slot, under names of `NUMBERS`.
Sums = dict[str, Indices]
COUNTED, HELD, ADDED = ("tuples", "state_bytes"), ("held_rows", "held_bytes"), ("added_rows", "added_bytes")


def nothing(names: Sequence[str]) -> Sums:
    """Slots that have nothing."""
    return {name: np.zeros(SLOTS, dtype=np.int64) for name in names}


def by_slot(table: pa.Table, names: Sequence[str]) -> Sums:
    """Sums of a table's columns for every slot, in whole numbers."""
    slot, found = table["slot"].to_numpy(), nothing(names)
    for name, sums in found.items():
        np.add.at(sums, slot, table[name].to_numpy())
    return found


def counted_by_slot(root: str, interval_id: str, names: Sequence[str]) -> Sums:
    """What an interval's count says of all keys of each slot."""
    named, rest = (
        by_slot(control.read(root, table, columns=["slot", *names], interval_id=interval_id), names)
        for table in ("key_stats", "slot_stats")
    )
    return {name: named[name] + rest[name] for name in names}


def rolled_slots(root: str, added: Sums, earlier: Earlier) -> Sums:
    """What every slot holds after the newest interval has added this."""
    held = {to: added[name] for to, name in zip(HELD, ADDED, strict=True)}
    for interval_id, names, sign in ((earlier.before, HELD, 1), (earlier.leaving, ADDED, -1)):
        if interval_id:
            sums = counted_by_slot(root, interval_id, names)
            held = {to: held[to] + sign * sums[name] for to, name in zip(HELD, names, strict=True)}
    return held


def without_named(totals: Sums, named: pa.Table, distinct: int) -> pa.Table:
    """Sums over all keys of each slot, less those that have a name; slots of which nothing is left are left out.

    How many keys a slot has is not counted. Hashes spread keys evenly, so each slot gets as many of about `distinct` keys.
    """
    own = by_slot(named, NUMBERS)
    left = {name: totals[name] - own[name] for name in NUMBERS}
    slots = np.flatnonzero((left["tuples"] > 0) | (left["held_rows"] > 0))
    others = max(distinct - int(np.count_nonzero(named["tuples"].to_numpy())), len(slots))
    ends = np.arange(1, len(slots) + 1) * others // max(len(slots), 1)
    keys = np.diff(ends, prepend=0)
    return pa.table({"slot": slots.astype(np.int32), "keys": keys, **{name: left[name][slots] for name in NUMBERS}})
