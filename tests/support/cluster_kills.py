"""Kills a worker and its executor, as kill -9 does, while a task of a certain step is at work on it."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError

#: Seconds between looks, and for what a stopped executor said before it was stopped to arrive.
_LOOK, _SETTLE = 0.005, 0.3


@dataclass
class Killer(threading.Thread):
    """Watches this process's Spark. Once armed, the `skip`-th stage after the first that has a task at work costs an executor its life."""

    after: Callable[[], None]
    killed: list[str] = field(default_factory=list)
    _step: str = ""
    _skip: int = 0
    seen: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(daemon=True)

    # Threads are kept in sets.
    __hash__ = threading.Thread.__hash__

    def arm(self, step: str, skip: int = 0) -> None:
        """From now on, for the step that is about to run."""
        self._skip, self.seen, self._step = skip, [], step

    def run(self) -> None:
        while True:
            time.sleep(_LOOK)
            if self._step and self._strikes():
                self.killed.append(self._step)
                self._step = ""
                self.after()

    def _strikes(self) -> bool:
        from pyspark import SparkContext

        context: Any = SparkContext._active_spark_context
        if getattr(context, "_jsc", None) is None:
            return False
        for stage, task, executor in running_tasks(context):
            if stage not in self.seen:
                self.seen.append(stage)
            pid = process_of(context.applicationId, executor)
            if self.seen.index(stage) < self._skip or pid is None:
                continue
            os.kill(pid, signal.SIGSTOP)
            time.sleep(_SETTLE)
            # Had the task ended before it was stopped, this would be a kill between two tasks.
            if (stage, task, executor) in running_tasks(context):
                worker = parent_of(pid)
                os.kill(worker, signal.SIGKILL)
                os.kill(pid, signal.SIGKILL)
                return True
            os.kill(pid, signal.SIGCONT)
        return False


def running_tasks(context: Any) -> list[tuple[int, int, str]]:
    """Stage, number and executor of every task that is at work."""
    store, found = context._jsc.sc().statusStore(), []
    for stage in context.statusTracker().getActiveStageIds():
        # A stage that is about to run is active before the store knows it.
        with suppress(Py4JJavaError):
            tasks = store.taskList(stage, store.lastStageAttempt(stage).attemptId(), 1000)
            running = [task for task in map(tasks.apply, range(tasks.size())) if task.status() == "RUNNING"]
            found.extend((stage, task.taskId(), task.executorId()) for task in running)
    return found


def process_of(application: str, executor: str) -> int | None:
    """The process of an executor of ours."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().decode().split("\0")
        except OSError:
            continue
        if application in words and "--executor-id" in words and words[words.index("--executor-id") + 1] == executor:
            return int(folder.name)
    return None


def parent_of(pid: int) -> int:
    """The process that has started another."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
