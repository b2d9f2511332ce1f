"""What stands for a container in these tests keeps nothing alive, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.container import in_container

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="what a container holds is found by Linux's /proc")
#: A process in a session of its own, whose parent has ended, and one that ignores every polite signal.
COMMAND = """
(setsid sh -c 'echo $$ >> {pids}; exec sleep 1000' &)
(trap '' TERM INT HUP; echo $$ >> {pids}; while :; do sleep 0.1; done) &
while [ "$(wc -l < {pids})" != 2 ]; do sleep 0.01; done
{then}
"""


def started(folder: Path, then: str) -> tuple[list[str], Path]:
    pids = folder / "pids"
    pids.touch()
    return in_container(["sh", "-c", COMMAND.format(pids=pids, then=then)]), pids


def until_dead(pids: Path) -> None:
    deadline = time.monotonic() + 10
    while any(Path(f"/proc/{pid}").exists() for pid in pids.read_text().split()):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_when_the_command_ends_all_that_it_started_is_killed_and_its_exit_code_is_kept(tmp_path: Path) -> None:
    command, pids = started(tmp_path, "exit 7")
    assert subprocess.run(command, check=False).returncode == 7
    until_dead(pids)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["told to", "its parent dies"])
def test_when_it_is_told_to_or_its_parent_dies_all_of_it_is_killed(tmp_path: Path, how: signal.Signals) -> None:
    command, pids = started(tmp_path, "sleep 1000")
    if how == signal.SIGKILL:
        # A parent in between, which is the one that dies.
        command = [sys.executable, "-c", "import subprocess, sys; subprocess.run(sys.argv[1:])", *command]
    process = subprocess.Popen(command)
    while len(pids.read_text().split()) < 2:
        assert process.poll() is None
        time.sleep(0.01)
    os.kill(process.pid, how)
    process.wait()
    until_dead(pids)
