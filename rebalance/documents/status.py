"""Where a pipeline stands: its active epoch and function, its last intervals, and what was put aside, left out or came late."""

from __future__ import annotations

from rebalance.documents.over_time import pipeline_over_time
from rebalance.documents.plain import Document, document
from rebalance.documents.tables import epoch_of
from rebalance.pipeline.file import Pipeline
from rebalance.storage.history import read_past
from rebalance.storage.late import late_up_to
from rebalance.storage.quarantine import quarantined
from rebalance.storage.reader import open_tables


@document
def status_document(pipeline: Pipeline, last: int = 8) -> Document:
    """The pipeline over its last intervals, at its active epoch."""
    root, opened = pipeline.tables, open_tables(pipeline.tables)
    function, past = opened.function, read_past(root)
    found = pipeline_over_time(pipeline, last)
    return {
        "name": pipeline.name,
        "tables": root,
        "epoch": epoch_of(opened.epoch),
        "function": {
            "version": function.version,
            "channels": function.channels,
            "routes": len(function.routes),
            "splits": len(function.splits),
        },
        **found,
        "skips": [
            {"from": first, "before": interval, "epoch": past.epochs[interval]}
            for interval, first in sorted(past.skipped.items())
        ],
        "quarantined": quarantined(root, found["intervals"]["id"]),
        "late": [vars(late) for late in late_up_to(root, opened.epoch.interval_id)],
    }
