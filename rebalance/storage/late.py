"""Events that appeared in intervals after these were processed, as they were last counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from rebalance.pipeline.intervals import Interval
from rebalance.storage import control

_TABLE = "late_events"


@dataclass(frozen=True)
class Late:
    """An interval that has other events now than when it was processed."""

    interval_id: str
    #: Events then; how many more there are now, or fewer if negative.
    events: int
    late: int

    def __str__(self) -> str:
        what = f"{self.late:,} came late" if self.late > 0 else f"{-self.late:,} are gone"
        return f"{self.interval_id}: {what} (of {self.events:,})"


def late_up_to(root: str, interval_id: str) -> list[Late]:
    """The intervals that are known to have late events, oldest first; those after `interval_id` are to be run again anyway."""
    found = control.rows(root, _TABLE, columns=["interval_id", "events", "late"])
    return sorted((Late(**row) for row in found if row["interval_id"] <= interval_id), key=lambda one: one.interval_id)


def forget_late(root: str, interval_id: str) -> None:
    """The interval was processed anew, with all its events."""
    if control.has_rows(root, _TABLE, interval_id):
        control.delete(root, _TABLE, interval_id=interval_id)


def compare(root: str, found: Mapping[str, int], watched: Sequence[str], seen_by: Interval) -> list[Late]:
    """Hold what is found now of some intervals against what was processed, and store the differences; returns them, oldest first."""
    batches = control.rows(root, "batches", columns=["interval_id", "events"], interval_id=list(watched))
    known = {row["interval_id"]: row["late"] for row in control.rows(root, _TABLE, interval_id=list(watched))}
    late = []
    for batch in sorted(batches, key=lambda row: str(row["interval_id"])):
        interval_id, events = batch["interval_id"], batch["events"]
        more = 0 if events is None else found.get(interval_id, 0) - events
        if more:
            late.append(Late(interval_id, events, more))
        if more == known.get(interval_id, 0):
            continue
        if not more:
            forget_late(root, interval_id)
            continue
        row = {"interval_id": interval_id, "events": events, "late": more}
        seen = {"seen_by": seen_by.id, "seen_at": datetime.now(UTC)}
        control.replace(root, _TABLE, [{**row, **seen}], interval_id=interval_id)
    return late


def advice(late: Sequence[Late], pipeline: str) -> str:
    """What late events are there, and what to do."""
    return (
        f"events of {len(late)} processed interval{'s' * (len(late) != 1)} have changed: {'; '.join(map(str, late))}. "
        f"To process them: rebalance rewind {pipeline} --to {late[0].interval_id}, then rebalance run {pipeline}"
    )
