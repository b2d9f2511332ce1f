"""Tables as processed intervals leave them, written by hand: nothing is run."""

from __future__ import annotations

from typing import Any

from rebalance.pipeline.file import Pipeline
from rebalance.pipeline.intervals import Interval
from rebalance.storage import control
from rebalance.storage.epochs import current_epoch, publish
from rebalance.storage.schemas import SCHEMAS


def processed(pipeline: Pipeline, number: int, loads: list[float], events: int | None = None, **plan: Any) -> Interval:
    """Tables as an interval leaves them, by hand; with its plan, and that it was carried out."""
    interval, root = pipeline.interval_at(pipeline.interval.first).shifted(number), pipeline.tables
    if plan:
        row = {name: plan.get(name) for name in SCHEMAS["plans"].names}
        control.append(root, "plans", [row | {"plan_id": interval.id, "interval_id": interval.id, "base_function": 0}])
    if plan.get("decision") == "apply":
        base = current_epoch(root)
        publish(root, base, kind="migrate", function_version=0, state_version=0, plan_id=interval.id)
    stats = {"keys": 1, "tuples": 1, "held_bytes": 0, "hash_cost": 1.0, "cost": 1.0}
    rows = [{"interval_id": interval.id, "channel": channel, **stats} for channel in range(4)]
    control.append(
        root, "channel_stats", [{name: row.get(name) for name in SCHEMAS["channel_stats"].names} for row in rows]
    )
    batch = {
        "interval_id": interval.id,
        "rows": 5,
        "seconds": 1.0,
        "task_seconds": [],
        "loads": loads,
        "events": events,
    }
    control.append(root, "batches", [{name: batch.get(name) for name in SCHEMAS["batches"].names}])
    publish(root, current_epoch(root), kind="process", interval_id=interval.id, function_version=0, state_version=0)
    return interval
