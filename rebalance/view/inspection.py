"""Answers for a person: what would be planned now, what the tables hold, where a key goes and why. Starts no Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from rich import box
from rich.console import Console
from rich.table import Table

from rebalance.errors import RebalanceError
from rebalance.partition import Key, PartitionFunction, slots_of
from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.pipeline.intervals import parse_start
from rebalance.planners.registry import PLANNERS
from rebalance.steps.make_plan import plan_for
from rebalance.storage import control
from rebalance.storage.epochs import Epoch, all_epochs
from rebalance.storage.history import max_over_mean, read_history
from rebalance.storage.reader import open_tables
from rebalance.storage.schemas import SCHEMAS
from rebalance.view.show import bytes_in_words


def dry_run(pipeline: Pipeline, planner: str | None, theta_max: float | None, console: Console) -> None:
    """Show the plan for the newest statistics and write nothing."""
    opened = open_tables(pipeline.tables)
    history = read_history(pipeline.tables, last=1)
    if not history:
        raise RebalanceError("no interval has statistics yet. Run one first.")
    changes: dict[str, Any] = {}
    if planner is not None:
        changes |= {
            "planner": planner,
            "parameters": {} if planner != pipeline.planning.planner else pipeline.planning.parameters,
        }
    if theta_max is not None:
        changes["theta_max"] = theta_max
    asked = load_pipeline(pipeline.file, {"planning": changes})
    interval = pipeline.interval_at(parse_start(history[-1].interval_id))
    request, plan = plan_for(asked, interval, opened.epoch)
    console.print(f"[bold]{plan.decision}[/] by {plan.planner}: {plan.reason}")
    console.print(
        f"on the statistics of {interval.id} ({len(request.stats):,} keys) under function v{opened.function.version}; planned in {plan.seconds:.2f} s; "
        f"{plan.after.routes:,} routes; {len(plan.moved):,} keys, {bytes_in_words(plan.moved_bytes)} ({plan.moved_share:.1%} of the state) would move"
    )
    if plan.gap is not None and len(plan.moved):
        console.print(
            f"certified: no plan that balances as well moves less than {bytes_in_words(plan.bound)}; this one is {plan.gap:.1%} above"
        )
    for note in plan.notes:
        console.print(f"note: {note}")
    table = _table("channel", "load now", "load planned", "fair load")
    after = plan.after.loads
    for channel, load in enumerate(plan.before.loads):
        planned = f"{after[channel]:,.0f}" if channel < len(after) else ""
        table.add_row(str(channel), f"{load:,.0f}", planned, f"{plan.before.fair[channel]:,.0f}")
    console.print(table)
    console.print(
        f"Nothing was written. Other planners: {', '.join(name for name in PLANNERS if name != plan.planner) or 'none'}."
    )


def inspect(pipeline: Pipeline, console: Console) -> None:
    """Tables, epochs and loads."""
    root = pipeline.tables
    tables = _table("table", "version", "files", "size", "last operation", title=f"Delta tables under {root}")
    for name in SCHEMAS:
        if not control.exists(root, name):
            tables.add_row(name, "-", "", "", "not written yet")
            continue
        delta = DeltaTable(control.table_path(root, name))
        sizes = pa.RecordBatchReader.from_stream(delta.get_add_actions(flatten=True)).read_all()["size_bytes"]
        last = delta.history(1)[0]
        tables.add_row(
            name,
            str(delta.version()),
            str(len(sizes)),
            bytes_in_words(pc.sum(sizes).as_py() or 0),
            str(last.get("operation", "")),
        )
    console.print(tables)
    _print_epochs(all_epochs(root), console)
    records = read_history(root, last=1)
    if not records:
        return
    newest = records[-1]
    loads = _table(
        "channel", "load", "of the mean", "hash alone", "task seconds", title=f"Loads of interval {newest.interval_id}"
    )
    mean = sum(newest.loads) / len(newest.loads) or 1.0
    for channel, load in enumerate(newest.loads):
        bar = "█" * round(20 * load / mean)
        loads.add_row(
            str(channel),
            f"{load:,.0f}",
            f"{load / mean:.2f} {bar}",
            f"{newest.hash_loads[channel] / mean:.2f}",
            f"{newest.task_seconds[channel]:.2f}",
        )
    console.print(loads)
    console.print(f"max/mean {max_over_mean(newest.loads):.3f}; by the hash alone it would be {newest.without:.3f}")


def explain(pipeline: Pipeline, text: str, console: Console) -> None:
    """Where a key goes, why, and since when."""
    root, opened = pipeline.tables, open_tables(pipeline.tables)
    function = opened.function
    key = _as_key(text, function)
    slot = int(slots_of([key], function.key_type)[0])
    home, channel = int(function.slots[slot]), int(function.channel_of([key])[0])
    if key in function.splits:
        parts = ", ".join(f"{share.channel} ({share.share:.0%})" for share in function.splits[key])
        console.print(f"[bold]{key!r}[/] is split over the channels {parts}; its merged state lives on {channel}.")
    elif key in function.routes:
        console.print(
            f"[bold]{key!r}[/] goes to channel [bold]{channel}[/] by a route of its own; the ring alone would send it to {home} (slot {slot})."
        )
    else:
        console.print(
            f"[bold]{key!r}[/] goes to channel [bold]{channel}[/] by the ring (slot {slot}); it has no route of its own."
        )
    _print_moves(root, str(key), channel, console)
    _print_latest(root, key, console)


def _as_key(text: str, function: PartitionFunction) -> Key:
    if function.key_type == "string":
        return text
    try:
        return int(text)
    except ValueError:
        raise RebalanceError(f"{text!r} is not a key of this pipeline: its keys are integers.") from None


def _print_moves(root: str, key: str, channel: int, console: Console) -> None:
    """Every move of the key that was carried out, with the plan's reason."""
    carried_out = {epoch.plan_id: epoch for epoch in all_epochs(root) if epoch.kind == "migrate"}
    moves = [move for move in control.rows(root, "plan_moves", key=key) if move["plan_id"] in carried_out]
    if not moves:
        console.print(f"It has been on channel {channel} since the pipeline started: no plan has moved it.")
        return
    plans = {plan["plan_id"]: plan for plan in control.rows(root, "plans", plan_id=[move["plan_id"] for move in moves])}
    table = _table("since the end of", "from", "to", "its load then", "its state then", "why")
    for move in sorted(moves, key=lambda move: carried_out[move["plan_id"]].epoch):
        plan = plans[move["plan_id"]]
        table.add_row(
            move["interval_id"],
            str(move["from_channel"]),
            str(move["to_channel"]),
            f"{move['cost']:,.0f}",
            bytes_in_words(move["state_bytes"]),
            f"{plan['planner']}: {plan['reason']}",
        )
    console.print(table)


def _print_latest(root: str, key: Key, console: Console) -> None:
    records = read_history(root, last=1)
    if not records:
        return
    newest = records[-1]
    found = control.rows(root, "key_stats", interval_id=newest.interval_id, key=key)
    if not found:
        console.print(f"In interval {newest.interval_id} it had no events and held no state.")
        return
    (stats,) = found
    load = newest.loads[stats["channel"]]
    share = stats["cost"] / load if load else 0.0
    console.print(
        f"In interval {newest.interval_id}: {stats['tuples']:,} events, load {stats['cost']:,.0f} ({share:.1%} of its channel's), "
        f"{bytes_in_words(stats['window_bytes'])} of state."
    )


def _print_epochs(epochs: Sequence[Epoch], console: Console) -> None:
    table = _table(
        "epoch",
        "kind",
        "interval",
        "function",
        "state version",
        "published",
        title="The newest epochs; the last one is active",
    )
    for epoch in epochs[-8:]:
        table.add_row(
            str(epoch.epoch),
            epoch.kind,
            epoch.interval_id,
            f"v{epoch.function_version}",
            str(epoch.state_version),
            f"{epoch.published_at:%Y-%m-%d %H:%M:%S}",
        )
    console.print(table)


def _table(*columns: str, title: str | None = None) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table
