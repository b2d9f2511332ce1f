"""`rebalance status`: where a pipeline stands, and what its last intervals did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from rebalance.pipeline.file import Pipeline
from rebalance.storage.epochs import Epoch, skips
from rebalance.storage.history import IntervalRecord, read_history
from rebalance.storage.late import Late, advice, late_up_to
from rebalance.storage.quarantine import in_words, quarantined
from rebalance.storage.reader import Opened, open_tables
from rebalance.view.words import bytes_in_words, new_table

#: How many times that intervals were left out are shown.
_SKIPS = 5
_COLUMNS = (
    "interval",
    "rows",
    "hash\nalone",
    "before\nthe plan",
    "plan\npredicts",
    "reached",
    "slowest/mean\ntask seconds",
    "routes",
    "keys\nmoved",
    "bytes\nmoved",
    "decision and reason",
)


@dataclass(frozen=True)
class Status:
    """A pipeline at its active epoch, and its last intervals, oldest first."""

    pipeline: Pipeline
    opened: Opened
    intervals: Sequence[IntervalRecord]
    #: The epochs before whose intervals others were left out on purpose, oldest first.
    skips: Sequence[Epoch]
    #: Of these intervals: how many rows are in quarantine, by reason.
    quarantined: Mapping[str, dict[str, int]]
    #: Of all intervals: those whose events are not as many as when they were processed.
    late: Sequence[Late]


def status(pipeline: Pipeline, last: int) -> Status:
    """Where the pipeline stands, with its `last` intervals."""
    root = pipeline.tables
    opened, history = open_tables(root), read_history(root, last)
    bad = quarantined(root, [record.interval_id for record in history])
    return Status(pipeline, opened, history, skips(root), bad, late_up_to(root, opened.epoch.interval_id))


def print_status(found: Status, console: Console) -> None:
    """Show it."""
    epoch, function, planning = found.opened.epoch, found.opened.function, found.pipeline.planning
    console.print(
        f"[bold]{found.pipeline.name}[/]: epoch {epoch.epoch} ({epoch.kind}) of interval {epoch.interval_id}, "
        f"function v{function.version} with {function.channels} channels, {len(function.routes):,} routes, {len(function.splits):,} splits; "
        f"planner {planning.planner}, θ_max {planning.theta_max:g}, mode {planning.mode}"
    )
    for epoch in found.skips[-_SKIPS:]:
        console.print(
            f"left out on purpose: the intervals from {epoch.skipped_from} to before {epoch.interval_id} (epoch {epoch.epoch})"
        )
    if len(found.skips) > _SKIPS:
        console.print(
            f"left out before that: {len(found.skips) - _SKIPS} times; the table epochs has them all (skipped_from)"
        )
    console.print(history_table(found.intervals))
    for interval_id, reasons in found.quarantined.items():
        console.print(f"{interval_id}: {in_words(reasons)}; table {found.pipeline.tables}/quarantine", markup=False)
    if found.late:
        console.print(f"WARNING: {advice(found.late, found.pipeline.name)}", markup=False)


def history_table(records: Sequence[IntervalRecord]) -> Table:
    """One line per interval: loads, seconds, what the plan did and why."""
    table = new_table(
        *_COLUMNS, title="max/mean is the load of the fullest channel over the mean: 1.00 is perfectly even"
    )
    for column in table.columns[1:-1]:
        column.justify = "right"
    table.columns[0].no_wrap = True
    table.columns[-1].min_width = 24
    for record in records:
        table.add_row(*_cells(record))
    return table


def _cells(record: IntervalRecord) -> tuple[str, ...]:
    seconds, applied = record.task_seconds, record.applied
    return (
        record.interval_id,
        f"{record.rows:,}",
        f"{record.without:.2f}" if record.hash_loads else "",
        f"{record.before:.2f}" if record.loads_before else "",
        f"{record.predicted:.2f}" if record.predicted is not None else "",
        f"{record.reached:.2f}" if record.loads else "",
        f"{max(seconds):.2f}/{sum(seconds) / len(seconds):.2f}",
        f"{record.routes:,}",
        f"{record.moved_keys:,}" if applied else "0",
        bytes_in_words(record.moved_bytes) if applied else "0 B",
        f"{record.decision}: {record.reason}" if record.decision else "not planned",
    )
