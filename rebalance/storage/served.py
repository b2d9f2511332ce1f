"""Which epochs a rewind may still go to: what they need is never removed."""

from __future__ import annotations

from rebalance.pipeline.file import Pipeline
from rebalance.pipeline.intervals import Interval, parse_start
from rebalance.storage import control
from rebalance.storage.epochs import Epoch, all_epochs, before_interval, line_to, newest_act


def served_epochs(pipeline: Pipeline) -> list[Epoch]:
    """The epochs that a rewind within `[retention] epochs`, or taking the newest rewind back, can make count again; oldest first."""
    epochs = all_epochs(pipeline.tables)
    if not epochs:
        return []
    keep = pipeline.retained("epochs")
    found = _newest(line_to(epochs, epochs[-1]), keep)
    act = newest_act(epochs)
    if act.kind == "rewind":
        undone = [epoch for epoch in epochs if epoch.epoch < act.epoch]
        found += _newest(line_to(undone, undone[-1]), keep)
    return sorted(set(found), key=lambda epoch: epoch.epoch)


def _newest(line: list[Epoch], keep: int | None) -> list[Epoch]:
    """What is left of a line of epochs if the newest `keep` intervals may be run again."""
    done = sorted({epoch.interval_id for epoch in line if epoch.kind == "process"})
    if keep is None or len(done) <= keep:
        return line
    return line[len(before_interval(line, done[-keep])) - 1 :]


def newest_interval(pipeline: Pipeline) -> Interval | None:
    """The newest interval that was ever processed; None before the first."""
    newest = control.largest(pipeline.tables, "epochs", "interval_id")
    return pipeline.interval_at(parse_start(newest)) if newest else None


def oldest_interval(pipeline: Pipeline) -> str:
    """Id of the newest interval that the oldest served epoch has seen; empty if it is the very first one."""
    return min((epoch.interval_id for epoch in served_epochs(pipeline)), default="")
