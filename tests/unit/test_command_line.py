"""The command line for programs and shells: JSON, exit codes, Ctrl-C, completion, progress, colours."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from rebalance import errors
from rebalance.cli import entry, main
from rebalance.cli.output import progress
from rebalance.errors import RebalanceError
from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.steps import run as running
from rebalance.steps.exits import CODES, code_of
from rebalance.steps.run import StepDone, run_intervals
from rebalance.storage.approvals import ever_approved
from rebalance.storage.lock import writer_lock
from tests.support.many_intervals import write_history
from tests.support.markdown import PROJECT, tables


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    """Four intervals; the newest plan waits for an answer."""
    return write_history(tmp_path, 4, 4, keys=200, pending=True)


def all_errors() -> list[type[RebalanceError]]:
    return [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, RebalanceError)]


@pytest.mark.parametrize(
    ("words", "has"),
    [
        (["status"], {"card", "epoch", "function", "intervals"}),
        (["plan", "--dry-run", "--planner", "keep"], {"knobs", "now", "plans"}),
        (["plan"], {"said", "interval"}),
        (["approve", "--who", "Ann"], {"plan", "said"}),
        (["inspect"], {"tables", "epochs", "newest"}),
        (["explain"], {"plan_id", "considered", "flows"}),
        (["explain", "user-0000007"], {"key", "why", "history"}),
        (["adopt"], {"said"}),
        (["maintain", "--dry-run"], {"said"}),
        (["rewind", "--to", "20260101T0300Z"], {"said"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_every_verb_prints_one_json_document_in_utf_8(
    pipeline: Pipeline, capsysbinary: pytest.CaptureFixture[bytes], words: list[str], has: set[str]
) -> None:
    verb, *more = words
    if words == ["plan"]:
        # As before it was planned: what is checked and not processed yet is planned anew.
        assert main(["rewind", str(pipeline.file), "--to", "20260101T0300Z"]) == 0
        capsysbinary.readouterr()
    assert main([verb, str(pipeline.file), *more, "--json"]) == 0
    printed = capsysbinary.readouterr()
    document = json.loads(printed.out.decode("utf-8"))
    assert has <= document.keys()
    assert printed.err == b""


def test_init_and_completion_have_json_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import polars as pl

    monkeypatch.chdir(tmp_path)
    rows = {"ts": ["2026-01-01T00:00:00"] * 3, "user": ["a", "b", "a"]}
    pl.DataFrame(rows).with_columns(pl.col("ts").str.to_datetime()).write_parquet("events.parquet")
    assert main(["init", "shop", "--source", "events.parquet", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["name"], Path(found["file"]).name) == ("shop", "shop.toml")
    assert main(["completion", "fish", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["shell"] == "fish"


Steps = Callable[[dict[int, Exception]], None]


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    """Steps that do nothing but fail where they are told to, by their number."""

    def replace(failing: dict[int, Exception]) -> None:
        count = iter(range(1000))

        def run(step: str, pipeline: Pipeline, interval: Any, insist: Any) -> str:
            error = failing.get(next(count))
            if error is not None:
                raise error
            return f"{step} → done"

        monkeypatch.setattr(running, "run_and_tell", run)

    return replace


def test_run_prints_a_line_of_json_for_each_step(
    tmp_path: Path, steps: Steps, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline = write_history(tmp_path, 1, 2, keys=20)
    steps({6: errors.QualityError("3 keys are null")})
    assert main(["run", str(pipeline.file), "--intervals", "2", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["interval"] for line in lines] == ["20260101T0100Z"] * 5 + ["20260101T0200Z"] * 3
    assert [line["step"] for line in lines[5:]] == ["collect_stats", "check_quality", "process_batch"]
    assert [line["failed"] for line in lines] == [False] * 6 + [True, False]
    assert (lines[0]["said"], lines[6]["said"]) == ("collect_stats → done", "QualityError: 3 keys are null")


LATER = {errors.LockedError, errors.NotClosedError, errors.OvertakenError, errors.StoreError}
WRONG = {RebalanceError, errors.ConfigError, errors.OrderError, errors.SkippedError, errors.StalePlanError}


@pytest.mark.parametrize("kind", all_errors(), ids=lambda kind: kind.__name__)
def test_the_exit_code_says_who_can_help(
    kind: type[RebalanceError], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise kind("what happened, and what to do")

    monkeypatch.setattr(entry, "tell", fail)
    expected = 3 if kind in LATER else 2 if kind in WRONG else 4
    assert main(["completion", "bash"]) == code_of(kind()) == expected
    assert capsys.readouterr().err == f"{kind.__name__}: what happened, and what to do\n"


def test_the_exit_codes_are_in_the_help_and_on_the_page_of_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert all(f"  {code:<4} {meaning}\n" in said for code, meaning in CODES.items())
    page = (PROJECT / "docs" / "reference" / "commands.md").read_text()
    (rows,) = [rows for (head, *rows) in tables(page) if head[0] == "code"]
    assert [int(code) for code, _ in rows] == list(CODES)


def test_wrong_words_end_with_2_as_everything_that_cannot_be(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["rewnd", "demo"])
    assert ended.value.code == 2
    assert main(["status", "nobody"]) == 2


def rebalance(*words: str) -> list[str]:
    return [sys.executable, "-m", "rebalance.cli", *words]


def test_ctrl_c_ends_without_a_traceback(pipeline: Pipeline) -> None:
    with writer_lock(pipeline.tables):
        # It waits for the lock until it is interrupted.
        words = rebalance("rewind", str(pipeline.file), "--to", "20260101T0300Z")
        process = subprocess.Popen(words, cwd=PROJECT, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        waiting_for = Path(pipeline.tables, "_locks", "writer.lock").resolve()
        files = Path(f"/proc/{process.pid}/fd")
        while waiting_for not in {file.resolve() for file in files.iterdir()}:
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        said, complaint = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, "")
    assert complaint == "Interrupted. What was published counts; run the command again to go on.\n"


def test_progress_tells_which_interval_of_how_many_and_the_time_left_by_the_median(
    tmp_path: Path, steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = load_pipeline(write_history(tmp_path, 1, 2, keys=20).file)
    steps({})
    # Each interval asks the clock when it begins and when it ends, and so does each of its five steps.
    took = [10.0, 30.0, 20.0]
    ticks = iter([tick for seconds in took for tick in (0.0, *[0.0] * 10, seconds)])
    monkeypatch.setattr(running.time, "perf_counter", lambda: next(ticks))
    told: list[tuple[str, int, int, float | None]] = []
    run_intervals(pipeline, count=3, say=lambda _: None, begins=lambda *what: told.append(what))
    assert told == [
        ("20260101T0100Z", 1, 3, None),
        ("20260101T0200Z", 2, 3, 20.0),
        ("20260101T0300Z", 3, 3, 20.0),
    ]


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_is_shown_on_a_terminal_only(terminal: bool) -> None:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=100)
    with progress(console) as begins:
        begins("20260101T0100Z", 2, 3, 95.0)
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert ("interval 2 of 3, about 1 min 35 s left" in shown) is terminal
    assert bool(shown) is terminal


def on_a_terminal(words: list[str], environ: dict[str, str]) -> str:
    """What a command writes to a terminal of its own."""
    ours, its = pty.openpty()
    process = subprocess.Popen(words, cwd=PROJECT, stdout=its, stderr=its, env=environ)
    os.close(its)
    written = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:
            # Its last writer has gone.
            break
        if not part:
            break
        written += part
    os.close(ours)
    assert process.wait() == 0
    return written.decode()


def test_colours_are_for_terminals_and_never_with_no_color(pipeline: Pipeline) -> None:
    environ = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    environ |= {"TERM": "xterm-256color", "COLUMNS": "100"}
    words = rebalance("approve", str(pipeline.file))
    piped = subprocess.run(
        words, cwd=PROJECT, env={**environ, "FORCE_COLOR": "1"}, capture_output=True, text=True, check=True
    )
    assert "\x1b" not in piped.stdout
    plan = ever_approved(pipeline.tables)[0]
    rejecting = [*words, plan, "--reject"]
    colour = re.compile(r"\x1b\[[\d;]*3\d[\d;]*m")
    assert colour.search(on_a_terminal(rejecting, environ))
    assert not colour.search(on_a_terminal(rejecting, {**environ, "NO_COLOR": "1"}))


def test_a_step_s_line_says_what_it_did_or_why_not() -> None:
    assert (
        str(StepDone("20260101T0000Z", "make_plan", 1.25, "keep", failed=False))
        == "20260101T0000Z make_plan       1.2 s  keep"
    )
    failed = StepDone("20260101T0000Z", "make_plan", 0.0, "PlannerError: x", failed=True)
    assert str(failed).endswith("WARNING, not planned: PlannerError: x")
