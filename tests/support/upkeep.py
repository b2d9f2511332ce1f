"""Tables as maintenance finds them after a while."""

from __future__ import annotations

import os
import time
from pathlib import Path

import polars as pl

from rebalance.pipeline.file import Pipeline
from rebalance.storage.epochs import current_epoch
from tests.support.world import stored

DAY = 24 * 3600


def let_time_pass(pipeline: Pipeline, seconds: float = 2 * DAY) -> None:
    """As if everything had been written that much earlier."""
    then = time.time() - seconds
    for path in sorted(Path(pipeline.tables).rglob("*")):
        os.utime(path, (then, then))


def all_files(pipeline: Pipeline) -> dict[str, int]:
    """Every file under the tables with its size; the lock's own is left out."""
    root = Path(pipeline.tables)
    files = (path for path in root.rglob("*") if path.is_file() and "_locks" not in path.parts)
    return {str(path.relative_to(root)): path.stat().st_size for path in sorted(files)}


def state_rows(pipeline: Pipeline) -> pl.DataFrame:
    """What the active epoch's state holds, wherever it lies."""
    epoch = current_epoch(pipeline.tables)
    assert epoch is not None
    found = stored(pipeline, "state", version=epoch.state_version).drop("channel")
    return found.sort(found.columns)
