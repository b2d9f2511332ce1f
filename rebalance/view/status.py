"""`rebalance status`: where a pipeline stands, and what its last intervals did."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.table import Table

from rebalance.documents.plain import Document
from rebalance.documents.words import bytes_in_words, fixed
from rebalance.planning.error import give_or_take
from rebalance.storage.late import Late, advice
from rebalance.storage.quarantine import in_words
from rebalance.view.words import new_table

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


def print_status(found: Document, console: Console) -> None:
    """Show the document."""
    epoch, function, card = found["epoch"], found["function"], found["card"]
    console.print(
        f"[bold]{found['name']}[/]: epoch {epoch['epoch']} ({epoch['kind']}) of interval {epoch['interval'] or 'none'}, "
        f"function v{function['version']} with {function['channels']} channels, {function['routes']:,} routes, {function['splits']:,} splits; "
        f"planner {card['planner']}, θ_max {card['theta_max']:g}, mode {card['mode']}"
    )
    for skip in found["skips"][-_SKIPS:]:
        console.print(
            f"left out on purpose: the intervals from {skip['from']} to before {skip['before']} (epoch {skip['epoch']})"
        )
    if len(found["skips"]) > _SKIPS:
        console.print(
            f"left out before that: {len(found['skips']) - _SKIPS} times; the table epochs has them all (skipped_from)"
        )
    console.print(_intervals(found["intervals"]))
    for interval_id, reasons in found["quarantined"].items():
        console.print(f"{interval_id}: {in_words(reasons)}; table {found['tables']}/quarantine", markup=False)
    if found["late"]:
        late = [Late(**one) for one in found["late"]]
        console.print(f"WARNING: {advice(late, found['name'])}", markup=False)


def _intervals(columns: Mapping[str, list[object]]) -> Table:
    """One line per interval: loads, seconds, what the plan did and why."""
    table = new_table(
        *_COLUMNS,
        title="max/mean is the load of the fullest channel over the mean: 1.00 is perfectly even",
        numbers=slice(1, -1),
    )
    table.columns[0].no_wrap = True
    table.columns[-1].min_width = 24
    for values in zip(*columns.values(), strict=True):
        table.add_row(*_cells(dict(zip(columns, values, strict=True))))
    return table


def _cells(row: Document) -> tuple[str, ...]:
    seconds = "" if row["slowest"] is None else f"{row['slowest']:.2f}/{row['mean']:.2f}"
    return (
        row["id"],
        f"{row['rows']:,}",
        *(fixed(row[name]) for name in ("hash", "before")),
        fixed(row["planned"]) + give_or_take(row["error"]),
        fixed(row["reached"]),
        seconds,
        f"{row['routes']:,}",
        f"{row['moved_keys']:,}",
        bytes_in_words(row["moved_bytes"]),
        f"{row['decision']}: {row['reason']}" if row["decision"] else "not planned",
    )
