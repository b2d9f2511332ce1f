"""Rubbish in pipeline files and on the command line: never a traceback, never a default in the place of what was said."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from rebalance.cli import main
from rebalance.errors import ConfigError, OrderError
from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.pipeline.intervals import parse_start
from tests.support.budget import cases
from tests.support.rubbish import VALUES, rubbish_file

GOOD: dict[str, dict[str, Any]] = {
    "": {"tables": "tables"},
    "source": {"path": "events", "key": "user", "time": "ts"},
    "interval": {"length": "1 h", "first": datetime(2026, 1, 1)},
    "operator": {"name": "windowed_sum"},
}
#: Every knob there is, some that are not, and whole sections.
KNOBS = [
    *(
        (name, knob)
        for name, field in Pipeline.model_fields.items()
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
        for knob in field.annotation.model_fields
    ),
    *(("", name) for name in Pipeline.model_fields),
    *(("planning", "thetamax"), ("surprise", "x"), ("source", "")),
]


def test_no_pipeline_file_ends_in_a_traceback_and_every_knob_counts_or_is_refused(tmp_path: Path) -> None:
    file, accepted, seeded = tmp_path / "clicks.toml", 0, random.Random(20260101)
    for case in range(cases(4_000, 100_000)):
        text, changed = rubbish_file(seeded, GOOD, KNOBS)
        file.write_bytes(text)
        try:
            pipeline = load_pipeline(file)
        except ConfigError:
            continue
        except Exception as error:
            pytest.fail(f"case {case}: {type(error).__name__}: {error}\n{text.decode(errors='replace')}")
        accepted += 1
        for (section, knob), said in changed.items():
            assert counts(pipeline, section, knob, said), (
                f"case {case}: {section}.{knob} = {said!r} became something else"
            )
    assert accepted > 100, "the files are all refused, so nothing is shown"


def counts(pipeline: Pipeline, section: str, knob: str, said: Any) -> bool:
    """Whether the pipeline has what the file says: the same, or what a text for it means."""
    holder = getattr(pipeline, section) if section else pipeline
    value = getattr(holder, knob)
    if isinstance(said, bool) or isinstance(value, bool):
        return said is value
    if isinstance(said, int | float):
        return not isinstance(value, str | timedelta | datetime) and float(value) == float(said)
    if isinstance(said, str) and isinstance(value, str):
        return value == said or Path(value).is_absolute() or "://" in value
    if isinstance(said, list):
        return len(value) == len(said)
    return value is not None


def test_no_time_on_the_command_line_ends_in_a_traceback() -> None:
    seeded = random.Random(20260102)
    texts = [value for value in VALUES if isinstance(value, str)]
    for _ in range(cases(2_000, 100_000)):
        text = seeded.choice(texts) + "".join(map(chr, seeded.choices(range(32, 0x3000), k=seeded.randint(0, 12))))
        text = seeded.choice(("", "2026", "20260101T", "2026-01-01T00:00", "+", "-0001-")) + text
        try:
            found = parse_start(text)
        except OrderError:
            continue
        assert found.tzinfo is not None


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["run", "{file}", "--from", "99999-01-01"], id="an impossible start"),
        pytest.param(["run", "{file}", "--from", "2026-01-01T00:30"], id="a start inside an interval"),
        pytest.param(["run", "\x00"], id="a pipeline with a NUL in its name"),
        pytest.param(["status", "x" * 300], id="a pipeline with a name that is too long"),
        pytest.param(["status", "{folder}"], id="a folder in the place of a file"),
        pytest.param(["explain", "{file}", "\ud800"], id="a key that is no text"),
        pytest.param(["explain", "{file}", ""], id="an empty key"),
        pytest.param(["status", "{file}", "--last", "-3"], id="fewer than no intervals"),
        pytest.param(["rewind", "{file}", "--to", "never"], id="a rewind to no time"),
        pytest.param(["plan", "{file}", "--dry-run", "--theta-max", "nan"], id="a limit that is no number"),
    ],
)
def test_rubbish_on_the_command_line_is_one_line_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    from tests.support.rubbish import in_toml

    file = tmp_path / "clicks.toml"
    file.write_bytes(in_toml(GOOD))
    code = main([argument.format(file=file, folder=tmp_path) for argument in arguments])
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    assert (code, len(said.err.strip().splitlines())) == (2, 1) or code == 0, said
