"""Data Docs: a page of Great Expectations per run of a suite, and a list of the newest ones.

Great Expectations builds its own list by reading every result there ever was, which after a year of hours takes minutes. Here a page is
written once and its name says all that the list needs, so a run costs the same on any day; the oldest pages are removed.

    index.html                                                      the list
    expectations/<suite>.html                                       what the suite expects
    validations/<suite>/<interval>/<time of the run>/<outcome>.html what a run found, at the depth that its links count on
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from html import escape
from pathlib import Path
from typing import Any, get_args

from rebalance.pipeline.file import Pipeline
from rebalance.pipeline.intervals import Interval
from rebalance.quality.runs import Outcome, outcome_of
from rebalance.quality.validate import Checked

_RUN_TIME = "%Y%m%dT%H%M%S.%fZ"
_INDEX = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Data Docs of {name}</title>
<style>
body {{ font-family: sans-serif; margin: 2rem; }} td, th {{ padding: 0.2rem 1rem 0.2rem 0; text-align: left; }}
.failed {{ color: #b00020; }} .warned {{ color: #9a6700; }} .passed {{ color: #1a7f37; }}
</style></head><body>
<h1>Data Docs of {name}</h1>
<p>The newest {count} runs; the table <code>quality_runs</code> has the results of all.</p>
<table><tr><th>interval</th><th>suite</th><th>outcome</th><th>checked at (UTC)</th></tr>
{rows}
</table></body></html>
"""


def docs_index(pipeline: Pipeline) -> Path:
    """The first page of the pipeline's Data Docs."""
    return Path(pipeline.quality.docs or f"{pipeline.tables}/_quality") / "index.html"


def write_docs(pipeline: Pipeline, interval: Interval, checked: Sequence[Checked]) -> None:
    """Add a page per suite, remove the oldest pages, and write the list anew."""
    index, now = docs_index(pipeline), datetime.now(UTC)
    for one in checked:
        _write_pages(index.parent, interval, one, now)
    newest = sorted(_pages(index.parent), key=lambda page: (page.parent.name, page.parts), reverse=True)
    for page in newest[pipeline.quality.docs_keep :]:
        _remove(page)
    _write(index, _index(pipeline.name, index.parent, newest[: pipeline.quality.docs_keep]))


def _write_pages(folder: Path, interval: Interval, checked: Checked, now: datetime) -> None:
    from great_expectations import RunIdentifier
    from great_expectations.render.renderer import ExpectationSuitePageRenderer, ValidationResultsPageRenderer

    name = checked.suite.name
    checked.validation.meta["run_id"] = RunIdentifier(run_name=interval.id, run_time=now)
    run = folder / "validations" / name / interval.id / now.strftime(_RUN_TIME)
    rendered = ValidationResultsPageRenderer().render(checked.validation)
    _write(run / f"{outcome_of(checked.rows)}.html", _view().render(rendered))
    expected: Any = ExpectationSuitePageRenderer().render(checked.suite)  # type: ignore[no-untyped-call]
    _write(folder / "expectations" / f"{name}.html", _view().render(expected))


@cache
def _view() -> Any:
    """What makes HTML of a rendered page; kept, because it compiles its templates first."""
    from great_expectations.render.view import DefaultJinjaPageView

    return DefaultJinjaPageView()


def _pages(folder: Path) -> Iterator[Path]:
    return (page for page in (folder / "validations").glob("*/*/*/*.html") if page.stem in get_args(Outcome))


def _remove(page: Path) -> None:
    """Remove a page, and its folders as far as nothing else is in them."""
    page.unlink()
    with suppress(OSError):
        for folder in page.parents[:2]:
            folder.rmdir()


def _index(name: str, folder: Path, pages: Sequence[Path]) -> str:
    rows = "\n".join(_index_row(page.relative_to(folder)) for page in pages)
    return _INDEX.format(name=escape(name), count=len(pages), rows=rows)


def _index_row(page: Path) -> str:
    _, suite, interval_id, time, _ = page.parts
    at = datetime.strptime(time, _RUN_TIME).replace(tzinfo=UTC)
    link = f'<a href="{escape(page.as_posix())}">{escape(interval_id)}</a>'
    return f'<tr><td>{link}</td><td>{escape(suite)}</td><td class="{page.stem}">{page.stem}</td><td>{at:%Y-%m-%d %H:%M:%S}</td></tr>'


def _write(page: Path, text: str) -> None:
    """Whoever looks at the page meanwhile sees the old one or the new one."""
    page.parent.mkdir(parents=True, exist_ok=True)
    draft = page.with_suffix(".tmp")
    draft.write_text(text, encoding="utf-8")
    os.replace(draft, page)
