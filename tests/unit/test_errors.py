"""Which trouble is final: a retry cannot cure it."""

from __future__ import annotations

import inspect

import pytest

from rebalance import errors

FINAL = {
    "RebalanceError": False,
    # Somebody has to change the file, the source, the operator or the planner, or run another step first.
    "ConfigError": True,
    "SourceError": True,
    "OrderError": True,
    "SkippedError": True,
    "QualityError": True,
    "PlannerError": True,
    "StalePlanError": True,
    "OperatorError": True,
    "ForeignCommitError": True,
    "DamagedError": True,
    # What was to be done is done already, by another process.
    "OvertakenError": True,
    # Passes by itself: the interval's time comes, the move is made anew, the other writer ends, the next try finds the machine as it should be.
    "NotClosedError": False,
    "MigrationError": False,
    "LockedError": False,
    "EnvironmentMissingError": False,
    "StoreError": False,
}
CLASSES = {
    name: found
    for name, found in inspect.getmembers(errors, inspect.isclass)
    if issubclass(found, errors.RebalanceError)
}


@pytest.mark.parametrize("name", CLASSES)
def test_an_error_says_whether_a_retry_can_cure_it(name: str) -> None:
    assert CLASSES[name].final is FINAL[name]
