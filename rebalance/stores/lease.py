"""A lease: what a lock is on object stores, which have none. One small object, changed by conditional puts alone.

Whoever holds the lease puts a new mark into it every few seconds. Whoever waits watches it, and takes it over when its mark has not changed
for as long as the lease says, by the watcher's own clock. Clocks are never compared with each other, so it does not matter what time they
show; only how fast they run, and a tenth of difference is allowed for. The object is never deleted, because its number goes up with every
holder.

A holder that was a process of the watcher's own machine, and has ended, is not waited for: it puts and commits nothing more.

A process that was stopped for long finds its lease lost when it looks (`require`), and must look before it commits. It may be stopped again
just then, so every commit must be one that fails if another was faster; a lease only saves them from doing so.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import time
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from uuid import uuid4

from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError, PreconditionError

from rebalance.errors import LockedError
from rebalance.stores.access import object_store, refusal
from rebalance.stores.process import has_ended, own_name

log = logging.getLogger("rebalance")

NAME = "_locks/writer.lease"
#: How much faster than the holder's a watcher's clock may run.
_DRIFT = 1.1


def now() -> float:
    """Seconds on a clock that runs on while the process, or the machine, is asleep, and that nobody sets."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(frozen=True)
class Record:
    """What the object says."""

    #: The fencing number: every holder's is one more than the last one's.
    number: int
    #: Who has it, for people.
    holder: str
    #: The same for processes of its machine.
    process: str
    held: bool
    #: How long the holder may be silent.
    seconds: float
    #: Different in every put, so that no two contents, and no two tags, are alike.
    mark: str = field(default_factory=lambda: uuid4().hex)


class Lease:
    """One process's hold on a root, from `acquire` to `release`."""

    def __init__(self, root: str, seconds: float) -> None:
        self.root = root
        self.seconds = seconds
        self._store = object_store(root)
        self._mutex = threading.Lock()
        self._done = threading.Event()
        self._mine: Record | None = None
        self._tag: str | None = None
        self._renewed = 0.0

    @property
    def number(self) -> int:
        """The fencing number of this hold."""
        return self._mine.number if self._mine else 0

    def acquire(self, patience: float) -> None:
        """Wait until the lease can be had, `patience` seconds at most, then keep it renewed in the background."""
        deadline, watched, since = now() + patience, "", now()
        while True:
            try:
                found, tag = self._read()
                if found and found.mark != watched:
                    watched, since = found.mark, now()
                silent = now() - since > found.seconds * _DRIFT if found else False
                free = found is None or not found.held or silent or has_ended(found.process)
                if free and self._put(self._next(found), tag):
                    break
            except (BaseError, OSError) as error:
                raise refusal(self.root, error) from None
            if found and not free and now() >= deadline:
                raise LockedError(
                    f"{found.holder} has been writing to {self.root} for more than {patience:g} s. "
                    "Wait for it, or stop it, then run this step again."
                )
            time.sleep(min(1.0, self.seconds / 10))
        if found and found.held:
            why = f"was silent for {found.seconds:g} s" if silent else "has ended without giving it back"
            log.warning("%s %s: its lease on %s is taken over", found.holder, why, self.root)
        threading.Thread(target=self._keep, name="lease", daemon=True).start()

    def require(self) -> None:
        """Refuse to go on without the lease."""
        with self._mutex:
            if self._mine and now() - self._renewed >= self.seconds:
                self._renew()
            if not self._mine:
                raise LockedError(
                    f"this process was silent for more than {self.seconds:g} s, and another one writes to {self.root} now. "
                    "What this one was about to do was not done. Look at `rebalance status`; if the interval is not done, run the step again."
                )

    def release(self) -> None:
        """Let the next one have it; if that does not reach the store, the next one waits until it is silent for long enough."""
        self._done.set()
        with self._mutex:
            if not self._mine:
                return
            try:
                self._put(replace(self._mine, held=False, mark=uuid4().hex), self._tag)
            except (BaseError, OSError):
                log.warning(
                    "the lease on %s could not be given back: the next step waits %g s", self.root, self.seconds
                )
            self._mine = None

    def _keep(self) -> None:
        while not self._done.wait(self.seconds / 3):
            with self._mutex:
                if self._mine and not self._done.is_set():
                    self._renew()

    def _renew(self) -> None:
        """Put a new mark; whether the lease is lost is only known if the store says so."""
        assert self._mine  # noqa: S101 - the callers have looked
        try:
            if not self._put(replace(self._mine, mark=uuid4().hex), self._tag):
                self._mine = None
        except (BaseError, OSError):
            if now() - self._renewed >= self.seconds:
                self._mine = None

    def _next(self, found: Record | None) -> Record:
        holder = f"process {os.getpid()} on {socket.gethostname()}"
        return Record((found.number if found else 0) + 1, holder, own_name(), held=True, seconds=self.seconds)

    def _read(self) -> tuple[Record | None, str | None]:
        try:
            found = self._store.get(NAME)
        except (NotFoundError, FileNotFoundError):
            return None, None
        return Record(**json.loads(bytes(found.bytes()))), found.meta["e_tag"]

    def _put(self, record: Record, tag: str | None) -> bool:
        """Replace exactly what was seen; returns whether that was done."""
        began, content = now(), json.dumps(asdict(record)).encode()
        try:
            put = self._store.put(NAME, content, mode={"e_tag": tag} if tag else "create")
            self._tag = put["e_tag"]
        except (AlreadyExistsError, PreconditionError):
            # An earlier try of this very request may have arrived, and its answer not.
            there, self._tag = self._read()
            if there is None or there.mark != record.mark:
                return False
        self._mine, self._renewed = record, began
        return True


def record_of(root: str, *, hurried: bool = False) -> tuple[Record, datetime] | None:
    """What the lease of a root says, and when that was put, by the store's clock; None if nobody ever had it."""
    try:
        found = object_store(root, hurried=hurried).get(NAME)
    except (NotFoundError, FileNotFoundError):
        return None
    return Record(**json.loads(bytes(found.bytes()))), found.meta["last_modified"]


def is_silent(record: Record, seconds: float) -> bool:
    """Whether the holder of a lease that was put so many seconds ago has been silent for longer than it may."""
    return record.held and seconds > record.seconds * _DRIFT
