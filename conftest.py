"""Keeps a developer's own Airflow out of the tests, which have one of their own, made anew for each run; and makes their Javas quick."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from _pytest import runner

import __main__
from rebalance.demo.in_process import airflow_environment

_AIRFLOW_HOME = Path(tempfile.mkdtemp(prefix="rebalance-airflow-"))
# Before anything can import airflow, which reads some of its settings only once, when it is imported.
for name in [name for name in os.environ if name.startswith("AIRFLOW__")]:
    del os.environ[name]
os.environ.update(airflow_environment(_AIRFLOW_HOME))

# Every Java that a test starts lives for a minute or some, on few cores: compiling as if it ran for days costs more than it brings.
# Compiling so simply, Java keeps 48 MB for code alone, which Spark's generated classes fill: it would throw out and compile again.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m")

# pytest writes the name of every test into the environment. A thread of delta-rs' or obstore's that asks it for something meanwhile, as for
# looking up a host, ends the process: the C library changes it in place. So the name stays the same; Airflow only asks whether there is one.
os.environ["PYTEST_CURRENT_TEST"] = "a test"
runner._update_current_test_var = lambda item, when: None  # type: ignore[attr-defined]

# A process of pytest-xdist has no main file, which PySpark takes for a doctest of its own: it would end the process.
if not hasattr(__main__, "__file__"):
    __main__.__file__ = __file__


def pytest_addoption(parser: pytest.Parser) -> None:
    """How long the planners' runs through Spark are."""
    parser.addoption(
        "--intervals",
        type=int,
        help="intervals each planner goes through Spark and Delta; without it three, in a long run ten",
    )


def pytest_unconfigure() -> None:
    """Leave nothing behind."""
    shutil.rmtree(_AIRFLOW_HOME, ignore_errors=True)
