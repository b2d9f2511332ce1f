"""One interval on the clock under several functions, in throwaway tables and the same warm Spark session."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from rebalance.partition import PartitionFunction
from rebalance.pipeline.file import Pipeline
from rebalance.pipeline.intervals import Interval
from rebalance.steps import RESULTS, Insist, run_step
from rebalance.storage.epochs import publish, store_function
from rebalance.storage.history import IntervalRecord, read_history

#: How often each function has its turn: other work on the machine, and a session that is still warming up, disturb a single one.
ROUNDS = 2
#: The tables begin with the window, whatever came before it.
_AS_IT_IS = Insist(skip=True)


def race(
    pipeline: Pipeline, interval: Interval, functions: Mapping[str, PartitionFunction], folder: Path
) -> dict[str, IntervalRecord]:
    """The interval processed under each function in turn, twice; of each the quicker run."""
    for name, function in functions.items():
        _fill_window(pipeline, interval, function, folder / name)
    runs: dict[str, list[IntervalRecord]] = {name: [] for name in functions}
    for number in range(ROUNDS):
        for name, done in runs.items():
            root = shutil.copytree(folder / name, folder / f"{name}-{number}")
            run_step(RESULTS, _with_tables(pipeline, root), interval, _AS_IT_IS)
            done += read_history(str(root), last=1)
    return {name: min(done, key=lambda run: run.seconds) for name, done in runs.items()}


def _fill_window(pipeline: Pipeline, interval: Interval, function: PartitionFunction, root: Path) -> None:
    """Tables that begin with the function and have the state of the window before the interval."""
    stored = store_function(str(root), function, interval.id)
    publish(str(root), None, kind="start", function_version=stored.version, state_version=-1)
    for back in range(pipeline.operator.window - 1, 0, -1):
        if interval.shifted(-back).start >= pipeline.interval.first:
            run_step(RESULTS, _with_tables(pipeline, root), interval.shifted(-back), _AS_IT_IS)


def _with_tables(pipeline: Pipeline, root: Path) -> Pipeline:
    return pipeline.model_copy(update={"tables": str(root)})
