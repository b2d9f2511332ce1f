"""What happened, interval by interval, from the control tables alone; whatever the number of intervals, each table is read once.

Arrow imports pandas for much of what it does with Python's and numpy's objects, which takes longer than all of this. What is used here
does without.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rebalance.storage import control
from rebalance.storage.epochs import that_count

_BATCH = ("interval_id", "function_version", "rows", "seconds", "task_seconds", "loads")
_STATS = ("interval_id", "channel", "hash_cost", "cost")
_PLAN = (
    "plan_id",
    "interval_id",
    "base_function",
    "planner",
    "decision",
    "reason",
    "skewness_after",
    "error",
    "routes",
    "moved_keys",
    "moved_bytes",
    "moved_share",
    "loads_after",
)


@dataclass(frozen=True)
class Past:
    """What counts of a pipeline's past: rewinds have undone the rest."""

    #: The processed intervals, oldest first.
    intervals: Sequence[str]
    #: The epochs that their processing published.
    epochs: Mapping[str, int]
    #: The plans that were carried out, with the epochs of their migrations.
    carried_out: Mapping[str, int]
    #: By interval: the first of those that were left out on purpose just before it.
    skipped: Mapping[str, str]


@dataclass(frozen=True)
class IntervalRecord:
    """One interval as a person wants to see it; loads are per channel, in channel order."""

    interval_id: str
    rows: int
    #: Loads as the ring alone would have them, as the function would that was active when they were counted, as they were in the end.
    hash_loads: list[float]
    loads_before: list[float]
    loads: list[float]
    #: Seconds Spark measured for each channel's tasks, empty if it did not; and seconds the whole of process_batch took.
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
    #: The function it was processed with.
    function_version: int | None = None
    #: The first of the intervals that were left out on purpose just before it.
    skipped_from: str | None = None
    #: By how much a key without a name can change what was predicted; None where that is not known.
    error: float | None = None

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

    def above_fair(self, capacities: Sequence[float]) -> float:
        """How far the fullest channel is above its fair load, as a share of it."""
        total = sum(self.loads)
        if not total or len(capacities) != len(self.loads):
            return 0.0
        whole = sum(capacities)
        return max(load * whole / (part * total) for load, part in zip(self.loads, capacities, strict=True)) - 1


def max_over_mean(values: Sequence[float]) -> float:
    """1 is perfectly even.

    >>> max_over_mean([2.0, 4.0])
    1.3333333333333333
    """
    total = sum(values)
    return max(values) * len(values) / total if total else 1.0


def read_past(root: str, last: int | None = None) -> Past:
    """What counts of the past, or of its newest `last` intervals, from a few columns of the epochs, of which there may be years."""
    counts = that_count(root)
    columns = ["epoch", "interval_id", "skipped_from"]
    newest = ("epoch", last + 1) if last else None
    done = _sorted(
        control.read(root, "epochs", columns=columns, also=counts, newest=newest, kind="process"), "epoch"
    ).to_pydict()
    since = -1
    if last and len(done["epoch"]) > last:
        # A plan for an interval is carried out after the interval before it was processed.
        since = done["epoch"][0]
        done = {name: values[1:] for name, values in done.items()}
    # In plain lists: for comparisons with a text of Python's, Arrow would import pandas.
    also = " AND ".join(filter(None, [f"epoch > {since}", counts]))
    moved = control.read(root, "epochs", columns=["epoch", "plan_id"], also=also, kind="migrate").to_pydict()
    return Past(
        intervals=sorted(done["interval_id"]),
        epochs=dict(zip(done["interval_id"], done["epoch"], strict=True)),
        carried_out=dict(zip(moved["plan_id"], moved["epoch"], strict=True)),
        skipped={
            interval: first for interval, first in zip(done["interval_id"], done["skipped_from"], strict=True) if first
        },
    )


def read_history(root: str, last: int | None = None) -> list[IntervalRecord]:
    """The processed intervals, oldest first; the newest `last` ones if given."""
    past = read_past(root, last)
    return records(root, past, past.intervals)


def records(root: str, past: Past, chosen: Sequence[str]) -> list[IntervalRecord]:
    """Some processed intervals, in the order of time; those whose measurements maintenance has removed are left out."""
    if not chosen:
        return []
    between, wanted = (chosen[0], chosen[-1]), set(chosen)
    batches = _sorted(control.read(root, "batches", columns=_BATCH, between=between), "interval_id")
    stats = _channels(control.read(root, "channel_stats", columns=_STATS, between=between))
    plans = {row["interval_id"]: row for row in _plans(control.read(root, "plans", columns=_PLAN, between=between))}
    lists = {name: lists_of(batches[name]) for name in ("task_seconds", "loads")}
    rows = batches.drop_columns(list(lists)).to_pylist()
    return [
        _record(
            row, task_seconds, loads, stats.get(row["interval_id"], ([], [])), plans.get(row["interval_id"], {}), past
        )
        for row, task_seconds, loads in zip(rows, lists["task_seconds"], lists["loads"], strict=True)
        if row["interval_id"] in wanted
    ]


def _channels(stats: pa.Table) -> dict[str, tuple[list[float], list[float]]]:
    """Of each interval, the loads of its channels by the ring alone, and under the function that was active."""
    stats = _sorted(stats, "interval_id", "channel")
    runs = pc.run_end_encode(stats["interval_id"].combine_chunks())
    ends = np.from_dlpack(runs.run_ends)
    both = (_split(stats[name].combine_chunks(), ends) for name in ("hash_cost", "cost"))
    return dict(zip(runs.values.to_pylist(), zip(*both, strict=True), strict=True))


def _plans(plans: pa.Table) -> list[dict[str, Any]]:
    """The plans in the order in which they were made for an interval, with what they predict."""
    plans = _sorted(plans, "base_function")
    rows: list[dict[str, Any]] = plans.drop_columns(["loads_after"]).to_pylist()
    for row, loads in zip(rows, lists_of(plans["loads_after"]), strict=True):
        row["predicted"] = max_over_mean(loads) if loads else row["skewness_after"]
    return rows


def _sorted(table: pa.Table, *columns: str) -> pa.Table:
    return table.take(pc.sort_indices(table, sort_keys=[(column, "ascending") for column in columns]))


def lists_of(column: pa.ChunkedArray) -> list[list[float]]:
    """A column of lists as Python has them; null is empty. By numpy: Arrow would make an object of every single number first."""
    whole = column.combine_chunks()
    return _split(whole.flatten(), np.cumsum([size or 0 for size in pc.list_value_length(whole).to_pylist()]))


def _split(values: pa.Array, ends: NDArray[Any]) -> list[list[float]]:
    """Consecutive parts of an array of numbers, by where they end."""
    parts = np.split(np.from_dlpack(values), ends)[:-1] if len(ends) else []
    return [part.tolist() for part in parts]


def _record(
    batch: dict[str, Any],
    task_seconds: list[float],
    loads: list[float],
    stats: tuple[list[float], list[float]],
    plan: dict[str, Any],
    past: Past,
) -> IntervalRecord:
    hashed, before = stats
    return IntervalRecord(
        interval_id=batch["interval_id"],
        rows=batch["rows"],
        hash_loads=hashed,
        loads_before=before,
        # Counted after it was processed, an interval was counted under the function it was processed with.
        loads=loads or before,
        task_seconds=task_seconds,
        seconds=batch["seconds"],
        planner=plan.get("planner", ""),
        decision=plan.get("decision", ""),
        reason=plan.get("reason", ""),
        predicted=plan.get("predicted"),
        routes=plan.get("routes", 0),
        moved_keys=plan.get("moved_keys", 0),
        moved_bytes=plan.get("moved_bytes", 0.0),
        moved_share=plan.get("moved_share", 0.0),
        applied=plan.get("plan_id") in past.carried_out,
        function_version=batch["function_version"],
        skipped_from=past.skipped.get(batch["interval_id"]),
        error=plan.get("error"),
    )
