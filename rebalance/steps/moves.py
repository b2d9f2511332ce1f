"""Which keys with state change their channel between two functions, where statistics do not name every key."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from rebalance.partition import PartitionFunction, slots_of
from rebalance.pipeline.file import Pipeline
from rebalance.storage.epochs import Epoch
from rebalance.storage.schemas import arrow_key
from rebalance.storage.statistics import channels_of, read_key_stats


def moves_between(
    pipeline: Pipeline, interval_id: str, epoch: Epoch, active: PartitionFunction, planned: PartitionFunction
) -> pa.Table:
    """Keys with the channels they leave and go to, and the bytes they hold; some may hold none.

    On the same ring only keys with an entry of their own can move. If the ring changes, the state itself says which do.
    """
    same_ring = np.array_equal(active.slots, planned.slots)
    stats = _with_entries(pipeline, interval_id, active, planned) if same_ring else _in_state(pipeline, epoch, planned)
    before, after = channels_of(active, stats), channels_of(planned, stats)
    moved = np.flatnonzero(before != after)
    return pa.table(
        {
            "key": stats["key"].take(moved),
            "from_channel": before[moved],
            "to_channel": after[moved],
            "held_bytes": stats["held_bytes"].to_numpy()[moved],
        }
    )


def _with_entries(
    pipeline: Pipeline, interval_id: str, active: PartitionFunction, planned: PartitionFunction
) -> pa.Table:
    """The keys that have a route or are split, with what they held, and got, when the interval was counted."""
    keys = sorted({key for function in (active, planned) for key in (*function.routes, *function.splits)})
    known = read_key_stats(pipeline.tables, interval_id, ("key", "held_bytes", "state_bytes")).to_pydict()
    sizes = map(sum, zip(known["held_bytes"], known["state_bytes"], strict=True))
    held = dict(zip(known["key"], sizes, strict=True))
    return pa.table(
        {
            "key": pa.array(keys, arrow_key(active.key_type)),
            "slot": slots_of(keys, active.key_type),
            "held_bytes": np.array([held.get(key, 0) for key in keys], dtype=np.int64),
        }
    )


def _in_state(pipeline: Pipeline, epoch: Epoch, planned: PartitionFunction) -> pa.Table:
    """The keys whose rows lie on another channel than planned."""
    from pyspark.sql import functions as F

    from rebalance.spark.counting import state_by_key
    from rebalance.spark.routing import one_channel_of
    from rebalance.spark.session import spark_session
    from rebalance.storage.state import read_state

    state = read_state(spark_session(pipeline), pipeline.tables, epoch.state_version)
    return state_by_key(state.where(one_channel_of(planned, F.col("key")) != F.col("channel")), "").toArrow()
