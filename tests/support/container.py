"""A command with everything it starts, held together as in a container: python container.py USER COMMAND...

USER is whom the command runs as, "" for nobody else.

Sessions, process groups and dead parents in between change nothing: orphans become children of this process. When the command ends, when
this process is told to (SIGTERM), and when whoever has started it dies, all of them are killed as `kill -9` does.
Linux and the standard library only.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def main(user: str, command: list[str]) -> int:
    """Run it; its exit code."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    linux = ctypes.CDLL(None)
    linux.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    linux.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    try:
        process = subprocess.Popen(command, user=user or None)
        while True:
            pid, status = os.wait()
            if pid == process.pid:
                return os.waitstatus_to_exitcode(status) % 256
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        kill_descendants(os.getpid())


def in_container(command: list[str], user: str | None = None) -> list[str]:
    """The command to start instead. Start it from a thread that lives as long as it should: Linux takes its end for that of the parent."""
    return [sys.executable, "-SE", __file__, user or "", *command]


def kill_descendants(root: int) -> None:
    """Until none is left: what is just being started is found in the next round."""
    while pids := descendants(root):
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        while True:
            try:
                if not os.waitpid(-1, os.WNOHANG)[0]:
                    break
            except ChildProcessError:
                break
        time.sleep(0.01)


def descendants(root: int) -> list[int]:
    """All processes below one, parents first."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(folder.name))
    found = list(children.get(root, ()))
    for pid in found:
        found.extend(children.get(pid, ()))
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
