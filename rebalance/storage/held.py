"""What the state table holds of each key, from what was counted before: no state is read, whatever the window is.

    held now = held when the interval before was counted + what the newest interval added - what left the window

Each interval's `key_stats` has what was held then and what the newest interval had added, so three of them are enough. Where one is
missing (an interval was processed but not counted), or intervals were left out before the newest one, so that several may leave the window
at once, there is no answer, and the caller counts the state itself, once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rebalance.pipeline.intervals import Interval
from rebalance.storage import control
from rebalance.storage.epochs import processed_ids

NUMBERS = ("tuples", "state_bytes", "held_rows", "held_bytes", "added_rows", "added_bytes")


def rows_processed(root: str, interval: Interval) -> int | None:
    """How many rows of the interval were processed; None if it was not."""
    found = control.rows(root, "batches", columns=["rows"], interval_id=interval.id)
    return int(found[-1]["rows"]) if found else None


def added_as_counted(root: str, newest: Interval) -> pa.Table | None:
    """What an interval added, if its operator keeps its rows as they are: what was counted, if just that was processed."""
    if not counted_as_processed(root, newest, "exact"):
        return None
    stats = control.read(root, "key_stats", columns=["key", "slot", "tuples", "state_bytes"], interval_id=newest.id)
    return stats.rename_columns(["key", "slot", "rows", "bytes"])


def counted_as_processed(root: str, newest: Interval, statistics: str) -> bool:
    """Whether an interval was counted in this way, and just what was counted was processed."""
    counted = control.rows(root, "interval_stats", columns=["rows"], interval_id=newest.id, statistics=statistics)
    return bool(counted) and counted[-1]["rows"] == rows_processed(root, newest)


def is_folded(root: str, interval: Interval) -> bool:
    """Whether the interval's processing wrote the whole state anew: what was held before says nothing then."""
    found = control.rows(root, "batches", columns=["folded"], interval_id=interval.id)
    return bool(found and found[-1]["folded"])


def rolled(root: str, newest: Interval, window: int | None, added: pa.Table) -> list[pa.Table] | None:
    """Parts whose sum by key is what is held after `newest` has added its rows; None if it cannot be told.

    Nothing leaves a state without a window.
    """
    parts = [
        part(
            added,
            added_rows=added["rows"],
            added_bytes=added["bytes"],
            held_rows=added["rows"],
            held_bytes=added["bytes"],
        )
    ]
    earlier = earlier_counts(root, newest, window, "exact")
    if earlier is None:
        return None
    if earlier.before:
        held = _counted(root, earlier.before, ("held_rows", "held_bytes"))
        parts.append(part(held, held_rows=held["held_rows"], held_bytes=held["held_bytes"]))
    if earlier.leaving:
        gone = _counted(root, earlier.leaving, ("added_rows", "added_bytes"))
        parts.append(part(gone, held_rows=pc.negate(gone["added_rows"]), held_bytes=pc.negate(gone["added_bytes"])))
    return parts


class Earlier(NamedTuple):
    """The intervals whose counts say what was held before the newest one, and what leaves the window with it; None: nothing."""

    before: str | None
    leaving: str | None


def earlier_counts(root: str, newest: Interval, window: int | None, statistics: str | Sequence[str]) -> Earlier | None:
    """Where it stands what is held after `newest` has added its rows, if all of it was counted in these ways; None if it cannot be told."""
    # The window's intervals, or without one the newest two: what is further back does not matter.
    done = processed_ids(root, [newest.shifted(-back).id for back in range(2 if window is None else window + 1)])
    before, leaving = newest.shifted(-1).id, None if window is None else newest.shifted(1 - window).id
    if before not in done and control.largest(root, "epochs", "interval_id", below=newest.id):
        # Intervals were left out, so that several have left the window at once.
        return None
    wanted = [interval_id if interval_id in done else None for interval_id in (before, leaving)]
    found = [one and _counted_when_newest(root, one, done, window, statistics) for one in wanted]
    return None if any(one and not at for one, at in zip(wanted, found, strict=True)) else Earlier(*found)


def summed(parts: Sequence[pa.Table]) -> pa.Table:
    """One row per key with tuples or state, in ascending key order."""
    whole = pa.concat_tables(parts)
    sums = [(name, "sum") for name in NUMBERS]
    found = whole.group_by("key").aggregate([("slot", "max"), *sums])
    found = found.rename_columns({"slot_max": "slot", **{f"{name}_sum": name for name in NUMBERS}})
    used = pc.or_(pc.greater(found["tuples"], 0), pc.greater(found["held_rows"], 0))
    return found.filter(used).select(["key", "slot", *NUMBERS]).sort_by("key")


def counted_part(counts: pa.Table) -> pa.Table:
    """What was counted of the interval, to be summed with what is held."""
    return part(counts, tuples=counts["rows"], state_bytes=counts["bytes"])


def held_part(held: pa.Table) -> pa.Table:
    """What was counted of the state itself, to be summed with what was counted of the interval."""
    return part(held, **{name: held[name] for name in ("held_rows", "held_bytes", "added_rows", "added_bytes")})


def part(table: pa.Table, **numbers: pa.ChunkedArray) -> pa.Table:
    """Numbers of a table's keys, to be summed with those of others."""
    zeros = pa.repeat(pa.scalar(0, pa.int64()), table.num_rows)
    columns = {name: numbers.get(name, zeros) for name in NUMBERS}
    return pa.table({"key": table["key"], "slot": table["slot"].cast(pa.int32()), **columns})


def _counted_when_newest(
    root: str, newest: str, done: Sequence[str], window: int | None, statistics: str | Sequence[str]
) -> str | None:
    """The interval that was counted while `newest` was the newest in the state, under the same window.

    That is the one processed next, or itself where it was counted afterwards. What others have said was undone by a rewind.
    """
    after = min((interval_id for interval_id in done if interval_id > newest), default=newest)
    counted = control.rows(
        root,
        "interval_stats",
        columns=["interval_id"],
        interval_id=[newest, after],
        state_newest=newest,
        window=window or 0,
        statistics=statistics,
    )
    return counted[-1]["interval_id"] if counted else None


def _counted(root: str, interval_id: str, columns: tuple[str, ...]) -> pa.Table:
    return control.read(root, "key_stats", columns=["key", "slot", *columns], interval_id=interval_id)
