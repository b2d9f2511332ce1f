"""A JVM that outlives the process that started it: its files, how it is started, lent and ended. What Spark does in it is not known here.

The JVM reads its standard input, a named pipe, and ends as soon as nobody holds the pipe's writing end. While it is lent, the borrower
alone holds it: if that process dies, however it dies, the JVM and all its jobs die with it, as an ordinary PySpark's would. Given back, a
`sleep` holds it, and that is how long it stays. Every change is made under a lock of the operating system, which the borrower holds for
as long as it lives; what a killed process leaves in the record can only be too little, and then the JVM is ended, never used.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import stat
import struct
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from rebalance.stores.process import started

#: How often a JVM is lent; heap and open files grow a little with every borrower.
MOST_CLIENTS = 100
#: Seconds for a JVM to start, to answer, and to end when asked to.
START, ANSWER, END = 120.0, 10.0, 5.0

#: The environment to start a JVM in, which takes a moment to find.
Environ = Callable[[], Mapping[str, str]]


class NotToBeHadError(Exception):
    """The JVM cannot be lent; the message says why. An ordinary Spark does the same work."""


@dataclass(frozen=True)
class Running:
    """A process, told apart from a later one with the same number by when it was started."""

    pid: int
    ticks: int

    @classmethod
    def of(cls, pid: int) -> Running:
        """A process that was started just now."""
        return cls(pid, started(pid) or 0)

    def is_alive(self) -> bool:
        """Whether it still runs."""
        return started(self.pid) == self.ticks

    def end(self) -> None:
        """End it, by force if it does not go by itself."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if not self.is_alive():
                return
            os.kill(self.pid, number)
            deadline = time.monotonic() + END
            while self.is_alive() and time.monotonic() < deadline:
                time.sleep(0.02)


@dataclass(frozen=True)
class Record:
    """What is known of the JVM between two borrowers."""

    jvm: Running
    #: What the JVM was made from: another one is needed where any of it differs.
    made_from: Mapping[str, str]
    clients: int = 0
    #: Keeps it alive while nobody has it; None while it is lent.
    sleeper: Running | None = None


def recorded(folder: Path) -> Record | None:
    """What a folder's record says, whether it is still so or not."""
    try:
        found = json.loads((folder / "record").read_text())
        sleeper = Running(**found["sleeper"]) if found["sleeper"] else None
        return Record(Running(**found["jvm"]), found["made_from"], found["clients"], sleeper)
    except (OSError, ValueError, KeyError, TypeError):
        return None


@dataclass
class WarmJvm:
    """The one JVM of a folder, lent to this process. Whoever makes one must give it back or end it."""

    folder: Path
    lock: int = field(init=False, default=-1)
    pipe: int = field(init=False, default=-1)
    record: Record | None = field(init=False, default=None)
    #: Where this borrower's part of the JVM's output begins.
    said_before: int = field(init=False, default=0)

    def borrow(self, made_from: Mapping[str, str], command: Sequence[str], environ: Environ) -> str:
        """Take the JVM, or start one; returns how it was come by. Nobody else has it until it is given back or this process ends."""
        _make_private(self.folder)
        self._take_lock()
        self.record = recorded(self.folder)
        unfit = self._unfit(made_from)
        if unfit or not self.record:
            self.end()
            self.record = self._start(made_from, command, environ())
        sleeper = self.record.sleeper
        clients = self._store(replace(self.record, clients=self.record.clients + 1, sleeper=None)).clients
        if sleeper:
            sleeper.end()
        return f"started, because {unfit}" if unfit else f"the one that was there, task {clients} of it"

    def address(self) -> tuple[int, str]:
        """Port and secret."""
        content = (self.folder / "connection").read_bytes()
        port, length = struct.unpack("!ii", content[:8])
        return port, content[8 : 8 + length].decode()

    def give_back(self, seconds: float) -> None:
        """Leave it to the next borrower for so many seconds."""
        if not self.record:
            raise NotToBeHadError("it was not borrowed")
        sleeper = subprocess.Popen(
            ["sleep", str(max(1, round(seconds)))],
            stdin=subprocess.DEVNULL,
            stdout=self.pipe,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )
        _never_waited_for.append(sleeper)
        self._store(replace(self.record, sleeper=Running.of(sleeper.pid)))
        self.close()

    def end(self) -> None:
        """End the JVM and whatever it is at; the lock is kept."""
        if self.record:
            self.record.jvm.end()
            if self.record.sleeper:
                self.record.sleeper.end()
        self.record = None
        self._let_go()
        for name in ("record", "connection", "stdin"):
            (self.folder / name).unlink(missing_ok=True)

    def close(self) -> None:
        """Let go of everything."""
        self._let_go()
        if self.lock >= 0:
            os.close(self.lock)
            self.lock = -1

    def output(self) -> str:
        """What the JVM has said since it was borrowed."""
        with (self.folder / "log").open("rb") as file:
            file.seek(self.said_before)
            return file.read().decode(errors="replace").strip()

    def _take_lock(self) -> None:
        self.lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise NotToBeHadError("another task has it") from None

    def _unfit(self, made_from: Mapping[str, str]) -> str:
        """Why the JVM that is there cannot be used; empty, and the pipe held, if it can."""
        record = self.record
        if record is None:
            return "there was none"
        if record.sleeper is None:
            return "the task before did not end in order"
        differing = sorted(
            name for name in {*made_from, *record.made_from} if made_from.get(name) != record.made_from.get(name)
        )
        if differing:
            return f"{', '.join(differing[:5])} changed"
        if record.clients >= MOST_CLIENTS:
            return f"the one before was used {record.clients} times"
        return (
            "" if self._holds(record.sleeper) and record.jvm.is_alive() and self._answers() else "the one before ended"
        )

    def _holds(self, sleeper: Running) -> bool:
        """Hold the pipe. Had the sleeper let go before we held it, the JVM would be ending: it must be there still, afterwards."""
        try:
            self.pipe = os.open(self.folder / "stdin", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            self.said_before = (self.folder / "log").stat().st_size
        except OSError:
            return False
        return sleeper.is_alive()

    def _answers(self) -> bool:
        """Whether it says yes to its secret in good time. PySpark itself would wait for ever."""
        try:
            port, secret = self.address()
            with socket.create_connection(("127.0.0.1", port), ANSWER) as asked:
                asked.sendall(f"A\n{secret}\n".encode())
                return asked.recv(16).startswith(b"!y")
        except (OSError, struct.error):
            return False

    def _start(self, made_from: Mapping[str, str], command: Sequence[str], environ: Mapping[str, str]) -> Record:
        pipe, connection = self.folder / "stdin", self.folder / "connection"
        os.mkfifo(pipe, 0o600)
        # To read first, without waiting for a writer.
        reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self.pipe = os.open(pipe, os.O_WRONLY | os.O_CLOEXEC)
        os.set_blocking(reading, True)
        output = os.open(self.folder / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self.said_before = 0
        try:
            process = subprocess.Popen(
                command,
                stdin=reading,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**environ, "SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(connection)},
                start_new_session=True,
            )
        finally:
            os.close(reading)
            os.close(output)
        _never_waited_for.append(process)
        jvm = Running.of(process.pid)
        deadline = time.monotonic() + START
        while not connection.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                jvm.end()
                raise NotToBeHadError(f"it did not start: {self.output()[-1000:]}")
            time.sleep(0.05)
        return Record(jvm, dict(made_from))

    def _store(self, record: Record) -> Record:
        self.record = record
        made = self.folder / "record.new"
        with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(asdict(record), file)
        made.replace(self.folder / "record")
        return record

    def _let_go(self) -> None:
        if self.pipe >= 0:
            os.close(self.pipe)
            self.pipe = -1


#: They outlive this process; Python would warn of each.
_never_waited_for: list[subprocess.Popen[bytes]] = []


def _make_private(folder: Path) -> None:
    """A folder that only its user can look into. One that somebody else has put there first is refused."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) != 0o700:
        raise NotToBeHadError(f"{folder} is not a folder of this user's alone (mode {stat.S_IMODE(found.st_mode):o})")
