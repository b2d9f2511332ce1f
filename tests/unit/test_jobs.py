"""The steps, their names and their command line; the work itself is tested with Spark."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rebalance import steps
from rebalance.errors import QualityError
from rebalance.pipeline.file import load_pipeline
from rebalance.steps.command import main

PROJECT = Path(__file__).resolve().parents[2]
DEMO = PROJECT / "dags" / "pipelines" / "demo.toml"
ARGUMENTS = ["--pipeline", str(DEMO), "--interval", "20260101T0000Z"]
NAMES = [step.name for step in steps.STEPS]


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., str]], None]:
    """Puts a function in the place of every step's."""
    return lambda function: monkeypatch.setattr(steps, "function_of", lambda name: function)


def test_naming_the_steps_imports_nothing_heavy() -> None:
    code = (
        "import sys, rebalance.steps; "
        "heavy = {'deltalake', 'great_expectations', 'pandas', 'pyarrow', 'pyspark'} & sys.modules.keys(); "
        "sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_a_step_is_a_function_of_its_own_name(name: str) -> None:
    function: Any = steps.function_of(name)
    assert (function.__module__, function.__name__) == (f"rebalance.steps.{name}", name)


def test_a_step_is_called_with_the_pipeline_and_the_interval_and_logs_what_it_did(
    pretend: Callable[[Callable[..., str]], None], caplog: pytest.LogCaptureFixture
) -> None:
    pipeline = load_pipeline(DEMO)
    interval = pipeline.interval_at(pipeline.interval.first).shifted(5)
    pretend(lambda pipeline, interval: f"keep: {pipeline.name} at {interval.id}")
    with caplog.at_level("INFO", logger="rebalance"):
        assert steps.run_step("make_plan", pipeline, interval) == "keep: demo at 20260101T0500Z"
    assert caplog.messages[0].startswith("demo 20260101T0500Z make_plan: keep: demo at 20260101T0500Z (")


def test_every_step_has_a_job_file_and_every_job_file_a_step() -> None:
    assert {file.name for file in (PROJECT / "jobs").iterdir() if file.name != "__pycache__"} == {
        f"{name}.py" for name in NAMES
    }


@pytest.mark.parametrize("name", NAMES)
def test_a_job_file_runs_as_a_plain_script_and_explains_its_two_arguments(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, PROJECT / "jobs" / f"{name}.py", "--help"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "--pipeline FILE" in done.stdout
    assert "--interval START" in done.stdout


def test_the_wheel_installs_one_package() -> None:
    """A second one at the top, such as `jobs`, would be in the way of everybody else's."""
    settings = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    assert settings["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == ["rebalance"]


def test_success_is_exit_code_0(pretend: Callable[[Callable[..., str]], None]) -> None:
    pretend(lambda pipeline, interval: "done")
    assert main("make_plan", ARGUMENTS) == 0


def test_trouble_with_a_plain_message_is_one_line_and_exit_code_2(
    pretend: Callable[[Callable[..., str]], None], capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(pipeline: Any, interval: Any) -> str:
        raise QualityError("3 keys are null")

    pretend(refuse)
    assert main("make_plan", ARGUMENTS) == 2
    assert capsys.readouterr().err == "QualityError: 3 keys are null\n"


def test_a_bug_keeps_its_traceback(pretend: Callable[[Callable[..., str]], None]) -> None:
    pretend(lambda pipeline, interval: str(1 / 0))
    with pytest.raises(ZeroDivisionError):
        main("make_plan", ARGUMENTS)


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
    assert main("make_plan", arguments) == 2
    assert complaint in capsys.readouterr().err
