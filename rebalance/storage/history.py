"""What happened, interval by interval, from the control tables alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rebalance.storage import control
from rebalance.storage.epochs import carried_out, newest_processed_ids, processed_ids


@dataclass(frozen=True)
class IntervalRecord:
    """One interval as a person wants to see it; loads are per channel, in channel order."""

    interval_id: str
    rows: int
    #: Loads as the ring alone would have them, as the function would that was active when they were counted, as they were in the end.
    hash_loads: list[float]
    loads_before: list[float]
    loads: list[float]
    #: Seconds Spark measured for each channel's tasks, and seconds the whole of process_batch took.
    task_seconds: list[float]
    seconds: float
    planner: str
    decision: str
    reason: str
    #: max/mean load the plan predicted; None if nothing was planned.
    predicted: float | None
    routes: int
    moved_keys: int
    moved_bytes: float
    moved_share: float
    #: Whether the interval's plan was carried out.
    applied: bool

    @property
    def without(self) -> float:
        """max/mean load under the ring alone."""
        return max_over_mean(self.hash_loads)

    @property
    def before(self) -> float:
        """max/mean load under the function that was active before."""
        return max_over_mean(self.loads_before)

    @property
    def reached(self) -> float:
        """max/mean load under the function it was processed with."""
        return max_over_mean(self.loads)


def max_over_mean(values: list[float]) -> float:
    """1 is perfectly even.

    >>> max_over_mean([2.0, 4.0])
    1.3333333333333333
    """
    total = sum(values)
    return max(values) * len(values) / total if total else 1.0


def read_history(root: str, last: int | None = None) -> list[IntervalRecord]:
    """The processed intervals, oldest first; the newest `last` ones if given."""
    done = newest_processed_ids(root, last) if last else processed_ids(root)
    batches = {row["interval_id"]: row for row in control.rows(root, "batches", interval_id=done)} if done else {}
    # Maintenance removes the oldest.
    chosen = sorted(batches)
    if not chosen:
        return []
    stats: dict[str, list[dict[str, Any]]] = {}
    for row in sorted(control.rows(root, "channel_stats", interval_id=chosen), key=lambda row: int(row["channel"])):
        stats.setdefault(row["interval_id"], []).append(row)
    plans = _plans(root, chosen)
    applied = {epoch.plan_id for epoch in carried_out(root, [plan["plan_id"] for plan in plans.values()])}
    return [_record(batches[i], stats.get(i, []), plans.get(i, {}), applied) for i in chosen]


def _plans(root: str, intervals: list[str]) -> dict[str, dict[str, Any]]:
    """The newest plan of each interval."""
    found = sorted(control.rows(root, "plans", interval_id=intervals), key=lambda row: int(row["base_function"]))
    return {row["interval_id"]: row for row in found}


def _record(
    batch: dict[str, Any], stats: list[dict[str, Any]], plan: dict[str, Any], applied: set[str]
) -> IntervalRecord:
    before = [float(row["cost"]) for row in stats]
    return IntervalRecord(
        interval_id=batch["interval_id"],
        rows=batch["rows"],
        hash_loads=[float(row["hash_cost"]) for row in stats],
        loads_before=before,
        # Counted after it was processed, an interval was counted under the function it was processed with.
        loads=batch["loads"] or before,
        task_seconds=batch["task_seconds"],
        seconds=batch["seconds"],
        planner=plan.get("planner", ""),
        decision=plan.get("decision", ""),
        reason=plan.get("reason", ""),
        predicted=plan.get("skewness_after"),
        routes=plan.get("routes", 0),
        moved_keys=plan.get("moved_keys", 0),
        moved_bytes=plan.get("moved_bytes", 0.0),
        moved_share=plan.get("moved_share", 0.0),
        applied=plan.get("plan_id") in applied,
    )
