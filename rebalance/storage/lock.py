"""One writer per pipeline.

An Airflow pool does not keep a zombie task or a person at a terminal out, and two writers would do everything twice. So every step that
writes holds a lock: on a local disk one of the operating system, which a killed process cannot leave behind; on an object store a lease
(`rebalance.stores.lease`), which ends by itself. Whoever has lost its lease may not commit any more (`require_lock`). Neither
is what keeps commits from being lost: each of them is made as one certain version, or not at all.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from rebalance.errors import DamagedError, LockedError
from rebalance.stores.access import require_reachable
from rebalance.stores.lease import Lease
from rebalance.stores.places import is_remote

#: Seconds to wait for another writer before giving up; a step of a small pipeline takes less.
PATIENCE = 120.0
#: Seconds after which the lease of a process that is silent may be taken over.
LEASE_SECONDS = 30.0

_leases: dict[str, Lease] = {}


@contextmanager
def writer_lock(root: str, *, patience: float = PATIENCE) -> Iterator[None]:
    """Hold the pipeline's write lock; waits up to `patience` seconds for another writer to finish."""
    with _leased(root, patience) if is_remote(root) else _locked(root, patience):
        yield


def require_lock(root: str) -> None:
    """Refuse to commit if this process has lost its lease; who never had one is not asked."""
    if root in _leases:
        _leases[root].require()


@contextmanager
def _leased(root: str, patience: float) -> Iterator[None]:
    require_reachable(root)
    lease = Lease(root, LEASE_SECONDS)
    lease.acquire(patience)
    _leases[root] = lease
    try:
        yield
    finally:
        del _leases[root]
        lease.release()


@contextmanager
def _locked(root: str, patience: float) -> Iterator[None]:
    path = _lock_file(root)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        _acquire(file.fileno(), path, patience)
        file.truncate(0)
        file.write(f"process {os.getpid()}\n")
        file.flush()
        _require_whole_entries(Path(root))
        yield


def held_by(root: str) -> tuple[str, datetime] | None:
    """Who holds the lock of local tables, and since when; None if nobody does. A writer that tries at this very moment tries again."""
    path = _lock_file(root)
    if not path.exists():
        return None
    with path.open() as file:
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            since = datetime.fromtimestamp(os.fstat(file.fileno()).st_mtime, UTC)
            return file.read().strip() or "another process", since
    return None


def _lock_file(root: str) -> Path:
    return Path(root) / "_locks" / "writer.lock"


def _require_whole_entries(root: Path) -> None:
    """Refuse tables whose newest log entry is empty, as a machine that loses its power may leave it: readers would pass over it in silence."""
    for log in sorted(root.glob("*/_delta_log")):
        newest = max((entry for entry in os.scandir(log) if entry.name.endswith(".json")), key=_name, default=None)
        if newest and not newest.stat().st_size:
            raise DamagedError(
                f"the newest entry of the log of {log.parent} is empty ({newest.name}), as after a loss of power: what it said is gone. "
                "Nothing was done. Bring it back from a copy, or start with an empty table root and run the intervals again."
            )


def _name(entry: os.DirEntry[str]) -> str:
    return entry.name


def _acquire(descriptor: int, path: Path, patience: float) -> None:
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= deadline:
                holder = path.read_text().strip() or "another process"
                raise LockedError(
                    f"{holder} has been writing to {path.parent.parent} for more than {patience:g} s. "
                    "Wait for it, or stop it, then run this step again."
                ) from None
            time.sleep(0.1)
