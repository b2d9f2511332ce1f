"""A real process killed in the middle of maintenance: nothing of it counts, no lock stays, and the next run does it all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from rebalance.steps.faults import KILL_AT
from rebalance.steps.maintain import maintain
from rebalance.storage.epochs import all_epochs
from rebalance.storage.state import head_version
from tests.support.upkeep import state_rows
from tests.support.world import Stages

PROJECT = Path(__file__).resolve().parents[2]


def test_a_maintenance_killed_before_its_epoch_is_published_is_rolled_back_and_done_again(
    matches: Stages, tmp_path: Path
) -> None:
    pipeline = matches.copy(tmp_path, "2 process_batch")
    epochs, rows, head = all_epochs(pipeline.tables), state_rows(pipeline), head_version(pipeline.tables)
    killed = subprocess.run(
        [sys.executable, "-m", "rebalance.cli", "maintain", str(pipeline.file)],
        cwd=PROJECT,
        env={**os.environ, KILL_AT: "maintain: state rewritten"},
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert (all_epochs(pipeline.tables), head_version(pipeline.tables)) == (epochs, head + 1)
    assert "written anew" in maintain(pipeline)[0]
    # One version takes the killed one back, one is written again.
    assert [epoch.state_version for epoch in all_epochs(pipeline.tables)][-2:] == [epochs[-1].state_version, head + 3]
    assert state_rows(pipeline).equals(rows)
