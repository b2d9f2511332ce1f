"""What several unit tests share: a pipeline's tables as many intervals leave them, written by hand."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rebalance.pipeline.file import Pipeline, load_pipeline
from tests.support.many_intervals import write_history


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """Twelve intervals on eight channels; the newest plan waits for an answer. Only to be read."""
    return write_history(tmp_path_factory.mktemp("few"), 12, 8, pending=True)


@pytest.fixture
def own(written: Pipeline, tmp_path: Path) -> Pipeline:
    """The same, to be changed."""
    shutil.copytree(written.file.parent, tmp_path, dirs_exist_ok=True)
    return load_pipeline(tmp_path / written.file.name)
