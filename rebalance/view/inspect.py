"""`rebalance inspect`: what the tables hold, the newest epochs, and the loads of the newest interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.table import Table

from rebalance.pipeline.file import Pipeline
from rebalance.storage import control
from rebalance.storage.epochs import Epoch, newest_epochs
from rebalance.storage.history import IntervalRecord, read_history
from rebalance.storage.schemas import SCHEMAS
from rebalance.view.words import bytes_in_words, new_table

#: How many epochs are shown.
_EPOCHS = 8


@dataclass(frozen=True)
class DeltaInfo:
    """A Delta table's newest version: its files, their bytes, and the operation that made it."""

    version: int
    files: int
    size: int
    operation: str


@dataclass(frozen=True)
class Inspection:
    """The tables of a pipeline, None for one that was not written yet; its newest epochs and its newest interval."""

    root: str
    tables: dict[str, DeltaInfo | None]
    epochs: Sequence[Epoch]
    newest: IntervalRecord | None


def inspect(pipeline: Pipeline) -> Inspection:
    """Look at everything a pipeline has left behind."""
    root = pipeline.tables
    tables = {name: _info(root, name) if control.exists(root, name) else None for name in SCHEMAS}
    newest = read_history(root, last=1)
    return Inspection(root, tables, newest_epochs(root, _EPOCHS), newest[-1] if newest else None)


def _info(root: str, table: str) -> DeltaInfo:
    delta = control.open_table(root, table)
    sizes = pa.RecordBatchReader.from_stream(delta.get_add_actions(flatten=True)).read_all()["size_bytes"]
    operation = str(delta.history(1)[0].get("operation", ""))
    return DeltaInfo(delta.version(), len(sizes), pc.sum(sizes).as_py() or 0, operation)


def print_inspection(found: Inspection, console: Console) -> None:
    """Show it."""
    console.print(_tables(found))
    console.print(_epochs(found.epochs))
    if found.newest is not None and found.newest.loads:
        console.print(_loads(found.newest))
        console.print(f"max/mean {found.newest.reached:.3f}; by the hash alone it would be {found.newest.without:.3f}")


def _tables(found: Inspection) -> Table:
    table = new_table("table", "version", "files", "size", "last operation", title=f"Delta tables under {found.root}")
    for name, info in found.tables.items():
        if info is None:
            table.add_row(name, "-", "", "", "not written yet")
        else:
            table.add_row(name, str(info.version), str(info.files), bytes_in_words(info.size), info.operation)
    return table


def _epochs(epochs: Sequence[Epoch]) -> Table:
    table = new_table(
        "epoch",
        "kind",
        "interval",
        "function",
        "state version",
        "published",
        title="The newest epochs; the last one is active",
    )
    for epoch in epochs:
        table.add_row(
            str(epoch.epoch),
            epoch.kind,
            epoch.interval_id,
            f"v{epoch.function_version}",
            str(epoch.state_version),
            f"{epoch.published_at:%Y-%m-%d %H:%M:%S}",
        )
    return table


def _loads(newest: IntervalRecord) -> Table:
    table = new_table(
        "channel", "load", "of the mean", "hash alone", "task seconds", title=f"Loads of interval {newest.interval_id}"
    )
    mean = sum(newest.loads) / len(newest.loads) or 1.0
    for channel, load in enumerate(newest.loads):
        by_hash = newest.hash_loads[channel] / mean if channel < len(newest.hash_loads) else 0.0
        table.add_row(
            str(channel),
            f"{load:,.0f}",
            f"{load / mean:.2f} {'█' * round(20 * load / mean)}",
            f"{by_hash:.2f}",
            f"{newest.task_seconds[channel]:.2f}",
        )
    return table
