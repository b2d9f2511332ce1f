"""Whose turn it is: closed intervals, one after the other, unless a person insists; and that the clock only ever delays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from rebalance import steps
from rebalance.cli import main
from rebalance.errors import NotClosedError, OrderError, SkippedError
from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.pipeline.intervals import Interval
from rebalance.steps import AS_USUAL, STEPS, Insist, run, turn
from rebalance.steps.command import main as job
from rebalance.steps.exits import LATER, WRONG
from rebalance.steps.rewind import rewind, undo
from rebalance.steps.turn import insisted_on, its_turn, missing_before, require_closed
from rebalance.storage.epochs import all_epochs, current_epoch, processed_ids, publish
from tests.support.counted import counted_pipeline, first_interval

NAMES = [step.name for step in STEPS]
START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    pipeline = counted_pipeline(tmp_path)
    publish(pipeline.tables, None, kind="start", function_version=0, state_version=-1)
    return pipeline


def process(pipeline: Pipeline, number: int, insist: Insist = AS_USUAL) -> Interval:
    """What process_batch publishes, without its work."""
    interval = first_interval(pipeline).shifted(number)
    with its_turn(pipeline, interval, insist):
        epoch = current_epoch(pipeline.tables)
        missing = missing_before(pipeline, interval, epoch)
        since = interval.shifted(-missing).id if missing else ""
        versions = {"function_version": 0, "state_version": -1}
        publish(pipeline.tables, epoch, kind="process", interval_id=interval.id, skipped_from=since, **versions)  # type: ignore[arg-type]
    return interval


def set_clock(monkeypatch: pytest.MonkeyPatch, *times: datetime) -> None:
    """The clock says these times one after the other, and the last one from then on."""
    left = list(times)
    monkeypatch.setattr(turn, "now", lambda: left.pop(0) if len(left) > 1 else left[0])


@pytest.mark.parametrize("grace", [timedelta(0), timedelta(minutes=10), timedelta(hours=3)], ids=str)
def test_an_interval_is_closed_when_its_grace_has_passed_and_not_a_moment_before(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, grace: timedelta
) -> None:
    pipeline = pipeline.model_copy(update={"interval": pipeline.interval.model_copy(update={"grace": grace})})
    first = first_interval(pipeline)
    set_clock(monkeypatch, first.end + grace)
    require_closed(pipeline, first, AS_USUAL)
    set_clock(monkeypatch, first.end + grace - timedelta(microseconds=1))
    with pytest.raises(NotClosedError, match="0:00:01 are missing"):
        require_closed(pipeline, first, AS_USUAL)
    require_closed(pipeline, first, Insist(now=True))


def test_an_open_interval_is_refused_with_what_is_missing_and_how_to_insist(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_clock(monkeypatch, START + timedelta(minutes=58, seconds=30))
    with pytest.raises(NotClosedError) as refused:
        process(pipeline, 0)
    assert not refused.value.final, "time alone cures it"
    for part in ("ends at 2026-01-01 01:00 UTC", "0:10:00 after that (interval.grace)", "00:58:30", "0:11:30", "--now"):
        assert part in str(refused.value)
    assert processed_ids(pipeline.tables) == []
    interval = process(pipeline, 0, Insist(now=True))
    assert "it was not closed yet" in insisted_on(pipeline, interval, 0)


@pytest.mark.parametrize("step", NAMES)
def test_every_step_asks_before_anything_else(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    function = steps.function_of(step)
    with pytest.raises(OrderError, match="missing before it is 20260101T0000Z"):
        function(pipeline, first_interval(pipeline).shifted(1), AS_USUAL)
    set_clock(monkeypatch, START)
    with pytest.raises(NotClosedError):
        function(pipeline, first_interval(pipeline), AS_USUAL)


def test_a_gap_is_refused_with_the_missing_intervals_and_skip_says_that_it_is_meant(pipeline: Pipeline) -> None:
    process(pipeline, 0)
    with pytest.raises(OrderError) as refused:
        process(pipeline, 3)
    assert refused.value.final
    for part in (
        "does not follow 20260101T0000Z",
        "missing before it are 20260101T0100Z, 20260101T0200Z.",
        "Run them first",
        "--skip",
    ):
        assert part in str(refused.value)
    interval = process(pipeline, 3, Insist(skip=True))
    assert insisted_on(pipeline, interval, 2) == "; left out on purpose: 20260101T0100Z, 20260101T0200Z"
    process(pipeline, 4)
    assert [epoch.skipped_from for epoch in all_epochs(pipeline.tables)] == ["", "", "20260101T0100Z", ""]


def test_of_many_missing_intervals_the_first_and_the_last_are_named(pipeline: Pipeline) -> None:
    with pytest.raises(OrderError) as refused:
        process(pipeline, 10**6, Insist(now=True))
    assert "1,000,000 intervals, 20260101T0000Z, 20260101T0100Z, 20260101T0200Z, …, " in str(refused.value)
    assert len(str(refused.value)) < 700


def test_a_pipeline_begins_with_its_first_interval_unless_a_person_says_otherwise(pipeline: Pipeline) -> None:
    with pytest.raises(
        OrderError, match=r"follow the beginning, interval\.first.*set interval\.first = 2026-01-01T02:00:00Z"
    ):
        process(pipeline, 2)
    process(pipeline, 2, Insist(skip=True))
    assert all_epochs(pipeline.tables)[-1].skipped_from == "20260101T0000Z"


def test_an_interval_that_was_left_out_on_purpose_says_so_and_a_rewind_takes_that_back(pipeline: Pipeline) -> None:
    process(pipeline, 0)
    process(pipeline, 3, Insist(skip=True))
    with pytest.raises(
        SkippedError, match=r"20260101T0200Z was left out on purpose.*rewind counted --to 20260101T0200Z"
    ):
        process(pipeline, 2)
    rewind(pipeline, first_interval(pipeline).shifted(2))
    with pytest.raises(OrderError, match=r"missing before it is 20260101T0100Z\."):
        process(pipeline, 2)
    undo(pipeline)
    with pytest.raises(SkippedError):
        process(pipeline, 1)
    rewind(pipeline, first_interval(pipeline).shifted(1))
    for number in (1, 2, 3):
        process(pipeline, number)
    assert processed_ids(pipeline.tables) == [first_interval(pipeline).shifted(number).id for number in range(4)]


def test_a_rewind_that_comes_while_a_step_waits_for_the_lock_is_seen(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    process(pipeline, 0)
    process(pipeline, 1)

    @contextmanager
    def lock(root: str) -> Iterator[None]:
        rewind(pipeline, first_interval(pipeline).shifted(1))
        yield

    monkeypatch.setattr(turn, "writer_lock", lock)
    with pytest.raises(OrderError, match="missing before it is 20260101T0100Z"):
        process(pipeline, 2)


def test_the_newest_interval_may_run_again(pipeline: Pipeline) -> None:
    process(pipeline, 0)
    process(pipeline, 0)


Ran = list[tuple[str, str, Insist]]


@pytest.fixture
def ran(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> Ran:
    """Steps that look whose turn it is and publish, without any work, and what they were called with; there are events for six intervals."""
    calls: Ran = []

    def function_of(name: str) -> Callable[..., str]:
        def step(pipeline: Pipeline, interval: Interval, insist: Insist) -> str:
            calls.append((name, interval.id, insist))
            with its_turn(pipeline, interval, insist):
                pass
            if name == "process_batch":
                process(pipeline, (interval.start - START) // pipeline.interval.length, insist)
            return f"{name} done"

        return step

    monkeypatch.setattr(steps, "function_of", function_of)
    monkeypatch.setattr(run, "last_interval", lambda pipeline: first_interval(pipeline).shifted(5))
    return calls


def test_a_run_takes_what_is_closed_and_leaves_the_half_filled_interval_for_another_time(
    pipeline: Pipeline, ran: Ran, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    set_clock(monkeypatch, START + timedelta(hours=3, minutes=9))
    assert main(["run", str(pipeline.file)]) == 0
    assert processed_ids(pipeline.tables) == ["20260101T0000Z", "20260101T0100Z"]
    assert "20260101T0200Z and later ones are not closed yet" in capsys.readouterr().out
    assert main(["run", str(pipeline.file), "--intervals", "1"]) == 3
    assert "NotClosedError: interval 20260101T0200Z is not closed" in capsys.readouterr().err
    assert len(processed_ids(pipeline.tables)) == 2
    assert main(["run", str(pipeline.file), "--now"]) == 0
    assert len(processed_ids(pipeline.tables)) == 6


def test_a_run_leaves_intervals_out_only_if_told_and_only_before_its_first_one(
    pipeline: Pipeline, ran: Ran, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(pipeline.file), "--skip"]) == 2
    assert "--skip goes with --from" in capsys.readouterr().err
    there = ["run", str(pipeline.file), "--from", "20260101T0400Z"]
    assert main(there) == 2
    assert "does not follow the beginning" in capsys.readouterr().err
    assert ran == []
    assert main([*there, "--skip"]) == 0
    assert processed_ids(pipeline.tables) == ["20260101T0400Z", "20260101T0500Z"]
    assert [insist.skip for name, _, insist in ran if name == "process_batch"] == [True, False]


def test_a_clock_that_jumps_back_in_the_middle_of_an_interval_leaves_none_of_its_steps_out(
    pipeline: Pipeline, ran: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = first_interval(pipeline).end + pipeline.interval.grace
    set_clock(monkeypatch, closed, closed - timedelta(days=1))
    with pytest.raises(NotClosedError, match="20260101T0100Z"):
        run.run_intervals(pipeline, count=2, say=lambda _: None)
    assert [name for name, *_ in ran] == NAMES
    assert processed_ids(pipeline.tables) == ["20260101T0000Z"]


def test_a_job_refuses_and_can_be_told_to_insist(
    pipeline: Pipeline, ran: Ran, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    set_clock(monkeypatch, START + timedelta(hours=1, minutes=30))
    arguments = ["--pipeline", str(pipeline.file), "--interval", "20260101T0100Z"]
    refusals = (([], "NotClosedError", LATER), (["--now"], "OrderError", WRONG), (["--skip"], "NotClosedError", LATER))
    for more, complaint, code in refusals:
        assert job("process_batch", [*arguments, *more]) == code
        assert capsys.readouterr().err.startswith(complaint)
    assert job("process_batch", [*arguments, "--now", "--skip"]) == 0
    assert processed_ids(pipeline.tables) == ["20260101T0100Z"]


def test_the_status_shows_what_was_left_out(
    pipeline: Pipeline, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    process(pipeline, 0)
    for number in range(3, 24, 3):
        process(pipeline, number, Insist(skip=True))
    assert main(["status", str(pipeline.file)]) == 0
    said = capsys.readouterr().out
    assert said.count("left out on purpose: the intervals from ") == 5
    assert "from 20260101T1900Z to before 20260101T2100Z (epoch 8)" in said
    assert "left out before that: 2 times" in said


@pytest.mark.parametrize("value", ['"10 sec"', '"soon"', '"-1 min"', "-60", '"99999999999 d"'])
def test_a_grace_that_is_no_length_is_refused(tmp_path: Path, value: str) -> None:
    file = counted_pipeline(tmp_path).file
    text: Any = file.read_text().replace("[interval]", f"[interval]\ngrace = {value}")
    file.write_text(text)
    with pytest.raises(Exception, match=r"interval\.grace = "):
        load_pipeline(file)


def test_a_grace_of_nothing_is_allowed_and_ten_minutes_are_the_default(tmp_path: Path) -> None:
    pipeline = counted_pipeline(tmp_path)
    assert pipeline.interval.grace == timedelta(minutes=10)
    pipeline.file.write_text(pipeline.file.read_text().replace("[interval]", '[interval]\ngrace = "0 min"'))
    assert load_pipeline(pipeline.file).interval.grace == timedelta(0)
