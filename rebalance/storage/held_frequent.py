"""What earlier counts of frequent keys say of the state: which keys may have much of it, and how much any other key has at most.

A key without a name in the count of an interval has fewer rows in it than the share that was asked for. So whatever has that share of all that
is held had it of what one of the window's intervals added, and was named then. A key that no count of the window names holds at most the sum of
what it may have been added without a name; each count keeps that bound, whatever the share was at the time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import ceil

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rebalance.partition import Key
from rebalance.pipeline.intervals import Interval
from rebalance.planning.model import Mask
from rebalance.storage import control
from rebalance.storage.epochs import processed_ids
from rebalance.storage.held import Earlier, counted_as_processed, earlier_counts, part
from rebalance.storage.held_slots import ADDED, COUNTED, HELD, Sums, counted_by_slot, nothing, rolled_slots

_EVERY_WAY = ("exact", "frequent", "compact")
#: Of what a key with a name has a large share, and the column of `interval_stats` that bounds it for all other keys.
_BOUNDS = {"tuples": "unnamed_tuples", "held_rows": "unnamed_held", "added_rows": "unnamed_added"}


@dataclass(frozen=True, eq=False)
class InState:
    """What is known of the state before any key is looked for in it."""

    #: What is held and was added, by slot.
    sums: Sums = field(default_factory=lambda: nothing((*HELD, *ADDED)))
    #: Keys that may have a large share of it.
    keys: frozenset[Key] = frozenset()
    #: The most rows that any other key may hold, and of those the most that the newest interval may have added.
    held: int = 0
    added: int = 0
    #: The newest interval, if its own count says what it has added.
    newest: str = ""
    #: Where it stands what was held before, if counts say it.
    earlier: Earlier | None = None


def share_of(error: float, rows: int) -> int:
    """The least number of rows that is this share of them, at least one.

    >>> share_of(0.001, 30_000), share_of(0.001, 30_001), share_of(0.001, 0)
    (30, 31, 1)
    """
    return max(1, ceil(error * rows))


def are_large(keys: pa.Table, totals: Mapping[str, int], error: float) -> Mask:
    """Which keys have the share of any of what is counted."""
    large: Mask = np.zeros(keys.num_rows, dtype=np.bool_)
    for name in _BOUNDS:
        large |= keys[name].to_numpy() >= share_of(error, totals[name])
    return large


def unnamed_bounds(stats: pa.Table, rest: pa.Table, state: InState, error: float) -> dict[str, int]:
    """The most that a key has that these statistics do not name, as columns of `interval_stats`."""
    known = {"tuples": 0, "held_rows": state.held, "added_rows": state.added}
    bounds = {}
    for name, column in _BOUNDS.items():
        left = rest[name].to_numpy()
        total = int(np.sum(stats[name].to_numpy()) + np.sum(left))
        # No key has more than its slot.
        bounds[column] = min(max(share_of(error, total) - 1, known[name]), int(left.max(initial=0)))
    return bounds


def added_as_named(root: str, newest: Interval) -> InState | None:
    """What an interval added, if its operator keeps its rows as they are: what was counted, if just that was processed."""
    bounds = _bounds(root, newest.id)
    if not bounds or not counted_as_processed(root, newest, "frequent"):
        return None
    counted = counted_by_slot(root, newest.id, COUNTED)
    sums = {to: counted[name] for to, name in zip(ADDED, COUNTED, strict=True)}
    return InState(sums, _named(root, [newest.id]), added=bounds["tuples"], newest=newest.id)


def rolled_state(root: str, newest: Interval, window: int, added: InState) -> InState | None:
    """What is held after `newest` has added its rows; None if it cannot be told."""
    earlier = earlier_counts(root, newest, window, _EVERY_WAY)
    before = _bounds(root, earlier.before) if earlier and earlier.before else {"held_rows": 0}
    if earlier is None or not before:
        return None
    counts, most = _of_window(root, newest, window)
    held = before["held_rows"] if most is None else min(before["held_rows"], most)
    names = added.keys | _named(root, counts) | _named(root, [earlier.before] if earlier.before else [])
    sums = {**rolled_slots(root, added.sums, earlier), **added.sums}
    return replace(added, sums=sums, keys=names, held=held + added.added, earlier=earlier)


def rolled_keys(root: str, keys: pa.Array, state: InState) -> pa.Table | None:
    """What those of the keys hold which all counts name that are added up: parts, to be summed; None if counts do not say it."""
    if not state.newest or state.earlier is None:
        return None
    parts = [_part(root, state.newest, keys, {"added": COUNTED, "held": COUNTED})]
    if state.earlier.before:
        parts.append(_part(root, state.earlier.before, keys, {"held": HELD}))
    if state.earlier.leaving:
        parts.append(_part(root, state.earlier.leaving, keys, {"held": ADDED}, sign=-1))
    for each in parts:
        keys = keys.filter(pc.is_in(keys, value_set=each["key"].combine_chunks()))
    return pa.concat_tables([each.filter(pc.is_in(each["key"], value_set=keys)) for each in parts])


def _part(root: str, interval_id: str, keys: pa.Array, what: Mapping[str, tuple[str, str]], sign: int = 1) -> pa.Table:
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


def _bounds(root: str, interval_id: str) -> dict[str, int] | None:
    """What a count of frequent keys says of all others; None if it was none."""
    found = control.rows(root, "interval_stats", interval_id=interval_id, statistics="frequent")
    return {name: found[-1][column] for name, column in _BOUNDS.items()} if found else None


def _named(root: str, interval_ids: list[str]) -> frozenset[Key]:
    """The keys that these counts have by name."""
    if not interval_ids:
        return frozenset()
    return frozenset(control.read(root, "key_stats", columns=["key"], interval_id=interval_ids)["key"].to_pylist())


def _of_window(root: str, newest: Interval, window: int) -> tuple[list[str], int | None]:
    """Of the intervals in the state but the newest: their counts, and the most that these have added to a key that they do not name.

    None if one of them was not counted in this way. The window is that of the interval which comes next, so the state has one less.
    """
    done = processed_ids(root, [newest.shifted(-back).id for back in range(window - 1)])
    #: Each was the newest in the state when the next one was counted, or when it was counted itself. What others have said was undone.
    own = {interval_id: (interval_id, after) for interval_id, after in pairwise(done)}
    if not own:
        return [], 0
    columns = ["interval_id", "state_newest", "unnamed_added"]
    counted = control.rows(
        root,
        "interval_stats",
        columns=columns,
        state_newest=list(own),
        window=window,
        statistics="frequent",
    )
    counted.sort(key=lambda row: str(row["interval_id"]))
    found = {row["state_newest"]: row for row in counted if row["interval_id"] in own[row["state_newest"]]}
    most = sum(row["unnamed_added"] for row in found.values()) if len(found) == len(own) else None
    return [row["interval_id"] for row in found.values()], most
