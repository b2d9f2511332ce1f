"""What a step builds on: the active epoch, or the first one, which a pipeline's first step publishes; and what it may not build on."""

from __future__ import annotations

from rebalance.errors import ConfigError, OrderError
from rebalance.partition import KeyType, PartitionFunction, consistent_ring
from rebalance.pipeline.file import Pipeline
from rebalance.pipeline.intervals import Interval
from rebalance.planning.interface import first_function
from rebalance.storage import control
from rebalance.storage.epochs import Epoch, current_epoch, publish, store_function
from rebalance.storage.meaning import check_meaning, meaning_of


def active_epoch(pipeline: Pipeline, interval: Interval, key_type: KeyType) -> Epoch:
    """The epoch to build on; the first interval of a pipeline starts it with a ring alone. The caller holds the writer lock."""
    epoch = current_epoch(pipeline.tables)
    if epoch is None:
        channels = pipeline.channels
        ring = consistent_ring(channels.count, replicas=channels.replicas, excluded=channels.excluded)
        plain = PartitionFunction(version=0, channels=channels.count, slots=ring, key_type=key_type)
        first = first_function(pipeline.make_planner(), plain, channels.excluded)
        stored = store_function(pipeline.tables, first, interval.id)
        return publish(
            pipeline.tables,
            None,
            kind="start",
            function_version=stored.version,
            state_version=-1,
            meaning=meaning_of(pipeline),
        )
    if epoch.interval_id > interval.id:
        raise comes_before(pipeline, interval, epoch)
    check_meaning(pipeline, epoch)
    return epoch


def comes_before(pipeline: Pipeline, interval: Interval, epoch: Epoch) -> OrderError:
    """What to say of an interval that later ones build on."""
    return OrderError(
        f"interval {interval.id} comes before {epoch.interval_id}, which is processed already: state is built in the order of time. "
        f"Nothing was changed. To process it again, `rebalance rewind {pipeline.name} --to {interval.id}`, then run it and all later ones."
    )


def done_already(pipeline: Pipeline, interval: Interval, done: Epoch) -> str:
    """Nothing to do if the interval is the newest: its task was killed after it had published. Later intervals build on an older one."""
    newest = current_epoch(pipeline.tables)
    if newest and newest.interval_id > interval.id:
        raise comes_before(pipeline, interval, newest)
    return (
        f"interval {interval.id} was processed already (epoch {done.epoch}); nothing changed. "
        f"To process it again: rebalance rewind {pipeline.name} --to {interval.id}"
    )


def check_consistency(pipeline: Pipeline, epoch: Epoch) -> None:
    """State that was left where it was made is not where a function says: only merging finds all of it."""
    batches = control.rows(
        pipeline.tables, "batches", columns=["interval_id", "consistency"], interval_id=epoch.interval_id
    )
    last = batches[-1] if batches else None
    if last and last["consistency"] == "merge" != pipeline.planning.consistency:
        raise ConfigError(
            f"planning.consistency was 'merge' up to interval {last['interval_id']}, so keys may have state on several channels, "
            f"which '{pipeline.planning.consistency}' would not find. Keep 'merge', or start with an empty table root."
        )
