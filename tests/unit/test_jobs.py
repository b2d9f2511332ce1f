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
from rebalance.cli import main as rebalance
from rebalance.errors import QualityError, SourceError
from rebalance.pipeline.file import load_pipeline
from rebalance.steps.command import main
from rebalance.steps.exits import PERSON
from rebalance.steps.run import next_interval, run_interval
from rebalance.storage.epochs import publish

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
    pretend(lambda pipeline, interval, insist: f"keep: {pipeline.name} at {interval.id}")
    with caplog.at_level("INFO", logger="rebalance"):
        assert steps.run_step("make_plan", pipeline, interval) == "keep: demo at 20260101T0500Z"
    assert caplog.messages[0].startswith("demo 20260101T0500Z make_plan: keep: demo at 20260101T0500Z (")


def test_an_interval_is_planned_before_it_is_processed() -> None:
    assert [step.name for step in steps.steps_of(load_pipeline(DEMO))] == [
        "collect_stats",
        "check_quality",
        "make_plan",
        "migrate_state",
        "process_batch",
    ]


def test_a_pipeline_may_have_its_results_first_and_the_plan_for_the_next_interval() -> None:
    pipeline = load_pipeline(DEMO, {"planning": {"when": "after"}})
    assert [step.name for step in steps.steps_of(pipeline)] == [
        "process_batch",
        "collect_stats",
        "check_quality",
        "make_plan",
        "migrate_state",
    ]


@pytest.fixture
def steps_that(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, Exception]], list[str]]:
    """Puts stand-ins in the place of all steps: those named fail; returns the list of those that were run."""

    def replace(failing: dict[str, Exception]) -> list[str]:
        ran: list[str] = []

        def function_of(name: str) -> Callable[..., str]:
            def run(pipeline: object, interval: object, insist: object) -> str:
                ran.append(name)
                if name in failing:
                    raise failing[name]
                return "done"

            return run

        monkeypatch.setattr(steps, "function_of", function_of)
        return ran

    return replace


StepsThat = Callable[[dict[str, Exception]], list[str]]


@pytest.mark.parametrize("trouble", [QualityError("3 keys are [null]"), ZeroDivisionError("division by zero")])
@pytest.mark.parametrize("number", range(4))
def test_results_are_made_whatever_step_that_plans_fails(
    steps_that: StepsThat, number: int, trouble: Exception
) -> None:
    pipeline, said = load_pipeline(DEMO), list[str]()
    ran = steps_that({NAMES[number]: trouble})
    why = run_interval(pipeline, pipeline.interval_at(pipeline.interval.first), said.append)
    assert ran == [*NAMES[: number + 1], "process_batch"]
    assert why == f"{NAMES[number]}: {type(trouble).__name__}: {trouble}"
    assert f"WARNING, not planned: {type(trouble).__name__}: {trouble}" in said[number]


def test_a_bug_in_a_step_that_plans_leaves_its_traceback_in_the_log(
    steps_that: StepsThat, caplog: pytest.LogCaptureFixture
) -> None:
    pipeline = load_pipeline(DEMO)
    bug = ZeroDivisionError("division by zero")
    steps_that({"make_plan": bug})
    run_interval(pipeline, pipeline.interval_at(pipeline.interval.first), lambda text: None)
    # Not the text: PySpark, where another test has imported it, formats every handler's records in a way of its own.
    assert [record.exc_info[1] for record in caplog.records if record.exc_info] == [bug]


def run_command(*more: str) -> int:
    return rebalance(["run", str(DEMO), "--from", "20260101T0000Z", "--intervals", "3", *more])


def test_rebalance_run_says_what_was_not_planned_and_ends_with_0_since_all_results_are_there(
    steps_that: StepsThat, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = steps_that({"check_quality": QualityError("3 keys are [null]")})
    assert run_command() == 0
    said = capsys.readouterr().out
    assert ran.count("process_batch") == 3
    assert "not planned, with complete results: 3 of 3 intervals" in said
    assert "  20260101T0200Z check_quality: QualityError: 3 keys are [null]\n" in said
    assert "3 intervals done: all results are there." in said


def test_rebalance_run_says_nothing_of_plans_when_all_went_well(
    steps_that: StepsThat, capsys: pytest.CaptureFixture[str]
) -> None:
    steps_that({})
    assert run_command() == 0
    assert "not planned" not in capsys.readouterr().out


def test_rebalance_run_stops_where_results_are_missing(
    steps_that: StepsThat, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = steps_that({"process_batch": SourceError("the events are gone")})
    assert run_command() == 4
    assert capsys.readouterr().err == "SourceError: the events are gone\n"
    assert ran.count("process_batch") == 1


def test_mode_approve_runs_without_airflow_too(
    steps_that: StepsThat, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = steps_that({})
    file = tmp_path / "asking.toml"
    file.write_text(DEMO.read_text().replace('mode = "auto"', 'mode = "approve"'))
    assert load_pipeline(file).planning.mode == "approve"
    assert rebalance(["run", str(file), "--from", "20260101T0000Z", "--intervals", "1"]) == 0
    assert ran == NAMES


def test_the_next_interval_is_the_one_after_the_last_that_has_results(tmp_path: Path) -> None:
    file = tmp_path / "demo.toml"
    file.write_text(DEMO.read_text())
    pipeline = load_pipeline(file, {}).model_copy(update={"tables": str(tmp_path / "tables")})
    first = pipeline.interval_at(pipeline.interval.first)
    assert next_interval(pipeline) == first
    versions = {"function_version": 0, "state_version": 0}
    epoch = publish(pipeline.tables, None, kind="start", **versions)
    epoch = publish(pipeline.tables, epoch, kind="migrate", interval_id=first.id, **versions)
    assert next_interval(pipeline) == first, "its state was moved, but it was not processed"
    epoch = publish(pipeline.tables, epoch, kind="process", interval_id=first.id, **versions)
    assert next_interval(pipeline) == first.shifted(1)
    publish(pipeline.tables, epoch, kind="migrate", interval_id=first.id, **versions)
    assert next_interval(pipeline) == first.shifted(1), "planned after it was processed"


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
    pretend(lambda pipeline, interval, insist: "done")
    assert main("make_plan", ARGUMENTS) == 0


def test_trouble_with_a_plain_message_is_one_line_and_an_exit_code_that_says_who_can_help(
    pretend: Callable[[Callable[..., str]], None], capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(pipeline: Any, interval: Any, insist: Any) -> str:
        raise QualityError("3 keys are null")

    pretend(refuse)
    assert main("make_plan", ARGUMENTS) == PERSON
    assert capsys.readouterr().err == "QualityError: 3 keys are null\n"


def test_a_bug_keeps_its_traceback(pretend: Callable[[Callable[..., str]], None]) -> None:
    pretend(lambda pipeline, interval, insist: str(1 / 0))
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
