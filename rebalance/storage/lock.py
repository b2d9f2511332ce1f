"""One writer per pipeline.

On a local disk two Spark writers of one Delta table can lose commits (the log's put-if-absent is not atomic there), and an Airflow
pool does not keep a zombie task or a person at a terminal out. So every step that writes holds a lock of the operating system, which
a killed process cannot leave behind. Object stores and HDFS have an atomic put and no file locks: there, Delta's own conflict
detection has to do, and no lock is taken.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rebalance.errors import LockedError

#: Seconds to wait for another writer before giving up; a step of a small pipeline takes less.
PATIENCE = 120.0


@contextmanager
def writer_lock(root: str, *, patience: float = PATIENCE) -> Iterator[None]:
    """Hold the pipeline's write lock; waits up to `patience` seconds for another writer to finish."""
    if "://" in root:
        yield
        return
    path = Path(root) / "_locks" / "writer.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        _acquire(file.fileno(), path, patience)
        file.truncate(0)
        file.write(f"process {os.getpid()}\n")
        file.flush()
        yield


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
