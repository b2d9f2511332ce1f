"""What the tables hold, the newest epochs, and the channels of the newest interval."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from rebalance.documents.plain import Document, document
from rebalance.pipeline.file import Pipeline
from rebalance.storage import control
from rebalance.storage.epochs import Epoch, newest_epochs
from rebalance.storage.history import IntervalRecord, read_history
from rebalance.storage.schemas import SCHEMAS

#: How many epochs are shown.
_EPOCHS = 8


@document
def tables_document(pipeline: Pipeline) -> Document:
    """The tables of a pipeline, null for one that was not written yet; its newest epochs, and the loads of its newest interval."""
    root, newest = pipeline.tables, read_history(pipeline.tables, last=1)
    return {
        "name": pipeline.name,
        "root": root,
        "tables": {name: _table(root, name) if control.exists(root, name) else None for name in SCHEMAS},
        "epochs": [epoch_of(epoch) for epoch in newest_epochs(root, _EPOCHS)],
        "newest": _loads(newest[-1]) if newest else None,
    }


def _table(root: str, table: str) -> Document:
    """A Delta table's newest version: its files, their bytes, and the operation that made it."""
    delta = control.open_table(root, table)
    sizes = pa.RecordBatchReader.from_stream(delta.get_add_actions(flatten=True)).read_all()["size_bytes"]
    return {
        "version": delta.version(),
        "files": len(sizes),
        "bytes": pc.sum(sizes).as_py() or 0,
        "operation": str(delta.history(1)[0].get("operation", "")),
    }


def epoch_of(epoch: Epoch) -> Document:
    """An epoch; what is not said of its kind is null."""
    return {
        "epoch": epoch.epoch,
        "kind": epoch.kind,
        "interval": epoch.interval_id or None,
        "function_version": epoch.function_version,
        "state_version": epoch.state_version,
        "plan_id": epoch.plan_id or None,
        "rewound_to": epoch.rewound_to if epoch.kind == "rewind" else None,
        "published_at": epoch.published_at,
    }


def _loads(record: IntervalRecord) -> Document:
    return {
        "interval": record.interval_id,
        "reached": record.reached if record.loads else None,
        "hash": record.without if record.hash_loads else None,
        "loads": record.loads,
        "hash_loads": record.hash_loads,
        "task_seconds": record.task_seconds,
    }
