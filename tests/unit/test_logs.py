"""Log lines: plain text, or JSON objects with the figures of what a step says, at the command line, in jobs and in Airflow's log."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from rebalance import steps
from rebalance.cli import main
from rebalance.errors import QualityError
from rebalance.pipeline.file import Pipeline
from rebalance.steps import logs, run_step
from rebalance.steps.run import run_interval
from rebalance.storage import control
from rebalance.storage.epochs import publish
from tests.support.counted import counted_pipeline, first_interval, key_row, put_statistics
from tests.support.logged import json_lines

PROJECT = Path(__file__).resolve().parents[2]
#: What a step logs of a process that Airflow has started for a task: its records go through structlog, as lines of JSON.
IN_AIRFLOW = """
import io, logging, sys
from airflow.sdk.log import configure_logging
configure_logging(json_output=True, output=sys.stdout.buffer)
from rebalance.pipeline.file import load_pipeline
from rebalance.steps import Insist, run_step
pipeline = load_pipeline(sys.argv[1])
interval = pipeline.interval_at(pipeline.interval.first)
run_step("make_plan", pipeline, interval)
logging.getLogger("rebalance").warning("afterwards")
try:
    run_step("migrate_state", pipeline, interval.shifted(1), Insist(now=True, skip=True))
except Exception:
    logging.getLogger("rebalance").exception("it failed")
"""


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    """An interval that is counted and checked, so that it can be planned without Spark; one key has most of the load."""
    pipeline = counted_pipeline(tmp_path)
    interval = first_interval(pipeline)
    publish(pipeline.tables, None, kind="start", function_version=0, state_version=-1)
    put_statistics(pipeline, interval, [key_row(f"key {number}", cost=1.0 + number) for number in range(40)])
    check = {"expectation": "e", "column": "", "severity": "stop", "success": True, "bad_rows": 0, "detail": ""}
    control.append(pipeline.tables, "quality_runs", [{"interval_id": interval.id, **check}])
    return pipeline


def run(*command: str | Path, form: str = "json") -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PYTHONPATH": str(PROJECT), "REBALANCE_LOG": form}
    return subprocess.run([sys.executable, *command], env=environ, capture_output=True, text=True, check=False)


def job(pipeline: Pipeline, number: int = 0, form: str = "json") -> subprocess.CompletedProcess[str]:
    interval = first_interval(pipeline).shifted(number).id
    return run(PROJECT / "jobs" / "make_plan.py", "--pipeline", pipeline.file, "--interval", interval, form=form)


def objects(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def check_line(line: dict[str, Any], stored: dict[str, Any]) -> None:
    """It has where it was, and the figures of the plan as the table has them."""
    assert (line["pipeline"], line["interval"], line["step"]) == ("counted", "20260101T0000Z", "make_plan")
    assert line["level"] == "info"
    assert line["seconds"] > 0
    figures = ("decision", "planner", "theta_before", "theta_after", "routes", "moved_keys", "moved_bytes")
    assert {name: line[name] for name in figures} == {name: stored[name] for name in figures}


def test_a_job_logs_its_step_as_one_object_with_the_figures_of_its_sentence(pipeline: Pipeline) -> None:
    done = job(pipeline)
    assert (done.returncode, done.stdout) == (0, "")
    (line,) = objects(done.stderr)
    (stored,) = control.rows(pipeline.tables, "plans")
    check_line(line, stored)
    assert line["event"] == f"{stored['decision']}: {stored['reason']}"
    assert datetime.fromisoformat(line["time"]).utcoffset() == timedelta(0)


def test_plain_text_is_the_default_and_has_the_same_sentence(pipeline: Pipeline) -> None:
    done = job(pipeline, form="")
    (stored,) = control.rows(pipeline.tables, "plans")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"counted 20260101T0000Z make_plan: {stored['decision']}: {stored['reason']} (")


def test_a_refused_job_is_an_object_that_says_of_which_step(pipeline: Pipeline) -> None:
    done = job(pipeline, 1)
    assert done.returncode == 2
    (line,) = objects(done.stderr)
    assert (line["level"], line["error"], line["step"]) == ("error", "OrderError", "make_plan")
    assert "20260101T0100Z" in line["event"]


def test_a_bug_is_an_object_with_its_traceback(tmp_path: Path) -> None:
    done = run("-c", "from rebalance.steps import logs; logs.set_up(steps=True); 1 / 0")
    assert done.returncode == 1
    (line,) = objects(done.stderr)
    assert (line["level"], line["error"]) == ("critical", "ZeroDivisionError")
    assert "Traceback" in line["exception"]


def test_the_command_line_logs_as_objects_what_it_tells_a_person_in_lines(pipeline: Pipeline) -> None:
    done = run("-m", "rebalance.cli", "adopt", pipeline.file)
    (line,) = objects(done.stderr)
    assert line["event"].startswith("from epoch 1 on the state means")
    assert done.stdout == ""
    assert run("-m", "rebalance.cli", "adopt", pipeline.file, form="text").stdout.startswith("the state means")


def test_a_run_without_airflow_logs_an_object_for_each_step_and_says_nothing_besides(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    def function_of(name: str) -> Callable[..., str]:
        def step(pipeline: object, interval: object, insist: object) -> str:
            if name == "check_quality":
                raise QualityError("3 keys are null")
            return f"{name} done"

        return step

    monkeypatch.setattr(steps, "function_of", function_of)
    monkeypatch.setenv(logs.VARIABLE, "json")
    said: list[str] = []
    with json_lines() as lines:
        run_interval(pipeline, first_interval(pipeline), say=said.append)
    assert said == []
    assert [(line["level"], line["step"]) for line in lines] == [
        ("info", "collect_stats"),
        ("warning", "check_quality"),
        ("info", "process_batch"),
    ]
    assert "3 keys are null" in lines[1]["exception"]


def test_any_other_form_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv(logs.VARIABLE, "xml")
    assert main(["status", "nowhere"]) == 2
    assert (
        capsys.readouterr().err
        == "ConfigError: the environment variable REBALANCE_LOG is 'xml'. Set it to text or json.\n"
    )


def test_what_is_logged_while_a_step_is_at_work_says_of_which_and_later_lines_do_not(pipeline: Pipeline) -> None:
    interval = first_interval(pipeline)
    with json_lines() as lines:
        with logs.at(pipeline="p", interval="i", step="s"):
            logs.note(rows=3, share=float("nan"))
            logs.log.warning("two\nlines")
            logs.done("p i s: done (0.1 s)", "done", 0.1234)
        logs.log.warning("later")
        run_step("make_plan", pipeline, interval)
    inside, done, later, step = lines
    assert (inside["event"], inside["pipeline"], inside["interval"], inside["step"]) == ("two\nlines", "p", "i", "s")
    assert (done["event"], done["rows"], done["share"], done["seconds"]) == ("done", 3, None, 0.123)
    assert not {"pipeline", "step", "rows"} & set(later)
    assert "rows" not in step


def test_in_airflow_the_fields_of_a_step_are_fields_of_the_task_s_log(pipeline: Pipeline, tmp_path: Path) -> None:
    level = {"AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO"}
    environ = {**os.environ, **level, "AIRFLOW_HOME": str(tmp_path / "airflow"), "PYTHONPATH": str(PROJECT)}
    command = [sys.executable, "-c", IN_AIRFLOW, pipeline.file]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    ours = [line for line in objects(done.stdout) if line.get("logger") == "rebalance"]
    step, afterwards, failed = ours
    (stored,) = control.rows(pipeline.tables, "plans")
    check_line(step, stored)
    assert stored["reason"] in step["event"]
    assert not {"pipeline", "seconds", "decision"} & set(afterwards)
    assert (failed["interval"], failed["step"]) == ("20260101T0100Z", "migrate_state")
