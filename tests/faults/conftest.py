"""What random kills have in common: who is killed, what must be left all the same, and somebody who reads meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.support.reading import Reader, state_of
from tests.support.victims import STORY, Victims, act
from tests.support.world import Stages, contents, first_interval


@pytest.fixture(scope="package")
def victims(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victims]:
    with closing(Victims(tmp_path_factory.mktemp("victims") / "log")) as started:
        yield started


@pytest.fixture(scope="package")
def expected(matches: Stages, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What each part of the story leaves behind when nothing happens to it."""
    pipeline = matches.copy(tmp_path_factory.mktemp("undisturbed"), "1 collect_stats")
    found = {}
    for name in STORY:
        act(name, pipeline, first_interval(pipeline).shifted(1))
        found[name] = contents(pipeline)
    return found


@pytest.fixture(scope="package")
def reader(matches: Stages, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """Somebody who knows the state after each interval."""
    folder = tmp_path_factory.mktemp("states")
    for number in range(2):
        pipeline = matches.copy(folder / str(number), f"{number + 1} collect_stats")
        state_of(pipeline.tables).write_parquet(folder / f"{first_interval(pipeline).shifted(number).id}.parquet")
    with closing(Reader(folder)) as started:
        yield started
