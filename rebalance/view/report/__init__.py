"""`rebalance report`: one HTML file about a pipeline, for somebody who was not there. It asks no host for anything and runs no script."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from rebalance.documents.interval import interval_document
from rebalance.documents.over_time import pipeline_over_time
from rebalance.documents.trouble import trouble_document
from rebalance.errors import ConfigError
from rebalance.pipeline.file import Pipeline
from rebalance.view.report.html import Html
from rebalance.view.report.page import about, page

__all__ = ["report", "write_report"]


def write_report(pipeline: Pipeline, last: int, out: str | Path | None = None) -> Path:
    """Write the report and return where; the file is there whole or not at all."""
    if last < 1:
        raise ConfigError(f"--last {last}: a report needs at least 1 interval.")
    file = Path(out or f"{pipeline.name}.html").resolve()
    text, made = report(pipeline, last), file.with_name(f".{file.name}.new")
    try:
        made.write_text(text, encoding="utf-8")
        made.replace(file)
    except OSError as error:
        raise ConfigError(
            f"the report cannot be written to {file}: {error.strerror}. Name another file with --out."
        ) from None
    return file


def report(pipeline: Pipeline, last: int, now: datetime | None = None) -> Html:
    """The page over the newest `last` intervals."""
    over = pipeline_over_time(pipeline, last)
    ids = over["intervals"]["id"]
    newest = interval_document(pipeline, ids[-1]) if ids else None
    said = about(
        over["card"],
        length=_words(pipeline.interval.length),
        source=pipeline.source.place,
        keys=" and ".join(pipeline.source.key),
    )
    written = f"{now or datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    return page(said, over, newest, trouble_document(pipeline, ids), written)


def _words(length: timedelta) -> str:
    """A length of time as a person says it.

    >>> _words(timedelta(hours=1)), _words(timedelta(minutes=15)), _words(timedelta(days=1)), _words(timedelta(seconds=90))
    ('hour', '15 minutes', 'day', '90 seconds')
    """
    seconds = int(length.total_seconds())
    for unit, size in (("day", 86_400), ("hour", 3600), ("minute", 60)):
        if seconds % size == 0:
            return unit if seconds == size else f"{seconds // size} {unit}s"
    return f"{seconds} seconds"
