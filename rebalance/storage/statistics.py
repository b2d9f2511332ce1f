"""Statistics from the Delta table to the arrays a planner works on, without Spark."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rebalance.partition import PartitionFunction, consistent_ring, slots_of
from rebalance.pipeline.file import Pipeline
from rebalance.planning.interface import ring_to_build_on
from rebalance.planning.measure import relative_utilisation
from rebalance.planning.model import Floats, KeyStats, Limits, Mask, Request
from rebalance.storage import control

_COLUMNS = ("key", "slot", "channel", "tuples", "cost", "window_bytes")


def read_key_stats(root: str, interval_id: str, columns: tuple[str, ...] = _COLUMNS) -> pa.Table:
    """An interval's key statistics in ascending key order."""
    found = control.read(root, "key_stats", columns=columns, interval_id=interval_id)
    return found.sort_by("key")


def make_request(pipeline: Pipeline, function: PartitionFunction, interval_id: str, *, mergeable: bool) -> Request:
    """What a planner is asked: the interval's statistics, the active function and the pipeline's limits."""
    table = _with_quiet_routes(read_key_stats(pipeline.tables, interval_id), function)
    stats = KeyStats(
        keys=table["key"].to_numpy(),
        slots=table["slot"].to_numpy().astype(np.int32),
        tuples=table["tuples"].to_numpy().astype(np.float64),
        cost=table["cost"].to_numpy().astype(np.float64),
        # Where state stays, a change of channel moves none of it.
        state=table["window_bytes"].to_numpy().astype(np.float64) * (pipeline.planning.consistency == "move"),
    )
    channels = pipeline.channels
    excluded = np.isin(np.arange(channels.count), channels.excluded)
    plain = consistent_ring(channels.count, replicas=channels.replicas, excluded=channels.excluded)
    return Request(
        stats=stats,
        current=table["channel"].to_numpy().astype(np.int32),
        ring=ring_to_build_on(pipeline.make_planner(), function, plain, channels.count, channels.excluded),
        capacity=np.asarray(pipeline.capacities()),
        limits=Limits(
            theta_max=pipeline.planning.theta_max,
            max_routes=pipeline.planning.max_routes,
            max_bytes=pipeline.planning.max_bytes,
        ),
        pinned=_pinned(pipeline, table) if pipeline.planning.pinned else None,
        excluded=excluded if excluded.any() else None,
        mergeable=mergeable,
        nodes=pipeline.make_nodes(),
        utilisation=measured_utilisation(pipeline.tables, interval_id, ~excluded),
    )


def measured_utilisation(root: str, interval_id: str, used: Mask) -> Floats | None:
    """How busy each channel was by the seconds its task ran; None if nothing was measured, or channels other than these."""
    batches = control.rows(root, "batches", columns=["task_seconds"], interval_id=interval_id)
    seconds = np.asarray(batches[-1]["task_seconds"] if batches else [], dtype=np.float64)
    return relative_utilisation(seconds, used) if len(seconds) == len(used) else None


def _pinned(pipeline: Pipeline, table: pa.Table) -> Mask:
    kind = table["key"].type
    wanted = [
        str(k) if pa.types.is_string(kind) or pa.types.is_large_string(kind) else int(k)
        for k in pipeline.planning.pinned
    ]
    mask: Mask = pc.is_in(table["key"], value_set=pa.array(wanted, type=kind)).to_numpy()
    return mask


def _with_quiet_routes(table: pa.Table, function: PartitionFunction) -> pa.Table:
    """Add the routed keys that neither had traffic nor hold state: they still fill the table, and a planner may retire them."""
    quiet = sorted(set(function.routes) - set(table["key"].to_pylist())) if function.routes else []
    if not quiet:
        return table
    zeros = [0] * len(quiet)
    extra = pa.table(
        {
            "key": quiet,
            "slot": slots_of(quiet, function.key_type),
            "channel": [function.routes[key] for key in quiet],
            "tuples": zeros,
            "cost": [0.0] * len(quiet),
            "window_bytes": zeros,
        }
    )
    return pa.concat_tables(
        [table.select(_COLUMNS), extra.select(_COLUMNS).cast(table.select(_COLUMNS).schema)]
    ).sort_by("key")
