"""What a person does to the past of a pipeline: rewind it to an interval, take that back, or adopt a changed file for its state.

Nothing is lost by a rewind: an epoch is published that names an earlier function and an earlier version of the state, and the next step
goes on from there. Results of undone intervals stay until the intervals run again. The undone epochs are all still there, so a rewind
can itself be undone as long as no maintenance has removed their files.
"""

from __future__ import annotations

from deltalake.exceptions import DeltaError

from rebalance.errors import OrderError, RebalanceError
from rebalance.pipeline.file import Pipeline
from rebalance.pipeline.intervals import Interval
from rebalance.steps.faults import checkpoint
from rebalance.steps.trouble import trouble_in_words
from rebalance.storage import control
from rebalance.storage.epochs import Epoch, all_epochs, before_interval, current_epoch, in_force, newest_act, publish
from rebalance.storage.files import missing_files
from rebalance.storage.lock import writer_lock
from rebalance.storage.meaning import meaning_of


def rewind(pipeline: Pipeline, interval: Interval) -> str:
    """Make the epoch before an interval the active one again; returns what that means in a sentence."""
    with trouble_in_words(pipeline.tables), writer_lock(pipeline.tables):
        line = in_force(pipeline.tables)
        undone = [epoch.interval_id for epoch in line if epoch.kind == "process" and epoch.interval_id >= interval.id]
        if not undone:
            newest = line[-1].interval_id if line else ""
            raise OrderError(
                f"neither interval {interval.id} nor a later one was processed, so there is nothing to rewind: "
                f"{f'the newest interval is {newest}' if newest else 'none was processed yet'}. Nothing was changed."
            )
        target = before_interval(line, interval.id)[-1]
        _check_statistics(pipeline, line, interval)
        published = _go_to(pipeline, line[-1], target)
    again = (
        f"{len(undone)} intervals, {undone[0]} to {undone[-1]}, are" if len(undone) > 1 else f"interval {undone[0]} is"
    )
    return (
        f"rewound to epoch {target.epoch}, before interval {interval.id}: function v{target.function_version} and the state of then are "
        f"active (epoch {published.epoch}). {again} to be run again; results stay until then. "
        f"To take this back: rebalance rewind {pipeline.name} --undo"
    )


def undo(pipeline: Pipeline) -> str:
    """Take the newest rewind back, as long as nothing was done on top of it."""
    with trouble_in_words(pipeline.tables), writer_lock(pipeline.tables):
        epochs = all_epochs(pipeline.tables)
        active = newest_act(epochs) if epochs else None
        if active is None or active.kind != "rewind":
            raise OrderError(
                f"the active epoch is {f'{active.epoch} ({active.kind})' if active else 'none'}, no rewind: there is nothing to take back. "
                "Once an interval has run on a rewound state, run the later ones too, or rewind to an earlier one."
            )
        (before,) = [epoch for epoch in epochs if epoch.epoch == active.epoch - 1]
        published = _go_to(pipeline, epochs[-1], before)
    return f"the rewind of epoch {active.epoch} is taken back: epoch {before.epoch} counts again (as epoch {published.epoch})"


def adopt(pipeline: Pipeline) -> str:
    """Record that the state means what the pipeline file says now."""
    with trouble_in_words(pipeline.tables), writer_lock(pipeline.tables):
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


def _check_statistics(pipeline: Pipeline, line: list[Epoch], interval: Interval) -> None:
    """Refuse an interval that would be counted on statistics that maintenance has removed: what keys hold is a sum over the window."""
    first = interval.shifted(-(pipeline.operator.horizon or 1) - 1).id
    needed = {
        epoch.interval_id for epoch in line if epoch.kind == "process" and first <= epoch.interval_id < interval.id
    }
    there = {row["interval_id"] for row in control.rows(pipeline.tables, "batches", columns=["interval_id"])}
    if there and needed - there:
        raise _no_longer_served(
            pipeline, f"the statistics of interval {min(needed - there)}, which it builds on, are gone"
        )


def _no_longer_served(pipeline: Pipeline, why: str) -> RebalanceError:
    kept = pipeline.retained("epochs")
    return RebalanceError(
        f"{why}: maintenance keeps what the newest {kept} {'interval needs' if kept == 1 else 'intervals need'} ([retention] epochs), or somebody else has vacuumed the table. "
        "Nothing was changed. Choose a later interval, or start with an empty table root."
    )


def _check_there(pipeline: Pipeline, target: Epoch) -> None:
    """Refuse an epoch whose function or state can no longer be read."""
    where = f"epoch {target.epoch} (version {target.state_version})"
    try:
        gone = missing_files(pipeline.tables, "state", target.state_version) if target.state_version >= 0 else []
    except DeltaError:
        raise _no_longer_served(pipeline, f"the log of the state at {where} is gone") from None
    if gone:
        raise _no_longer_served(pipeline, f"{len(gone)} files of the state at {where} are gone, for example {gone[0]}")
    number = target.function_version
    if control.exists(pipeline.tables, "functions") and not control.rows(
        pipeline.tables, "functions", columns=["version"], version=number
    ):
        raise _no_longer_served(pipeline, f"function v{number} of epoch {target.epoch} is gone")


def _go_to(pipeline: Pipeline, active: Epoch, target: Epoch) -> Epoch:
    _check_there(pipeline, target)
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
