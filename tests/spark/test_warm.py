"""A JVM that one process leaves to the next: real processes, one after the other, as Airflow's executors run tasks."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from polars.testing import assert_frame_equal

from rebalance.pipeline.file import Pipeline
from rebalance.spark.warm import FOLDER_VARIABLE
from rebalance.spark.warm_jvm import Running, WarmJvm, recorded
from tests.support.world import expected_matches, first_interval, make_world, stored_results

PROJECT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Worker:
    """The machine on which tasks run."""

    pipeline: Pipeline
    folder: Path

    def start(self, what: str, *settings: str, minutes: float = 5) -> subprocess.Popen[str]:
        given = [str(self.pipeline.file), str(minutes), what, "spark.driver.memory=1g", *settings]
        return subprocess.Popen(
            [sys.executable, "-m", "tests.support.warm_client", *given],
            cwd=PROJECT,
            env={**os.environ, FOLDER_VARIABLE: str(self.folder)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, what: str, *settings: str, minutes: float = 5) -> dict[str, Any]:
        """What a task says, and what it logged."""
        with self.start(what, *settings, minutes=minutes) as task:
            said, logged = task.communicate(timeout=120)
        assert task.returncode == 0, logged
        return {**json.loads(said), "log": logged}

    def jvm(self) -> Running:
        """The JVM that is there."""
        record = json.loads((self.folder / "record").read_text())
        return Running(**record["jvm"])


def until(holds: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


def same_jvm(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return (one["jvm"], one["since"]) == (other["jvm"], other["since"])


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """One for all tests here: each goes on with the JVM that the one before has left, or with none."""
    folder = tmp_path_factory.mktemp("warm")
    pipeline = make_world(folder, intervals=2, events=1000)
    yield Worker(pipeline, folder / "private")
    left = WarmJvm(folder / "private")
    left.record = recorded(left.folder)
    left.end()


@pytest.fixture(scope="module")
def first(worker: Worker) -> dict[str, Any]:
    """The first task, which finds no JVM."""
    return worker.run("process 0")


def test_the_next_process_works_in_the_same_jvm_and_has_the_right_results(
    worker: Worker, first: dict[str, Any]
) -> None:
    assert "warm Spark: started, because there was none" in first["log"]
    second = worker.run("process 1")
    assert "warm Spark: the one that was there, task 2 of it" in second["log"]
    assert same_jvm(first, second)
    for number in range(2):
        interval = first_interval(worker.pipeline).shifted(number)
        expected = expected_matches(worker.pipeline, interval)
        assert_frame_equal(stored_results(worker.pipeline, interval), expected, check_dtypes=False)


def test_only_its_user_can_read_how_to_get_into_the_jvm_and_it_listens_on_this_machine_alone(
    worker: Worker, first: dict[str, Any]
) -> None:
    assert stat.S_IMODE(worker.folder.stat().st_mode) == 0o700
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in worker.folder.iterdir()}
    assert modes == dict.fromkeys(("connection", "lock", "log", "record", "stdin"), 0o600)
    port, _ = WarmJvm(worker.folder).address()
    listening = [line.split()[1] for line in Path("/proc/net/tcp").read_text().splitlines() if line.split()[3] == "0A"]
    everywhere = Path("/proc/net/tcp6").read_text() if Path("/proc/net/tcp6").exists() else ""
    listening += [line.split()[1] for line in everywhere.splitlines() if line.split()[3] == "0A"]
    (address,) = [found.partition(":")[0] for found in listening if int(found.partition(":")[2], 16) == port]
    assert address in ("0100007F", "0000000000000000FFFF00000100007F")


def test_a_session_has_its_own_settings_and_a_setting_of_the_jvm_needs_another_one(
    worker: Worker, first: dict[str, Any]
) -> None:
    before = worker.jvm()
    third = worker.run("nothing", "spark.sql.shuffle.partitions=7")
    assert (third["found"], same_jvm(first, third)) == ("7", True)
    fourth = worker.run("nothing", "spark.driver.extraJavaOptions=-Dof.another=kind")
    assert "warm Spark: started, because spark.driver.extraJavaOptions changed" in fourth["log"]
    assert fourth["found"] == "4", "the session before must leave nothing behind"
    assert not before.is_alive()
    assert worker.jvm().pid == fourth["jvm"]


def test_a_killed_task_takes_its_jobs_with_it_and_the_next_one_has_a_new_jvm(worker: Worker, tmp_path: Path) -> None:
    target = tmp_path / "written"
    with worker.start(f"write {target}") as task:
        until(lambda: any(target.glob("_temporary/0/task*")))
        jvm = worker.jvm()
        task.kill()
    until(lambda: not jvm.is_alive(), 10)
    left = sorted(target.rglob("*"))
    after = worker.run("nothing")
    assert "started, because the task before did not end in order" in after["log"]
    assert after["jvm"] != jvm.pid
    assert sorted(target.rglob("*")) == left, "nothing may be written by a task that is gone"
    assert not (target / "_SUCCESS").exists()


def test_a_second_task_at_the_same_time_starts_a_spark_of_its_own(worker: Worker, tmp_path: Path) -> None:
    with worker.start(f"wait {tmp_path / 'go'}") as task:
        until((tmp_path / "go").exists)
        beside = worker.run("nothing")
        (tmp_path / "go").unlink()
        said, _ = task.communicate()
    assert "the warm Spark is not used: another task has it" in beside["log"]
    assert json.loads(said)["jvm"] == worker.jvm().pid != beside["jvm"]
    until(lambda: not Path(f"/proc/{beside['jvm']}").exists(), 20)


def test_a_jvm_that_does_not_answer_is_replaced_and_one_that_nobody_wants_ends(worker: Worker) -> None:
    hung = worker.jvm()
    os.kill(hung.pid, signal.SIGSTOP)
    after = worker.run("nothing", minutes=1 / 60)
    assert "started, because the one before ended" in after["log"]
    assert not hung.is_alive()
    until(lambda: not Path(f"/proc/{after['jvm']}").exists(), 20)


def test_a_task_that_fails_for_no_known_reason_leaves_no_jvm_and_a_folder_of_others_is_not_used(
    worker: Worker, tmp_path: Path
) -> None:
    with worker.start("fail") as task:
        _, logged = task.communicate(timeout=120)
    assert "ValueError: something unforeseen" in logged
    assert not (worker.folder / "record").exists()
    (tmp_path / "open").mkdir(mode=0o755)
    (tmp_path / "open").chmod(0o755)
    cold = Worker(worker.pipeline, tmp_path / "open").run("nothing")
    assert "is not a folder of this user's alone (mode 755)" in cold["log"]
    until(lambda: not Path(f"/proc/{cold['jvm']}").exists(), 20)
