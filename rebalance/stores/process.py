"""A process by a name that no other one ever has, so that another process of the same machine can tell that it has ended."""

from __future__ import annotations

import os
import socket
from functools import cache
from pathlib import Path


def started(pid: int) -> int | None:
    """When a process was started, in the kernel's ticks; None if it runs no more."""
    try:
        # The name, in brackets, may hold spaces.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def own_name() -> str:
    """This process's machine, the machine's start, its namespace of processes, as a container has its own, number and start; empty if unknown."""
    return f"{_here()}/{os.getpid()}/{started(os.getpid())}" if _here() else ""


def has_ended(name: str) -> bool:
    """Whether a process is known to have ended: it ran here, and does no more. Of others nobody here can tell."""
    here, _, process = name.partition("/")
    if not here or here != _here():
        return False
    pid, began = map(int, process.split("/"))
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        # Another user's: it is there, and when it was started may be hidden.
        return False
    return started(pid) != began


@cache
def _here() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{socket.gethostname()} {boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""
