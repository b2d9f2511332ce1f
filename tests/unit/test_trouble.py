"""Whoever begins something, trouble with storage or a cluster comes out in words: steps, a person's acts on the past, every command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rebalance.cli import main
from rebalance.errors import DamagedError, EnvironmentMissingError
from rebalance.pipeline.file import Pipeline
from rebalance.spark import resources
from rebalance.steps import run_step
from rebalance.steps.maintain import maintain
from rebalance.steps.rewind import adopt, rewind, undo
from rebalance.steps.trouble import trouble_in_words
from rebalance.storage.epochs import publish
from tests.support.counted import counted_pipeline, first_interval

ENTRIES: dict[str, Callable[[Pipeline], object]] = {
    "a step": lambda pipeline: run_step("make_plan", pipeline, first_interval(pipeline)),
    "maintain": maintain,
    "rewind": lambda pipeline: rewind(pipeline, first_interval(pipeline)),
    "undo": undo,
    "adopt": adopt,
}


@pytest.fixture
def damaged(tmp_path: Path) -> Pipeline:
    """A pipeline with a log entry of which only the first half is there."""
    pipeline = counted_pipeline(tmp_path)
    publish(pipeline.tables, None, kind="start", function_version=0, state_version=-1)
    entry = sorted(Path(pipeline.tables, "epochs", "_delta_log").glob("*.json"))[-1]
    entry.write_bytes(entry.read_bytes()[: entry.stat().st_size // 2])
    return pipeline


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_damaged_table_is_named_whoever_meets_it(damaged: Pipeline, entry: str) -> None:
    with pytest.raises(DamagedError, match=r"the log of the table \S+/epochs cannot be read"):
        ENTRIES[entry](damaged)


@pytest.mark.parametrize("verb", ["status", "inspect", "run", "maintain", "adopt", "approve"])
def test_every_command_names_it_in_a_line(damaged: Pipeline, verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, str(damaged.file)]) == 4
    said = capsys.readouterr().err
    assert said.startswith("DamagedError: the log of the table ")
    assert said.count("\n") == 1


def give_up(root: str) -> None:
    """What the thread that watches a cluster does, while the thread that works fails in another way, one entry within another."""
    with trouble_in_words(root), trouble_in_words(root):
        resources._given_up.append("the master has had no executor at work")
        raise ValueError("job 3 cancelled because no resources")


def test_jobs_that_were_given_up_are_the_cause_whatever_error_they_end_in(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentMissingError, match="no executor at work"):
        give_up(str(tmp_path))


def test_what_was_given_up_before_is_not_said_of_what_fails_later(tmp_path: Path) -> None:
    resources._given_up.append("the master has had no executor at work")
    with pytest.raises(ValueError, match="something else"), trouble_in_words(str(tmp_path)):
        raise ValueError("something else")


def test_a_module_that_an_extra_brings_is_named_with_it(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentMissingError, match="extra 'quality'"), trouble_in_words(str(tmp_path)):
        raise ModuleNotFoundError("No module named 'great_expectations'", name="great_expectations.core")
