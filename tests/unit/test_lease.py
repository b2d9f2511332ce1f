"""The lease: one holder at a time, taken over when it is silent, lost for good then; on a real S3 server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from rebalance.errors import LockedError
from rebalance.storage import control, lock
from rebalance.storage.epochs import all_epochs
from rebalance.stores import lease as leases
from rebalance.stores.lease import NAME, Lease
from rebalance.stores.places import remember
from rebalance.stores.process import has_ended, own_name
from tests.support.budget import cases
from tests.support.s3 import BUCKET, S3

SECONDS = 1.5
ROW = {"interval_id": "a", "function_version": 0, "rows": 1, "seconds": 0.0}

#: Adds one to a number in a file, in two steps, as often as it is told, each time under the lock.
COUNTER = """
import json, sys, time
from pathlib import Path
from rebalance.storage import lock
from rebalance.stores.places import remember

root, settings, file, times, seconds = sys.argv[1:]
remember(root, json.loads(settings))
lock.LEASE_SECONDS = float(seconds)
for _ in range(int(times)):
    with lock.writer_lock(root):
        number = int(Path(file).read_text())
        time.sleep(0.01)
        Path(file).write_text(str(number + 1))
"""
#: Holds the lock, says so, and commits when it is told to go on.
SLEEPER = """
import json, sys
from rebalance.errors import LockedError
from rebalance.storage import control, lock
from rebalance.storage.epochs import publish
from rebalance.stores import lease
from rebalance.stores.places import remember

root, settings, seconds, *elsewhere = sys.argv[1:]
remember(root, json.loads(settings))
lock.LEASE_SECONDS = float(seconds)
if elsewhere:
    lease.own_name = lambda: elsewhere[0]
row = {"interval_id": "sleeper", "function_version": 0, "rows": 1, "seconds": 0.0}
with lock.writer_lock(root):
    print("holds", flush=True)
    sys.stdin.readline()
    refused = 0
    for commit in (
        lambda: control.append(root, "batches", [row]),
        lambda: control.replace(root, "batches", [row], interval_id="a"),
        lambda: publish(root, None, kind="start", function_version=0, state_version=-1),
    ):
        try:
            commit()
        except LockedError as error:
            assert "another one writes" in str(error), error
            refused += 1
    print(refused, flush=True)
"""


@pytest.fixture
def root(s3: S3, request: pytest.FixtureRequest) -> str:
    """An empty table root on the server."""
    found = f"s3a://{BUCKET}/{request.node.originalname}-{len(request.node.name)}"
    remember(found, s3.settings)
    return found


def record(s3: S3, root: str) -> dict[str, Any]:
    key = f"{root.split('/', 3)[3]}/{NAME}"
    found: dict[str, Any] = json.loads(s3.client().get_object(Bucket=BUCKET, Key=key)["Body"].read())
    return found


@pytest.fixture
def start(s3: S3, root: str) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts processes on the root, and ends those that are left."""
    with ExitStack() as stack:

        def begin(script: str, *more: str) -> subprocess.Popen[str]:
            command = [sys.executable, "-c", script, root, json.dumps(s3.settings), *more]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            stack.enter_context(process)
            stack.callback(process.kill)
            return process

        yield begin


def test_whoever_waits_for_a_holder_that_lives_is_told_who_it_is_and_gets_nothing(s3: S3, root: str) -> None:
    holder = Lease(root, SECONDS)
    holder.acquire(patience=1)
    with pytest.raises(LockedError, match=rf"process {os.getpid()} on .* has been writing to {root} for more than 3 s"):
        # Longer than the lease: it is renewed all the time.
        Lease(root, SECONDS).acquire(patience=2 * SECONDS)
    holder.require()
    holder.release()
    assert (record(s3, root)["held"], record(s3, root)["number"]) == (False, 1)


def test_every_holder_has_a_higher_number_and_a_lease_given_back_is_had_at_once(s3: S3, root: str) -> None:
    for number in range(1, 4):
        began = time.monotonic()
        with lock.writer_lock(root):
            assert time.monotonic() - began < lock.LEASE_SECONDS / 10
            assert (record(s3, root)["held"], record(s3, root)["number"]) == (True, number)
    assert not record(s3, root)["held"]


def test_a_holder_that_cannot_reach_the_store_gives_up_when_its_time_is_over(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = Lease(root, SECONDS)
    holder.acquire(patience=1)

    def unreachable(*_: Any) -> bool:
        raise OSError("no answer")

    monkeypatch.setattr(holder, "_put", unreachable)
    holder.require()
    ahead = leases.now() + SECONDS
    monkeypatch.setattr(leases, "now", lambda: ahead)
    with pytest.raises(LockedError, match="this process was silent for more than"):
        holder.require()
    holder.release()


def test_an_answer_that_got_lost_does_not_cost_the_lease(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    holder = Lease(root, SECONDS)
    holder.acquire(patience=1)
    store, put = holder._store, holder._store.put

    class Twice:
        """Sends every put a second time, as a client does that has heard nothing."""

        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        def put(self, *args: Any, **how: Any) -> Any:
            put(*args, **how)
            return put(*args, **how)

    monkeypatch.setattr(holder, "_store", Twice())
    holder._renew()
    holder.require()
    holder.release()


def test_processes_that_race_for_the_lock_have_it_one_at_a_time(
    s3: S3, root: str, start: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    file, times = tmp_path / "number", cases(8, long=100)
    file.write_text("0")
    racers = [start(COUNTER, str(file), str(times), str(SECONDS)) for _ in range(3)]
    assert [racer.wait(timeout=600) for racer in racers] == [0, 0, 0]
    assert (int(file.read_text()), record(s3, root)["number"]) == (3 * times, 3 * times)


@pytest.mark.parametrize("end", ["stopped", "killed elsewhere"])
def test_a_holder_that_is_silent_for_too_long_is_succeeded_and_commits_nothing_afterwards(
    s3: S3, root: str, start: Callable[..., subprocess.Popen[str]], end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "LEASE_SECONDS", SECONDS)
    sleeper = start(SLEEPER, str(SECONDS), *(["another machine/1/1"] if end == "killed elsewhere" else []))
    assert sleeper.stdout
    assert sleeper.stdout.readline() == "holds\n"
    sleeper.send_signal(signal.SIGSTOP if end == "stopped" else signal.SIGKILL)
    began = time.monotonic()
    with lock.writer_lock(root):
        assert time.monotonic() - began > SECONDS
        assert record(s3, root)["number"] == 2
        control.append(root, "batches", [ROW])
        if end == "stopped":
            sleeper.send_signal(signal.SIGCONT)
            refused, _ = sleeper.communicate("go\n", timeout=60)
            assert refused == "3\n"
        control.append(root, "batches", [{**ROW, "interval_id": "b"}])
    sleeper.wait(timeout=60)
    assert sorted(row["interval_id"] for row in control.rows(root, "batches")) == ["a", "b"]
    assert (all_epochs(root), record(s3, root)["number"]) == ([], 2)


def test_a_holder_that_was_killed_on_this_machine_is_succeeded_without_waiting_for_its_lease(
    s3: S3, root: str, start: Callable[..., subprocess.Popen[str]], caplog: pytest.LogCaptureFixture
) -> None:
    sleeper = start(SLEEPER, "600")
    assert sleeper.stdout
    assert sleeper.stdout.readline() == "holds\n"
    with pytest.raises(LockedError, match=f"process {sleeper.pid} on"):
        Lease(root, SECONDS).acquire(patience=0)
    sleeper.kill()
    # Much less than the lease; it is not collected yet, so its number is still there.
    with lock.writer_lock(root, patience=60):
        assert record(s3, root)["number"] == 2
    assert "has ended without giving it back" in caplog.text


def test_only_a_process_that_ran_here_and_does_no_more_is_known_to_have_ended() -> None:
    machine, pid, began = own_name().split("/")
    assert int(pid) == os.getpid()
    assert not has_ended(own_name())
    assert has_ended(f"{machine}/{pid}/{int(began) - 1}"), "another process had the number before"
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert has_ended(f"{machine}/{child.pid}/{began}")
    assert not has_ended(f"another{machine}/{child.pid}/{began}")
    assert not has_ended("")
