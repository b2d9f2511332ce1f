"""What was counted by slot of the ring, in any way, and what the counts of frequent keys say of all other keys.

Every way of counting leaves sums of all keys of a slot: the keys with a name and the rest. So what a slot holds is a rolling sum like that of
a key (`rebalance.storage.held`), whichever way the earlier intervals were counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rebalance.partition import SLOTS, Key
from rebalance.pipeline.intervals import Interval
from rebalance.planning.model import Indices
from rebalance.storage import control
from rebalance.storage.epochs import processed_ids
from rebalance.storage.held import NUMBERS, Earlier, part

#: Sums by slot, or numbers of keys, under the names of `NUMBERS`.
Sums = dict[str, Indices]
EVERY_WAY = ("exact", "frequent", "compact")


def by_slot(table: pa.Table, names: Sequence[str]) -> Sums:
    """Sums of a table's columns for every slot, in whole numbers."""
    slot = table["slot"].to_numpy()
    found = {}
    for name in names:
        sums = np.zeros(SLOTS, dtype=np.int64)
        np.add.at(sums, slot, table[name].to_numpy())
        found[name] = sums
    return found


def counted_by_slot(root: str, interval_id: str, names: Sequence[str]) -> Sums:
    """What an interval's count says of all keys of each slot."""
    parts = [
        by_slot(control.read(root, table, columns=["slot", *names], interval_id=interval_id), names)
        for table in ("key_stats", "slot_stats")
    ]
    return {name: parts[0][name] + parts[1][name] for name in names}


def named_in(root: str, interval_ids: Sequence[str]) -> set[Key]:
    """The keys that these intervals' counts have by name."""
    if not interval_ids:
        return set()
    return set(control.read(root, "key_stats", columns=["key"], interval_id=list(interval_ids))["key"].to_pylist())


def rolled_keys(root: str, keys: pa.Array, newest: str, earlier: Earlier) -> pa.Table:
    """What those of the keys hold which the counts name that are added up: one part, to be summed with others."""
    own = part_of(root, newest, keys, {"added": ("tuples", "state_bytes"), "held": ("tuples", "state_bytes")})
    parts = [own]
    if earlier.before:
        parts.append(part_of(root, earlier.before, keys, {"held": ("held_rows", "held_bytes")}))
    if earlier.leaving:
        gone = part_of(root, earlier.leaving, keys, {"held": ("added_rows", "added_bytes")}, sign=-1)
        parts.append(gone)
    for each in parts:
        keys = keys.filter(pc.is_in(keys, value_set=each["key"].combine_chunks()))
    known = [each.filter(pc.is_in(each["key"], value_set=keys)) for each in parts]
    # Not `summed`, which leaves out what holds nothing: that is known as well.
    return pa.concat_tables(known)


def part_of(
    root: str, interval_id: str, keys: pa.Array, what: Mapping[str, tuple[str, str]], sign: int = 1
) -> pa.Table:
    """What an interval's count says of these keys, as rows and bytes held or added; no row of a key that it does not name."""
    columns = sorted({name for names in what.values() for name in names})
    found = control.read(root, "key_stats", columns=["key", "slot", *columns], interval_id=interval_id)
    found = found.filter(pc.is_in(found["key"], value_set=keys))
    numbers = {
        f"{to}_{unit}": pc.multiply(found[name], sign)
        for to, names in what.items()
        for unit, name in zip(("rows", "bytes"), names, strict=True)
    }
    return part(found, **numbers)


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


@dataclass(frozen=True)
class Hidden:
    """The most that a key without a name may have."""

    #: Rows in the interval.
    tuples: int
    #: Rows in the state.
    held: int
    #: Rows in the state that the newest interval has added.
    added: int


def hidden_in(root: str, interval_id: str) -> Hidden | None:
    """What an interval's count says of the keys that it does not name; None if it was not one of frequent keys."""
    found = control.rows(root, "interval_stats", interval_id=interval_id, statistics="frequent")
    if not found:
        return None
    row = found[-1]
    return Hidden(row["unnamed_tuples"], row["unnamed_held"], row["unnamed_added"])


@dataclass(frozen=True)
class OfWindow:
    """The counts that were made while the intervals of the state's window, but for its newest, were the newest in the state."""

    #: The intervals whose counts they are.
    intervals: list[str] = field(default_factory=list)
    #: No key that none of them names has more rows of these intervals; None if that is not known of all of them.
    hidden: int | None = 0


def of_window(root: str, newest: Interval, window: int) -> OfWindow:
    """What the counts of frequent keys say of the intervals in the state, but for what the newest has added itself.

    The window is that of the interval which comes next, so the state has one interval less.
    """
    done = processed_ids(root, [newest.shifted(-back).id for back in range(window - 1)])
    #: Each was the newest in the state when the next one was counted, or when it was counted itself. What others have said was undone.
    own = {interval_id: (interval_id, after) for interval_id, after in pairwise(done)}
    if not own:
        return OfWindow()
    counted = control.rows(
        root,
        "interval_stats",
        columns=["interval_id", "state_newest", "unnamed_added"],
        state_newest=list(own),
        window=window,
        statistics="frequent",
    )
    counted.sort(key=lambda row: str(row["interval_id"]))
    found = {row["state_newest"]: row for row in counted if row["interval_id"] in own[row["state_newest"]]}
    return OfWindow(
        [row["interval_id"] for row in found.values()],
        sum(row["unnamed_added"] for row in found.values()) if len(found) == len(own) else None,
    )
