"""Statistics from the Delta table to the arrays a planner works on, without Spark."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rebalance.partition import Key, KeyType, PartitionFunction, Share, consistent_ring, slots_of
from rebalance.pipeline.file import Pipeline
from rebalance.planning.interface import ring_to_build_on
from rebalance.planning.measure import channel_loads
from rebalance.planning.model import Floats, Ints, KeyStats, Limits, Mask, Request
from rebalance.storage import control
from rebalance.storage.epochs import current_epoch
from rebalance.storage.rest import NOTHING, bundled, read_rest, rest_by_channel
from rebalance.storage.schemas import SCHEMAS, arrow_key

_COLUMNS = ("key", "slot", "tuples", "cost", "held_bytes")


def read_key_stats(root: str, interval_id: str, columns: tuple[str, ...] = _COLUMNS) -> pa.Table:
    """An interval's key statistics in ascending key order."""
    found = control.read(root, "key_stats", columns=columns, interval_id=interval_id)
    return found.sort_by("key")


def channels_of(function: PartitionFunction, stats: pa.Table) -> Ints:
    """F(k) of every key of some statistics, by their slots; for a split key its first channel."""
    found: Ints = function.slots[stats["slot"].to_numpy()].astype(np.int32)
    fixed = {**function.routes, **{key: shares[0].channel for key, shares in function.splits.items()}}
    if fixed:
        known = pa.array(fixed, arrow_key(function.key_type))
        at = pc.index_in(stats["key"], value_set=known).to_numpy(zero_copy_only=False)
        has = ~np.isnan(at)
        found[has] = np.asarray(list(fixed.values()), dtype=np.int32)[at[has].astype(np.int64)]
    return found


def split_keys(function: PartitionFunction, stats: pa.Table) -> dict[int, tuple[Share, ...]]:
    """The shares of the keys that the function splits, by their index."""
    if not function.splits:
        return {}
    at = pc.index_in(pa.array(function.splits, stats["key"].type), value_set=stats["key"].combine_chunks()).to_pylist()
    return {i: shares for i, shares in zip(at, function.splits.values(), strict=True) if i is not None}


def loads_under(
    function: PartitionFunction, stats: pa.Table, what: str = "cost", *, rest: pa.Table | None = None
) -> Floats:
    """The load of each channel if the function places the keys; a split key counts its share on each of its channels."""
    weight = stats[what].to_numpy().astype(np.float64)
    loads = channel_loads(weight, channels_of(function, stats), function.channels, split_keys(function, stats))
    return loads if rest is None else loads + rest_by_channel(function, rest, what)


def channel_stats(stats: pa.Table, function: PartitionFunction, interval_id: str, rest: pa.Table = NOTHING) -> pa.Table:
    """The rows of `channel_stats`: what the function puts on each channel, and what the ring alone would."""
    channel, channels = channels_of(function, stats), function.channels
    others = {name: rest_by_channel(function, rest, name) for name in ("keys", "cost", "held_bytes")}
    keys = np.bincount(channel, minlength=channels) + others["keys"].astype(np.int64)
    for shares in split_keys(function, stats).values():
        for share in shares[1:]:
            keys[share.channel] += 1
    return pa.table(
        {
            "interval_id": pa.repeat(interval_id, channels),
            "channel": np.arange(channels, dtype=np.int32),
            "keys": keys,
            "tuples": loads_under(function, stats, "tuples", rest=rest),
            "cost": loads_under(function, stats, rest=rest),
            "hash_cost": channel_loads(stats["cost"].to_numpy(), stats["hash_channel"].to_numpy(), channels)
            + others["cost"],
            "held_bytes": (
                np.bincount(channel, stats["held_bytes"].to_numpy(), channels) + others["held_bytes"]
            ).astype(np.int64),
        },
        schema=SCHEMAS["channel_stats"],
    )


def make_request(pipeline: Pipeline, function: PartitionFunction, interval_id: str, *, mergeable: bool) -> Request:
    """What a planner is asked: the interval's statistics, the active function and the pipeline's limits."""
    table = _with_quiet_routes(read_key_stats(pipeline.tables, interval_id), function)
    channels = pipeline.channels
    excluded = np.isin(np.arange(channels.count), channels.excluded)
    plain = consistent_ring(channels.count, replicas=channels.replicas, excluded=channels.excluded)
    ring = ring_to_build_on(pipeline.make_planner(), function, plain, channels.count, channels.excluded)
    rest = bundled(read_rest(pipeline.tables, interval_id), function, ring)
    state = table["held_bytes"].to_numpy().astype(np.float64)
    return Request(
        stats=KeyStats(
            keys=_with_nameless(table["key"], len(rest)),
            slots=_joined(table["slot"].to_numpy().astype(np.int32), rest.slots),
            tuples=_joined(table["tuples"].to_numpy().astype(np.float64), rest.tuples),
            cost=_joined(table["cost"].to_numpy().astype(np.float64), rest.cost),
            # Where state stays, a change of channel moves none of it.
            state=_joined(state, rest.state) * (pipeline.planning.consistency == "move"),
        ),
        current=_joined(channels_of(function, table), rest.current),
        ring=ring,
        capacity=np.asarray(pipeline.capacities()),
        limits=Limits(
            theta_max=pipeline.planning.theta_max,
            max_routes=pipeline.planning.max_routes,
            max_bytes=pipeline.planning.max_bytes,
        ),
        pinned=_joined(_pinned(pipeline, table), np.zeros(len(rest), dtype=np.bool_))
        if pipeline.planning.pinned
        else None,
        excluded=excluded if excluded.any() else None,
        mergeable=mergeable,
        nodes=pipeline.make_nodes(),
        utilisation=measured_utilisation(pipeline.tables, ~excluded, pipeline.interval.length),
        rest=len(rest),
        unnamed=rest.keys,
        unnamed_cost=_unnamed_cost(pipeline.tables, interval_id),
    )


def _unnamed_cost(root: str, interval_id: str) -> float | None:
    """The most that a key costs that the interval's statistics do not name, if they say so."""
    found = control.rows(root, "interval_stats", columns=["unnamed_cost"], interval_id=interval_id)
    return found[-1]["unnamed_cost"] if found else None


def _with_nameless(keys: pa.ChunkedArray, rest: int) -> NDArray[Any]:
    """The keys, and behind them, in ascending order still, something in the place of those that have no name here."""
    whole = pa.types.is_integer(keys.type)
    last: Any = np.iinfo(np.int64).max if whole else "\U0010ffff"
    return _joined(keys.to_numpy(), np.full(rest, last, dtype=np.int64 if whole else object))


def _joined(keys: NDArray[Any], rest: NDArray[Any]) -> NDArray[Any]:
    return np.append(keys, rest) if len(rest) else keys


def measured_utilisation(root: str, used: Mask, length: timedelta) -> Floats | None:
    """U(d) in the newest interval: the seconds that the tasks of d ran over the interval's length, which is the time there is for them.

    None if nothing was measured, or other channels.
    """
    epoch = current_epoch(root)
    newest = epoch.interval_id if epoch else ""
    batches = control.rows(root, "batches", columns=["task_seconds"], interval_id=newest)
    seconds = np.asarray(batches[-1]["task_seconds"] if batches else [], dtype=np.float64)
    known = len(seconds) == len(used) and bool(seconds[used].any())
    return seconds / length.total_seconds() if known else None


def _pinned(pipeline: Pipeline, table: pa.Table) -> Mask:
    kind = table["key"].type
    wanted = typed_keys(pipeline.planning.pinned, "long" if pa.types.is_integer(kind) else "string")
    mask: Mask = pc.is_in(table["key"], value_set=pa.array(wanted, type=kind)).to_numpy()
    return mask


def typed_keys(keys: Iterable[Key], key_type: KeyType) -> list[Key]:
    """Keys as a person has written them, in the type of the pipeline's keys."""
    return [int(key) if key_type == "long" else str(key) for key in keys]


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
            "tuples": zeros,
            "cost": [0.0] * len(quiet),
            "held_bytes": zeros,
        }
    )
    return pa.concat_tables(
        [table.select(_COLUMNS), extra.select(_COLUMNS).cast(table.select(_COLUMNS).schema)]
    ).sort_by("key")
