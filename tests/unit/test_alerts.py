"""What needs a person is posted to a webhook, once, and telling never fails a step."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rebalance.airflow.page import describe
from rebalance.errors import ConfigError, NotClosedError, QualityError, SourceError
from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.steps.alerts import Alert, tell
from rebalance.storage.late import compare
from tests.support.finished import processed
from tests.support.listening import Webhook, webhook

#: Of four channels, one with twice the load of the others.
UNEVEN, EVEN = [2.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]


@pytest.fixture
def hook() -> Iterator[Webhook]:
    with webhook() as noted:
        yield noted


@pytest.fixture
def pipeline(tmp_path: Path, hook: Webhook, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    """A pipeline whose alerts go to a real web server of this machine."""
    monkeypatch.setenv("ALERTS_URL", hook.url)
    return write(tmp_path, '"$ALERTS_URL"')


def write(folder: Path, address: str, more: str = "") -> Pipeline:
    file = folder / "shop.toml"
    file.write_text(
        'tables = "tables"\n[source]\npath = "events"\nkey = "user"\ntime = "ts"\n[interval]\nlength = "1 h"\nfirst = 2026-01-01T00:00:00Z\n'
        f'[operator]\nname = "windowed_sum"\n[channels]\ncount = 4\n[alerts]\nwebhook = {address}\n{more}'
    )
    return load_pipeline(file)


def kinds(alerts: list[Alert]) -> list[str]:
    return [alert.kind for alert in alerts]


def test_a_failed_step_is_posted_as_json_with_a_text_for_people(pipeline: Pipeline, hook: Webhook) -> None:
    interval = pipeline.interval_at(pipeline.interval.first)
    tell(pipeline, interval, "collect_stats", SourceError("3 events have no key"))
    assert hook.posted == [
        {
            "kind": "step_failed",
            "pipeline": "shop",
            "interval": "20260101T0000Z",
            "step": "collect_stats",
            "message": "SourceError: 3 events have no key",
            "text": "shop 20260101T0000Z collect_stats: step failed. SourceError: 3 events have no key",
            "path": "/hook/s3cret-token",
            "type": "application/json",
        }
    ]
    assert kinds(tell(pipeline, interval, "check_quality", QualityError("too many rows"))) == ["quality_failed"]


def test_an_interval_that_was_asked_for_too_early_is_no_failed_step(pipeline: Pipeline, hook: Webhook) -> None:
    interval = pipeline.interval_at(pipeline.interval.first)
    assert tell(pipeline, interval, "collect_stats", NotClosedError("60 s are missing")) == []
    assert hook.posted == []


def test_a_refused_plan_is_alerted_and_one_that_is_kept_or_applied_is_not(pipeline: Pipeline, hook: Webhook) -> None:
    for number, decision in enumerate(["keep", "apply", "reject"]):
        interval = processed(pipeline, number, EVEN, decision=decision, reason="more routes than max_routes")
        tell(pipeline, interval, "make_plan")
    assert [(post["kind"], post["message"]) for post in hook.posted] == [
        ("plan_refused", "more routes than max_routes")
    ]


def test_an_imbalance_that_stays_is_alerted_once_a_streak(pipeline: Pipeline) -> None:
    loads = [UNEVEN, UNEVEN, EVEN, UNEVEN, UNEVEN, UNEVEN, UNEVEN, UNEVEN]
    said = [kinds(tell(pipeline, processed(pipeline, n, load), "process_batch")) for n, load in enumerate(loads)]
    assert said == [[], [], [], [], [], ["imbalance_stays"], [], []]


def test_loads_that_follow_the_capacities_are_even(tmp_path: Path) -> None:
    pipeline = write(tmp_path, '"$NONE"', "imbalance_intervals = 1\n")
    assert kinds(tell(pipeline, processed(pipeline, 0, UNEVEN), "process_batch")) == ["imbalance_stays"]
    text = pipeline.file.read_text().replace("count = 4", "count = 4\ncapacities = [2.0, 1.0, 1.0, 1.0]")
    pipeline.file.write_text(text.replace('tables = "tables"', 'tables = "others"'))
    pipeline = load_pipeline(pipeline.file)
    assert tell(pipeline, processed(pipeline, 0, UNEVEN), "process_batch") == []


def test_late_events_are_alerted_by_the_interval_that_has_seen_them_with_the_way_to_correct_them(
    pipeline: Pipeline,
) -> None:
    first, second, third = (processed(pipeline, number, EVEN, events=100) for number in range(3))
    compare(pipeline.tables, {first.id: 103}, [first.id], second)
    (alert,) = tell(pipeline, second, "process_batch")
    assert (alert.kind, "3 came late" in alert.message) == ("late_events", True)
    assert f"rebalance rewind shop --to {first.id}" in alert.message
    compare(pipeline.tables, {first.id: 103}, [first.id], third)
    assert tell(pipeline, third, "process_batch") == []


@pytest.mark.parametrize(("promised", "expected"), [(1.0, ["worse_than_predicted"]), (1.55, [])])
def test_a_plan_that_reached_less_than_it_promised_is_alerted(
    pipeline: Pipeline, promised: float, expected: list[str]
) -> None:
    interval = processed(pipeline, 0, UNEVEN, decision="apply", reason="better", skewness_after=promised)
    assert kinds(tell(pipeline, interval, "process_batch")) == expected


@pytest.mark.parametrize("status", [500, 404])
def test_a_webhook_that_refuses_is_a_warning_without_its_address(
    pipeline: Pipeline, hook: Webhook, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    hook.status = status
    with caplog.at_level(logging.WARNING, "rebalance"):
        tell(pipeline, pipeline.interval_at(pipeline.interval.first), "make_plan", SourceError("x"))
    assert caplog.messages == [f"alert step_failed was not posted: the webhook answered {status}"]


@pytest.mark.parametrize(
    ("address", "complaint"),
    [
        ("http://127.0.0.1:1/s3cret", "cannot be reached (ConnectionRefusedError)"),
        ("http://in valid/s3cret", "cannot be reached (InvalidURL)"),
        ("$NOT_SET_ANYWHERE", "the variable that alerts.webhook names has no URL here"),
    ],
    ids=["refused", "not an address", "not set"],
)
def test_a_webhook_that_cannot_be_reached_is_a_warning_without_its_address(
    tmp_path: Path, address: str, complaint: str, caplog: pytest.LogCaptureFixture
) -> None:
    pipeline = write(tmp_path, f'"{address}"')
    with caplog.at_level(logging.WARNING, "rebalance"):
        tell(pipeline, pipeline.interval_at(pipeline.interval.first), "make_plan", SourceError("x"))
    assert complaint in caplog.text
    assert "s3cret" not in caplog.text


def test_a_webhook_that_does_not_answer_is_given_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        pipeline = write(tmp_path, f'"{address}"', "timeout_seconds = 0.3\n")
        began = time.monotonic()
        tell(pipeline, pipeline.interval_at(pipeline.interval.first), "make_plan", SourceError("x"))
        assert time.monotonic() - began < 5
    assert "cannot be reached (TimeoutError)" in caplog.text


def test_tables_that_cannot_be_read_keep_nobody_from_going_on(
    pipeline: Pipeline, caplog: pytest.LogCaptureFixture
) -> None:
    (Path(pipeline.tables) / "plans" / "_delta_log").mkdir(parents=True)
    (Path(pipeline.tables) / "plans" / "_delta_log" / f"{0:020}.json").write_text("not a log")
    assert tell(pipeline, pipeline.interval_at(pipeline.interval.first), "make_plan") == []
    assert "cannot be told whether there is cause to alert" in caplog.text


def test_an_address_is_a_secret_on_the_pipelines_page_and_in_complaints(tmp_path: Path) -> None:
    pipeline = write(tmp_path, '"https://chat.example/s3cret"')
    assert "s3cret" not in describe(pipeline)
    assert "s3cret" not in repr(pipeline)
    with pytest.raises(ConfigError, match=r"alerts\.webhook is neither a URL") as refused:
        write(tmp_path, '"chat.example/s3cret"')
    assert "s3cret" not in str(refused.value)
