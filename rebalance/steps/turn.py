"""Whose turn it is: an interval is taken once it is closed, and right after the newest processed one.

Closed is an interval whose end and grace have passed; until then it may get events. A person can insist (`Insist`) on taking it all the
same, and on leaving out the intervals in between; process_batch says so, and its epoch records what was left out.

The clock only decides when a step may begin. One that jumps back delays the next step and changes nothing that was done.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from rebalance.errors import NotClosedError, OrderError, SkippedError
from rebalance.pipeline.file import Pipeline
from rebalance.pipeline.intervals import Interval, parse_start
from rebalance.steps import Insist
from rebalance.storage.epochs import Epoch, current_epoch, skipped_by
from rebalance.storage.lock import writer_lock

#: How many missing intervals a message names.
_NAMED = 6


def now() -> datetime:
    """The time; tests put another in its place."""
    return datetime.now(UTC)


@contextmanager
def its_turn(pipeline: Pipeline, interval: Interval, insist: Insist) -> Iterator[None]:
    """Hold the writer lock while it is the interval's turn; whose it is may have changed while the lock was waited for."""
    with writer_lock(pipeline.tables):
        require_closed(pipeline, interval, insist)
        require_order(pipeline, interval, insist)
        yield


def time_left(pipeline: Pipeline, interval: Interval) -> timedelta:
    """How long an interval is still open; nothing if it is closed."""
    return max(interval.end + pipeline.interval.grace - now(), timedelta(0))


def require_closed(pipeline: Pipeline, interval: Interval, insist: Insist) -> None:
    """Refuse an interval that may still get events."""
    left = time_left(pipeline, interval)
    if not left or insist.now:
        return
    grace = pipeline.interval.grace
    raise NotClosedError(
        f"interval {interval.id} is not closed: it ends at {interval.end:%Y-%m-%d %H:%M} UTC, and events may be written for {grace} after "
        f"that (interval.grace). It is {now():%Y-%m-%d %H:%M:%S} UTC, so {_seconds(left)} are missing. Nothing was changed. Run it then. To take "
        "it now, without the events that are still to come: --now, or `now` in the form of a run in Airflow."
    )


def require_order(pipeline: Pipeline, interval: Interval, insist: Insist) -> None:
    """Refuse an interval that does not follow the newest processed one, and one that was left out on purpose."""
    epoch = current_epoch(pipeline.tables)
    missing = missing_before(pipeline, interval, epoch)
    if missing and not insist.skip:
        raise OrderError(_gap(pipeline, interval, epoch, missing))
    over = skipped_by(pipeline.tables, interval.id) if epoch and interval.id < epoch.interval_id else None
    if over:
        raise SkippedError(
            f"interval {interval.id} was left out on purpose, with all from {over.skipped_from} to before {over.interval_id} (epoch "
            f"{over.epoch}). Nothing was changed. To process it after all, `rebalance rewind {pipeline.name} --to {interval.id}`, then run it "
            "and all later ones."
        )


def missing_before(pipeline: Pipeline, interval: Interval, epoch: Epoch | None) -> int:
    """How many intervals lie between the newest one that an epoch has processed, or the beginning, and this one."""
    length = pipeline.interval.length
    newest = parse_start(epoch.interval_id) if epoch and epoch.interval_id else pipeline.interval.first - length
    return max((interval.start - newest) // length - 1, 0)


def insisted_on(pipeline: Pipeline, interval: Interval, missing: int) -> str:
    """What was insisted on for an interval, as the rest of a sentence; nothing if nothing was."""
    said = ""
    if missing:
        said += f"; left out on purpose: {_listed(interval, missing)}"
    if time_left(pipeline, interval):
        said += "; it was not closed yet, and events that come later are in no result until a rewind"
    return said


def _gap(pipeline: Pipeline, interval: Interval, epoch: Epoch | None, missing: int) -> str:
    begun = bool(epoch and epoch.interval_id)
    after = f"{epoch.interval_id}, the newest that is processed" if epoch and begun else "the beginning, interval.first"
    another = "" if begun else f"or set interval.first = {interval.start:%Y-%m-%dT%H:%M:%SZ}; "
    return (
        f"interval {interval.id} does not follow {after}: missing before it {'is' if missing == 1 else 'are'} {_listed(interval, missing)}. "
        f"Nothing was changed. Run {'it' if missing == 1 else 'them'} first, in order; {another}or leave {'it' if missing == 1 else 'them'} "
        "out for good, which is recorded: --skip, or `skip` in the form of a run in Airflow."
    )


def _listed(interval: Interval, missing: int) -> str:
    """The intervals before one, by name; of many only the first and the last ones."""
    ids = [interval.shifted(-back).id for back in range(min(missing, _NAMED), 0, -1)]
    if missing > _NAMED:
        ids = [*(interval.shifted(n - missing).id for n in range(_NAMED // 2)), "…", *ids[-(_NAMED // 2) :]]
        return f"{missing:,} intervals, {', '.join(ids)}"
    return ", ".join(ids)


def _seconds(left: timedelta) -> str:
    return str(timedelta(seconds=-(-left // timedelta(seconds=1))))
