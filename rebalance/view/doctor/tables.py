"""Where a pipeline's tables are: whether they can be reached and written, what they say, who writes to them now."""

from __future__ import annotations

import getpass
import os
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import ObjectStore

from rebalance.pipeline.file import Pipeline
from rebalance.steps.trouble import trouble_in_words
from rebalance.storage.epochs import current_epoch
from rebalance.storage.lock import held_by
from rebalance.stores.access import object_store, refusal
from rebalance.stores.lease import is_silent, record_of
from rebalance.stores.places import is_remote
from rebalance.view.doctor.findings import Finding

#: Bytes left on a disk below which a person should know, and below which a small interval fails.
_LITTLE, _TOO_LITTLE = 5e9, 2e8
#: However short the intervals are, a step may take so long.
_LONG = timedelta(hours=1)
_ASK_STORE = "Ask whoever runs the store: without it, two writers could lose commits. S3, Azure and Google honour it."


def tables(pipeline: Pipeline) -> Sequence[Finding]:
    """The root, what its tables say, and the lock; what cannot be asked because of what came before is skipped."""
    root = pipeline.tables
    found = [*(_store(root) if is_remote(root) else _folder(root))]
    if any(finding.state == "fail" for finding in found):
        return [
            *found,
            Finding("epoch", "skipped", "the table root first"),
            Finding("lock", "skipped", "the table root first"),
        ]
    lock = _lease(root) if is_remote(root) else _lock(root, pipeline.interval.length)
    return [*found, _epoch(root), lock]


def _folder(root: str) -> Sequence[Finding]:
    """A folder of this machine, and its disk."""
    path = Path(root)
    there = next(folder for folder in (path, *path.parents) if folder.exists())
    if not there.is_dir():
        return [Finding("table root", "fail", f"{there} is a file", "Set `tables` to a folder.")]
    if not os.access(there, os.R_OK | os.W_OK | os.X_OK):
        return [
            Finding(
                "table root",
                "fail",
                f"{there} cannot be written by {getpass.getuser()}",
                "Give the pipeline's user the right to, or set `tables` to another folder.",
            )
        ]
    seen = f"{root} can be written" if there == path else f"{root} is not there yet; the first step makes it in {there}"
    return [Finding("table root", "ok", seen), _disk(there)]


def _disk(folder: Path) -> Finding:
    free = shutil.disk_usage(folder).free
    seen = f"{free / 1e9:,.1f} GB free"
    mend = "Free some space, or run `rebalance maintain`, which removes what nobody needs."
    return (
        Finding("disk", "ok", seen)
        if free >= _LITTLE
        else Finding("disk", "warn" if free >= _TOO_LITTLE else "fail", seen, mend)
    )


def _store(root: str) -> Sequence[Finding]:
    """An object store: that it lets us in and honours conditional puts, tried on a small object that is removed again."""
    store, name = object_store(root, hurried=True), f"_locks/doctor-{uuid4().hex}"
    try:
        store.put(name, b"1", mode="create")
    except (BaseError, OSError) as error:
        said, _, mend = str(refusal(root, error)).partition(". ")
        return [Finding("table root", "fail", said, mend)]
    wrong = [
        what for what, mode in (("create", "create"), ("swap", {"e_tag": '"0"'})) if not _refused(store, name, mode)
    ]
    found = [Finding("table root", "ok", f"{root} is reached and can be written")]
    try:
        store.delete(name)
    except (BaseError, OSError):
        mend = f"Allow it, `rebalance maintain` needs it, and remove {root}/{name}."
        found.append(Finding("table root", "warn", "nothing can be removed there", mend))
    if wrong:
        seen = f"not honoured: {', '.join(wrong)}"
        return [*found, Finding("conditional put", "fail", seen, _ASK_STORE)]
    return [*found, Finding("conditional put", "ok", "honoured, to create and to swap")]


def _refused(store: ObjectStore, name: str, mode: Any) -> bool:
    """Whether a put is refused whose condition does not hold."""
    try:
        store.put(name, b"2", mode=mode)
    except (AlreadyExistsError, PreconditionError):
        return True
    except (BaseError, OSError, NotImplementedError):
        # It does not know what is asked.
        return False
    return False


def _epoch(root: str) -> Finding:
    with trouble_in_words(root):
        epoch = current_epoch(root)
    if epoch is None:
        return Finding("epoch", "ok", "no interval was processed yet; `rebalance run` does the first")
    newest = f"of interval {epoch.interval_id}, " if epoch.interval_id else ""
    return Finding("epoch", "ok", f"epoch {epoch.epoch} {newest}published {epoch.published_at:%Y-%m-%d %H:%M}Z")


def _lock(root: str, length: timedelta) -> Finding:
    """The lock of the operating system: it dies with its process, so a file that is left over means nothing."""
    held = held_by(root)
    if held is None:
        return Finding("lock", "ok", "nobody writes now")
    who, since = held
    age = datetime.now(UTC) - since
    seen = f"held by {who} since {since:%Y-%m-%d %H:%M:%S}Z ({_minutes(age)})"
    if age > max(length, _LONG):
        return Finding(
            "lock", "warn", seen, "If it hangs, end that process: the lock goes with it, and the step can be run again."
        )
    return Finding("lock", "ok", seen)


def _lease(root: str) -> Finding:
    """The lease: one small object, put anew every few seconds by whoever has it."""
    try:
        found = record_of(root, hurried=True)
    except (BaseError, OSError) as error:
        raise refusal(root, error) from None
    if found is None or not found[0].held:
        return Finding("lock", "ok", "nobody writes now")
    record, put = found
    age = datetime.now(UTC) - put
    seen = f"held by {record.holder}, who last said so {_minutes(age)} ago, at {put:%Y-%m-%d %H:%M:%S}Z"
    if is_silent(record, age.total_seconds()):
        return Finding(
            "lock",
            "warn",
            f"{seen}: it has died or is asleep",
            f"Nothing to do: the next step takes the lease over after {record.seconds:g} s.",
        )
    return Finding("lock", "ok", seen)


def _minutes(age: timedelta) -> str:
    seconds = age.total_seconds()
    return (
        f"{seconds:.0f} s"
        if seconds < 120
        else f"{seconds / 60:.0f} min"
        if seconds < 7200
        else f"{seconds / 3600:.0f} h"
    )
