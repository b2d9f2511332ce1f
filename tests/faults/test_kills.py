"""A process killed at any moment of a verb, then run again: the same state, results and epoch as if nothing had happened.

What a kill leaves is what is on the disk at that moment. So a verb is run once, and at each of its named moments the tables are
copied: every copy is a world in which the process died there. That this is so is shown by real processes, each with its own Spark,
killed by SIGKILL: one for each verb, in a long run one for each moment.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from rebalance.pipeline.file import Pipeline
from rebalance.steps import run_step
from rebalance.steps.faults import KILL_AT
from rebalance.steps.run import run_interval
from rebalance.storage.epochs import all_epochs
from rebalance.storage.lock import writer_lock
from tests.support.budget import is_long
from tests.support.world import Stages, contents, first_interval

PROJECT = Path(__file__).resolve().parents[2]
SOURCES = PROJECT / "rebalance" / "steps"


def moments(verb: str) -> list[str]:
    """Every moment that the verb's module names."""
    found = re.findall(r'checkpoint\("([^"]+)"\)', (SOURCES / f"{verb}.py").read_text())
    if verb == "migrate_state":
        # Named by the move itself, which does not know the verb.
        moves = (PROJECT / "rebalance" / "spark" / "move.py").read_text()
        found += [f"migrate_state: {name}" for name in re.findall(r'moment\("([^"]+)"\)', moves)]
    return list(dict.fromkeys(found))


VERBS = ("collect_stats", "make_plan", "migrate_state", "process_batch")
MOMENTS = [(verb, moment) for verb in VERBS for moment in moments(verb)]
#: The moment of each verb at which most is written and nothing is published yet.
WORST = [
    "collect_stats: channels stored",
    "make_plan: function stored",
    "migrate_state: rows moved",
    "process_batch: state written",
]
KILLED = [(verb, moment) for verb, moment in MOMENTS if moment in WORST or is_long()]


@pytest.fixture(scope="module")
def stopped(matches: Stages, tmp_path_factory: pytest.TempPathFactory) -> Stages:
    """The world of `matches` with a stage for each moment, in which its second interval has come that far."""
    for verb in dict(MOMENTS):
        running = matches.copy(tmp_path_factory.mktemp(verb), f"1 {verb}")
        with pytest.MonkeyPatch.context() as patched:
            keep = partial(matches.keep, pipeline=running)
            patched.setattr(import_module(f"rebalance.steps.{verb}"), "checkpoint", keep)
            run_step(verb, running, first_interval(running).shifted(1))
    return matches


@pytest.fixture(scope="module")
def undisturbed(matches: Stages, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What two intervals that nothing has happened to leave behind."""
    return contents(matches.copy(tmp_path_factory.mktemp("undisturbed"), "2 collect_stats"))


@pytest.mark.parametrize("moment", [moment for _, moment in MOMENTS])
def test_a_run_after_a_kill_at_this_moment_leaves_no_trace_of_it(
    stopped: Stages, undisturbed: dict[str, Any], tmp_path: Path, moment: str
) -> None:
    pipeline = stopped.copy(tmp_path, moment)
    run_interval(pipeline, first_interval(pipeline).shifted(1))
    assert contents(pipeline) == undisturbed


@pytest.mark.parametrize(("verb", "moment"), KILLED, ids=[moment for _, moment in KILLED])
def test_a_process_killed_at_this_moment_leaves_what_was_written_by_then_and_no_lock(
    stopped: Stages, tmp_path: Path, verb: str, moment: str
) -> None:
    pipeline = stopped.copy(tmp_path / "killed", f"1 {verb}")
    before = all_epochs(pipeline.tables)
    kill(pipeline, verb, first_interval(pipeline).shifted(1).id, moment)
    assert len(all_epochs(pipeline.tables)) - len(before) == ("epoch published" in moment)
    assert contents(pipeline) == contents(stopped.copy(tmp_path / "stopped", moment))
    with writer_lock(pipeline.tables, patience=0):
        pass


def kill(pipeline: Pipeline, verb: str, interval: str, moment: str) -> None:
    """Run a job in a process of its own that dies at the moment."""
    job = subprocess.run(
        [sys.executable, f"jobs/{verb}.py", "--pipeline", str(pipeline.file), "--interval", interval],
        cwd=PROJECT,
        env={**os.environ, KILL_AT: moment, "PYTHONPATH": str(PROJECT)},
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert job.returncode == -signal.SIGKILL, job.stderr.decode()
