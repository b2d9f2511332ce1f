"""What did not go well in some intervals: checks that failed, rows in quarantine, events that came late, intervals left out."""

from __future__ import annotations

from collections.abc import Sequence

from rebalance.documents.plain import Document, document
from rebalance.pipeline.file import Pipeline
from rebalance.storage import control
from rebalance.storage.epochs import skips
from rebalance.storage.late import late_up_to
from rebalance.storage.quarantine import quarantined

_CHECK = ("interval_id", "expectation", "column", "severity", "success", "bad_rows", "detail")


@document
def trouble_document(pipeline: Pipeline, intervals: Sequence[str]) -> Document:
    """The trouble of these intervals, oldest first."""
    root, asked = pipeline.tables, set(intervals)
    checks = control.rows(root, "quality_runs", columns=_CHECK, interval_id=list(intervals)) if asked else []
    failed = [check for check in checks if not check["success"]]
    skipped = {epoch.interval_id: epoch.skipped_from for epoch in skips(root)} if asked else {}
    return {
        "checks": [
            {"interval": check["interval_id"], **{name: check[name] for name in _CHECK[1:] if name != "success"}}
            for check in sorted(failed, key=lambda row: tuple(str(row[name]) for name in _CHECK[:3]))
        ],
        "quarantined": [
            {"interval": interval, "reason": reason, "rows": rows}
            for interval, reasons in quarantined(root, list(intervals)).items()
            for reason, rows in reasons.items()
        ],
        "late": [
            {"interval": one.interval_id, "late": one.late, "events": one.events}
            for one in (late_up_to(root, max(asked)) if asked else [])
            if one.interval_id in asked
        ],
        "skipped": [{"from": skipped[interval], "to": interval} for interval in sorted(asked & skipped.keys())],
    }
