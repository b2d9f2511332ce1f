"""The five jobs' command line; the work itself is tested with Spark."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from jobs import command
from rebalance.airflow.page import VERBS
from rebalance.errors import QualityError

DEMO = Path(__file__).resolve().parents[2] / "dags" / "pipelines" / "demo.toml"
ARGUMENTS = ["--pipeline", str(DEMO), "--interval", "20260101T0000Z"]


def test_every_verb_has_a_job_and_every_job_a_verb() -> None:
    jobs = {file.stem for file in (DEMO.parents[2] / "jobs").glob("*.py")} - {"__init__", "command"}
    assert jobs == set(VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_a_job_explains_its_two_arguments(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    job = importlib.import_module(f"jobs.{verb}")
    with pytest.raises(SystemExit, match="0"):
        job.main(["--help"])
    said = capsys.readouterr().out
    assert job.__doc__.split()[0] in said
    assert "--pipeline FILE" in said
    assert "--interval START" in said


def test_a_verb_is_called_with_the_pipeline_and_the_interval_and_logs_what_it_did(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen: list[Any] = []

    def make_plan(pipeline: Any, interval: Any) -> str:
        seen.extend((pipeline.name, interval.id))
        return "keep: all is well"

    with caplog.at_level("INFO", logger="rebalance"):
        assert command.run_verb(make_plan, str(DEMO), "2026-01-01T05:00") == "keep: all is well"
    assert seen == ["demo", "20260101T0500Z"]
    assert caplog.messages[0].startswith("demo 20260101T0500Z make_plan: keep: all is well (")


def test_success_is_exit_code_0() -> None:
    assert command.command(lambda pipeline, interval: "done", "about", ARGUMENTS) == 0


def test_trouble_with_a_plain_message_is_one_line_and_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    def run(pipeline: str, interval: str) -> str:
        raise QualityError("3 keys are null")

    assert command.command(run, "about", ARGUMENTS) == 2
    assert capsys.readouterr().err == "QualityError: 3 keys are null\n"


def test_a_bug_keeps_its_traceback() -> None:
    def run(pipeline: str, interval: str) -> str:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        command.command(run, "about", ARGUMENTS)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--pipeline", "nowhere.toml", "--interval", "20260101T0000Z"], "there is no pipeline file"),
        (["--pipeline", str(DEMO), "--interval", "tomorrow"], "'tomorrow' is not a time"),
        (["--pipeline", str(DEMO), "--interval", "20260101T0030Z"], "no interval starts at"),
    ],
    ids=["no such file", "not a time", "between two intervals"],
)
def test_wrong_arguments_are_refused_before_spark_starts(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from jobs import make_plan

    assert make_plan.main(arguments) == 2
    assert complaint in capsys.readouterr().err
