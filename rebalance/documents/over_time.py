"""A pipeline's processed intervals side by side, as columns: made for charts and long tables."""

from __future__ import annotations

from rebalance.documents.overview import card, measured
from rebalance.documents.plain import Document, document
from rebalance.pipeline.file import Pipeline
from rebalance.pipeline.intervals import parse_start
from rebalance.storage import control
from rebalance.storage.epochs import that_count
from rebalance.storage.history import IntervalRecord, read_history
from rebalance.storage.late import late_up_to

_COLUMNS = (
    *(
        "id",
        "start",
        "rows",
        "hash",
        "before",
        "planned",
        "error",
        "reached",
        "slowest",
        "mean",
        "seconds",
        "moved_bytes",
        "moved_keys",
    ),
    *("routes", "planner", "decision", "reason", "applied", "skipped_from", "late"),
)


@document
def pipeline_over_time(pipeline: Pipeline, last: int = 1000) -> Document:
    """The newest `last` intervals, oldest first, in lists of equal length; `total` is how many were processed in all."""
    root, found = pipeline.tables, read_history(pipeline.tables, last)
    late = {one.interval_id: one.late for one in late_up_to(root, found[-1].interval_id)} if found else {}
    rows = [{**_row(record), "late": late.get(record.interval_id, 0)} for record in found]
    return {
        "card": card(pipeline),
        "limit": 1 + pipeline.planning.theta_max,
        "total": control.count(root, "epochs", also=that_count(root), kind="process"),
        "intervals": {column: [row[column] for row in rows] for column in _COLUMNS},
    }


def _row(record: IntervalRecord) -> Document:
    figures = measured(record)
    return {
        **figures,
        "id": record.interval_id,
        "start": int(parse_start(record.interval_id).timestamp()),
        "rows": record.rows,
        "before": record.before if record.loads_before else None,
        "planned": figures["predicted"],
        "routes": record.routes,
        "planner": record.planner or None,
        "decision": record.decision or None,
        "reason": record.reason or None,
        "applied": record.applied,
        "skipped_from": record.skipped_from,
    }
