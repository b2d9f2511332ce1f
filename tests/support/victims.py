"""Steps in processes of their own, to be killed: each is forked from one that has imported everything, as Airflow's executors do it.

Reads lines of JSON: a pipeline file, the start of an interval, and what is to be done for it. A process says `ready` with its number once
its Spark is there, if it needs one; `ended` with its exit code is said of it when it is gone, however it went.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TextIO

from rebalance.errors import RebalanceError
from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.pipeline.intervals import Interval, parse_start
from rebalance.spark.session import spark_session
from rebalance.steps import STEPS, run_step
from rebalance.steps.exits import code_of
from rebalance.steps.maintain import maintain
from rebalance.steps.rewind import rewind
from rebalance.storage.epochs import processed

PROJECT = Path(__file__).resolve().parents[2]
#: What else a person or a schedule does to a pipeline.
MAINTAIN, REWIND = "maintain", "rewind"
#: What happens to the second interval: its steps, maintenance of state that was just moved, and that it is undone.
STORY = ("collect_stats", "check_quality", "make_plan", "migrate_state", MAINTAIN, "process_batch", REWIND)
#: What a process would spend half its time on importing, and dies of no differently.
HEAVY = (
    *(f"rebalance.steps.{step.name}" for step in STEPS),
    "rebalance.quality.validate",
    "rebalance.spark.move",
    "rebalance.spark.rewrite",
    "great_expectations",
    "polars",
)
#: What has a JVM of its own.
ON_SPARK = ("collect_stats", "migrate_state", "process_batch", MAINTAIN)


class Victims:
    """The other end: one process after the other."""

    def __init__(self, log: Path) -> None:
        self.log = log
        with log.open("ab") as said:
            self._server = subprocess.Popen(
                [sys.executable, "-m", "tests.support.victims"],
                cwd=PROJECT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
            )

    def start(self, pipeline: Pipeline, interval: Interval, *acts: str) -> int:
        """Start one and wait until it is ready; its number, which is that of its process group, too."""
        assert self._server.stdin
        self._server.stdin.write(json.dumps([str(pipeline.file), interval.id, acts]) + "\n")
        self._server.stdin.flush()
        word, number = self._heard()
        assert word == "ready", self.told()
        return number

    def ended(self) -> int:
        """Wait until it is gone; its exit code, negative if it was killed."""
        word, code = self._heard()
        assert word == "ended", self.told()
        return code

    def told(self) -> str:
        """The end of what they have said."""
        return self.log.read_text()[-10_000:]

    def close(self) -> None:
        """End it. Whoever is left of the killed ones ends by itself."""
        with self._server:
            self._server.kill()

    def _heard(self) -> tuple[str, int]:
        assert self._server.stdout
        line = self._server.stdout.readline().split()
        assert line, self.told()
        return line[0], int(line[1])


def jvm_of(pid: int) -> int:
    """The JVM of a process."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    (found,) = [child for child in children if Path(f"/proc/{child}/comm").read_text() == "java\n"]
    return int(found)


def act(name: str, pipeline: Pipeline, interval: Interval) -> str:
    """Do it, as Airflow would or a person."""
    if name == MAINTAIN:
        return "; ".join(maintain(pipeline))
    if name == REWIND:
        # Who is told by `rebalance status` that it is done does not do it again.
        return rewind(pipeline, interval) if processed(pipeline.tables, interval.id) else "rewound already"
    return run_step(name, pipeline, interval)


def attempt(file: str, start: str, acts: Sequence[str], talk: TextIO) -> None:
    """The whole life of one that nobody kills."""
    pipeline = load_pipeline(Path(file))
    if set(acts) & set(ON_SPARK):
        spark_session(pipeline).range(1).count()
    talk.write(f"ready {os.getpid()}\n")
    talk.flush()
    for name in acts:
        sys.stderr.write(f"{os.getpid()} {name}: {act(name, pipeline, pipeline.interval_at(parse_start(start)))}\n")


def main(lines: TextIO, talk: TextIO) -> None:
    """Start them."""
    for line in lines:
        pid = os.fork()
        if not pid:
            # Its JVM is killed with it, as everything in a container is.
            os.setsid()
            try:
                attempt(*json.loads(line), talk)
            except Exception as error:
                traceback.print_exc()
                os._exit(code_of(error) if isinstance(error, RebalanceError) else 1)
            # Its JVM sees that nobody is there any more.
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        talk.write(f"ended {code}\n")
        talk.flush()


if __name__ == "__main__":
    # Whatever Java says belongs with the errors.
    spoken = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for name in HEAVY:
        import_module(name)
    main(sys.stdin, spoken)
