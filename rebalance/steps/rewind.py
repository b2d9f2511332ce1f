"""What a person does to the past of a pipeline: rewind it to an interval, take that back, or adopt a changed file for its state.

Nothing is lost by a rewind: an epoch is published that names an earlier function and an earlier version of the state, and the next step
goes on from there. Results of undone intervals stay until the intervals run again. The undone epochs are all still there, so a rewind
can itself be undone as long as no maintenance has removed their files.
"""

from __future__ import annotations

from rebalance.errors import OrderError, RebalanceError
from rebalance.pipeline.file import Pipeline
from rebalance.pipeline.intervals import Interval
from rebalance.steps.faults import checkpoint
from rebalance.storage.epochs import Epoch, all_epochs, current_epoch, in_force, publish
from rebalance.storage.files import missing_files
from rebalance.storage.lock import writer_lock
from rebalance.storage.meaning import meaning_of


def rewind(pipeline: Pipeline, interval: Interval) -> str:
    """Make the epoch before an interval the active one again; returns what that means in a sentence."""
    with writer_lock(pipeline.tables):
        line = in_force(pipeline.tables)
        undone = [epoch.interval_id for epoch in line if epoch.kind == "process" and epoch.interval_id >= interval.id]
        if interval.id not in undone:
            newest = line[-1].interval_id if line else ""
            raise OrderError(
                f"interval {interval.id} was not processed, so there is nothing to rewind: "
                f"{f'the newest interval is {newest}' if newest else 'none was processed yet'}. Nothing was changed."
            )
        target = [epoch for epoch in line if epoch.interval_id < interval.id and not _is_its_plan(epoch, interval)][-1]
        published = _go_to(pipeline, line[-1], target)
    return (
        f"rewound to epoch {target.epoch}, before interval {interval.id}: function v{target.function_version} and the state of then are "
        f"active (epoch {published.epoch}). {len(undone)} intervals, {undone[0]} to {undone[-1]}, are to be run again; their results stay "
        f"until then. To take this back: rebalance rewind {pipeline.name} --undo"
    )


def undo(pipeline: Pipeline) -> str:
    """Take the newest rewind back, as long as nothing was done on top of it."""
    with writer_lock(pipeline.tables):
        active = current_epoch(pipeline.tables)
        if active is None or active.kind != "rewind":
            raise OrderError(
                f"the active epoch is {f'{active.epoch} ({active.kind})' if active else 'none'}, no rewind: there is nothing to take back. "
                "Once an interval has run on a rewound state, run the later ones too, or rewind to an earlier one."
            )
        (before,) = [epoch for epoch in all_epochs(pipeline.tables) if epoch.epoch == active.epoch - 1]
        published = _go_to(pipeline, active, before)
    return f"the rewind of epoch {active.epoch} is taken back: epoch {before.epoch} counts again (as epoch {published.epoch})"


def adopt(pipeline: Pipeline) -> str:
    """Record that the state means what the pipeline file says now."""
    with writer_lock(pipeline.tables):
        active = current_epoch(pipeline.tables)
        if active is None:
            raise OrderError("no interval was processed yet: there is no state that could mean anything else.")
        meaning = meaning_of(pipeline)
        if active.meaning == meaning:
            return "the state means what the pipeline file says already; nothing changed"
        published = publish(
            pipeline.tables,
            active,
            kind="adopt",
            interval_id=active.interval_id,
            function_version=active.function_version,
            state_version=active.state_version,
            meaning=meaning,
        )
    return f"from epoch {published.epoch} on the state means {meaning}; before it was {active.meaning}"


def _is_its_plan(epoch: Epoch, interval: Interval) -> bool:
    """Whether the epoch carried out the plan that was made for the interval: it is made anew."""
    return epoch.kind == "migrate" and epoch.plan_id.startswith(interval.id)


def _go_to(pipeline: Pipeline, active: Epoch, target: Epoch) -> Epoch:
    gone = missing_files(pipeline.tables, "state", target.state_version) if target.state_version >= 0 else []
    if gone:
        raise RebalanceError(
            f"{len(gone)} files of the state at epoch {target.epoch} (version {target.state_version}) are gone, for example {gone[0]}: "
            "somebody has vacuumed the table. Nothing was changed. Choose a later interval, or start with an empty table root."
        )
    published = publish(
        pipeline.tables,
        active,
        kind="rewind",
        interval_id=target.interval_id,
        function_version=target.function_version,
        state_version=target.state_version,
        rewound_to=target.epoch,
        meaning=target.meaning,
    )
    checkpoint("rewind: epoch published")
    return published
