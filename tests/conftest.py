"""What all tests share: one Spark session for the whole run, and examples that are the same every time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.support.budget import cases

if TYPE_CHECKING:
    from tests.support.s3 import S3
    from tests.support.world import Stages

# The same examples on every machine and in every run, no time limits: a failure is a fault of the code, never of the day.
settings.register_profile("tests", derandomize=True, deadline=None, database=None, max_examples=cases(50, long=200))
settings.load_profile("tests")


@pytest.fixture(scope="session")
def spark() -> Iterator[object]:
    """The one Spark session; whatever asks `spark_session()` for one gets the same. It has the jars for S3, as only a new one can get them."""
    from rebalance.spark import session
    from rebalance.spark.environment import packages_folder
    from rebalance.spark.jars import S3_PACKAGES

    defaults = pytest.MonkeyPatch()
    defaults.setitem(session.DEFAULTS, "spark.driver.memory", "2g")
    defaults.setitem(session.DEFAULTS, "spark.jars", ",".join(map(str, packages_folder(S3_PACKAGES).glob("*.jar"))))
    started = session.spark_session()
    defaults.undo()
    yield started
    started.stop()


@pytest.fixture(scope="session")
def matches(spark: object, tmp_path_factory: pytest.TempPathFactory) -> Stages:
    """Three drifting intervals of latest_match on four channels, verb by verb: what most tests with Spark start from."""
    from tests.support.world import make_world, run_in_stages

    pipeline = make_world(tmp_path_factory.mktemp("matches"), intervals=3)
    return run_in_stages(pipeline, tmp_path_factory.mktemp("stages"), 3)


@pytest.fixture(scope="session")
def s3() -> Iterator[S3]:
    """An S3 server for the whole run, with one bucket."""
    from tests.support.s3 import s3_server

    with s3_server() as server:
        yield server


@pytest.fixture
def project() -> Path:
    """The project's folder."""
    return Path(__file__).resolve().parents[1]


@pytest.fixture(autouse=True)
def _own_environment() -> Iterator[None]:
    """A test's changes to the environment end with it."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)
