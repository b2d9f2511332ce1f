"""Keeps a developer's own Airflow out of the tests: they have one of their own, made anew for each test run."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from rebalance.airflow_run import airflow_environment

_AIRFLOW_HOME = Path(tempfile.mkdtemp(prefix="rebalance-airflow-"))
# Before anything can import airflow, which reads some of its settings only once, when it is imported.
for name in [name for name in os.environ if name.startswith("AIRFLOW__")]:
    del os.environ[name]
os.environ.update(airflow_environment(_AIRFLOW_HOME))


def pytest_unconfigure() -> None:
    """Leave nothing behind."""
    shutil.rmtree(_AIRFLOW_HOME, ignore_errors=True)
