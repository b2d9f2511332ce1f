"""A cluster that gives a job nothing to work with: said in the log, and after a while the job is given up with an error that says where to look.

Spark itself waits for ever. So a thread beside the step looks whether any task of the running jobs is at work.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import Any

log = logging.getLogger("rebalance")

#: Seconds between looks, and between warnings.
LOOK, WARN = 2.0, 60.0


@dataclass
class Watch:
    """Of one Spark context, from its start to its end."""

    context: Any
    master: str
    #: Seconds for which jobs may run without a task at work.
    limit: float
    waiting_since: float | None = None
    warned: float = field(default_factory=lambda: -WARN)

    def start(self) -> None:
        """Watch from now on; the thread ends with the context or the process."""
        threading.Thread(target=self._watch, name="rebalance-resources", daemon=True).start()

    def _watch(self) -> None:
        while True:
            time.sleep(min(LOOK, self.limit / 4))
            try:
                if self.context._jsc is None or self.context._jsc.sc().isStopped():
                    return
                self.look(time.monotonic())
            except Exception:
                # The context is being stopped; if not, the next look tells.
                continue

    def look(self, now: float) -> None:
        """Warn, or give the jobs up, if nothing has been at work for long."""
        tracker = self.context.statusTracker()
        stages = [info for info in map(tracker.getStageInfo, tracker.getActiveStageIds()) if info]
        if not stages or any(stage.numActiveTasks for stage in stages):
            self.waiting_since, self.warned = None, -WARN
            return
        self.waiting_since = now if self.waiting_since is None else self.waiting_since
        waited = now - self.waiting_since
        if waited >= self.limit:
            self._give_up(waited, tracker.getActiveJobsIds())
        elif waited >= min(WARN, self.limit / 4) and waited - self.warned >= WARN:
            self.warned = waited
            log.warning("%s; it is given up after %s", self._words(waited), _minutes(self.limit))

    def _give_up(self, waited: float, jobs: list[int]) -> None:
        _given_up[:] = [
            f"{self._words(waited)}, so the step was given up; it can be run again. Look at the cluster's own page: are workers alive, have "
            "they free cores, and as much memory as spark.executor.memory asks for? Do spark.cores.max or a queue's limit leave any, and can "
            "workers reach the driver (spark.driver.host)? To wait longer, raise spark.resources_timeout_minutes."
        ]
        self.waiting_since = None
        for job in jobs:
            self.context._jsc.sc().cancelJob(job, "no resources")

    def _words(self, waited: float) -> str:
        return f"{self.master} has had no executor at work for a job of ours for {_minutes(waited)}"


#: Written by the thread that watches, read by the one that works.
_given_up: list[str] = []


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.3g} minutes"


def forget() -> None:
    """What was given up before is said already."""
    _given_up.clear()


def given_up() -> str:
    """What is to be said of jobs that were given up; nothing if none was."""
    return "".join(_given_up)


def has_ended() -> bool:
    """Whether this process's Spark was ended from outside: its master is gone, or has thrown it out."""
    return _is_stopped() is True


def jvm_is_gone() -> bool:
    """Whether the JVM of this process's Spark has died: killed, by a kernel that is short of memory for one, or crashed."""
    return _is_stopped() is None


def _is_stopped() -> bool | None:
    """Whether the Spark of this process was stopped behind its back; None if nobody is there to answer."""
    pyspark: Any = sys.modules.get("pyspark")
    context = pyspark and pyspark.SparkContext._active_spark_context
    started = getattr(context, "_jsc", None)
    if started is None:
        return False
    from py4j.protocol import Py4JError

    try:
        return bool(started.sc().isStopped())
    except (OSError, EOFError, Py4JError):
        return None
