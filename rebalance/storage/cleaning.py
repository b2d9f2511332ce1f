"""Files that nobody needs any more: data files and deletion vectors of old versions, what killed writes left, old entries of the log.

A table keeps its versions from one on, the oldest that is needed: of the state, the oldest that a served epoch names, and of every table,
the one that was the newest some time ago, for those who still read it. All files that these versions name stay, published or not, and
so do the log's entries from the last checkpoint before them. The caller holds the writer lock: nobody else adds files meanwhile; and a
file is only taken if it is old.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from rebalance.storage.control import open_table, table_path
from rebalance.storage.delta_log import FOLDER, StoredFile, TableFiles
from rebalance.storage.lock import require_lock
from rebalance.stores.places import is_remote

#: A log gets a checkpoint when this many entries have come since the last one: reading a version reads all of them.
CHECKPOINT_AFTER = 10
_ENTRY = re.compile(rf"{FOLDER}/\.?(\d{{20}})\.")
_UNFINISHED = re.compile(rf"{FOLDER}/(?:[^/]*\.tmp(?:\.crc)?|_commit_[^/]*|[^/]*#\d+)")


@dataclass(frozen=True)
class Cleaned:
    """What was, or would be, removed of a table."""

    table: str
    #: The oldest version that can still be read.
    oldest: int
    checkpoints: tuple[int, ...]
    files: tuple[StoredFile, ...]
    entries: tuple[StoredFile, ...]


def clean(
    root: str,
    table: str,
    *,
    needed: int | None,
    unused_since: datetime,
    dry_run: bool = False,
    moment: Callable[[str], None] = lambda name: None,
) -> Cleaned:
    """Remove what no version from `needed` on names, and no version that was the newest at a time after `unused_since`."""
    found = TableFiles(root, table)
    oldest = _oldest(found, needed, unused_since)
    wanted = _checkpoints_due(found, oldest)
    files = _unnamed(found, oldest, unused_since)
    if not dry_run:
        for version in wanted:
            open_table(root, table, version).create_checkpoint()
        moment("checkpoints made")
        _remove(found, files)
        _remove_empty_folders(root, table)
        moment("files removed")
    base = max((at for at in (*found.checkpoints, *wanted) if at <= oldest), default=-1)
    entries = _entries(found, base)
    entries += [file for file in found.all if _UNFINISHED.fullmatch(file.path) and file.changed < unused_since]
    if not dry_run:
        _remove(found, entries)
        moment("log cleaned")
    return Cleaned(table, oldest, tuple(wanted), tuple(files), tuple(entries))


def _oldest(found: TableFiles, needed: int | None, unused_since: datetime) -> int:
    """The oldest version to keep."""
    superseded = [version for version, entry in found.commits.items() if entry.changed <= unused_since]
    newest_then = max(superseded, default=min(found.commits))
    return newest_then if needed is None else min(newest_then, needed)


def _checkpoints_due(found: TableFiles, oldest: int) -> list[int]:
    """The versions that need a checkpoint: the oldest, so that entries before it can go, and the newest, for readers; that one last."""
    due = []
    if oldest - max((at for at in found.checkpoints if at <= oldest), default=-1) >= CHECKPOINT_AFTER:
        due.append(oldest)
    if due or found.head - max(found.checkpoints, default=-1) >= CHECKPOINT_AFTER:
        # After an older one always: the log names the checkpoint that was made last as the newest.
        due.append(found.head)
    return sorted(set(due))


def _unnamed(found: TableFiles, oldest: int, unused_since: datetime) -> list[StoredFile]:
    """Files outside of the log that no kept version names and that have been there for some time."""
    named = found.named_since(oldest)
    return [
        file
        for file in found.all
        if not file.path.startswith("_") and _data_path(file.path) not in named and file.changed < unused_since
    ]


def _data_path(path: str) -> str:
    """The file itself, or the one whose checksum, as Hadoop keeps it on local disks, it is.

    >>> _data_path("interval_id=1/.part-0.parquet.crc")
    'interval_id=1/part-0.parquet'
    """
    folder, _, name = path.rpartition("/")
    checked = re.fullmatch(r"\.(.+)\.crc", name)
    return "/".join(filter(None, (folder, checked[1] if checked else name)))


def _entries(found: TableFiles, checkpoint: int) -> list[StoredFile]:
    """The log's files before a checkpoint."""
    numbered = ((_ENTRY.match(file.path), file) for file in found.all)
    return [file for match, file in numbered if match and int(match[1]) < checkpoint]


def _remove(found: TableFiles, files: Sequence[StoredFile]) -> None:
    for file in files:
        require_lock(found.root)
        found.store.delete_file(file.path)


def _remove_empty_folders(root: str, table: str) -> None:
    """Object stores have no folders; on a disk those without files are left over."""
    path = table_path(root, table)
    if is_remote(path):
        return
    for folder, _, _ in os.walk(path, topdown=False):
        if Path(folder) != Path(path) and FOLDER not in Path(folder).parts and not os.listdir(folder):
            os.rmdir(folder)
