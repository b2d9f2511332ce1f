"""Data Docs: every page can be reached, and however many intervals there were, only the newest pages are kept."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rebalance.errors import QualityError
from rebalance.pipeline.file import Pipeline
from rebalance.quality.docs import docs_index
from rebalance.storage import control
from tests.support.checking import check_quality
from tests.support.counted import counted_pipeline, first_interval, key_row, put_statistics


def check(pipeline: Pipeline, number: int, **changed: int) -> None:
    put_statistics(pipeline, first_interval(pipeline).shifted(number), [key_row("a", **changed)])
    check_quality(pipeline, first_interval(pipeline).shifted(number))


def listed(pipeline: Pipeline) -> list[tuple[str, str]]:
    """The intervals and outcomes in the list, from the top."""
    return re.findall(r'html">(\w+)</a>.*?<td class="(\w+)">', docs_index(pipeline).read_text())


def files(pipeline: Pipeline) -> list[Path]:
    return [file for file in docs_index(pipeline).parent.rglob("*") if file.is_file()]


def test_the_list_leads_to_a_page_that_leads_back_and_to_the_suite(tmp_path: Path) -> None:
    pipeline = counted_pipeline(tmp_path)
    check(pipeline, 0)
    index = docs_index(pipeline)
    assert index == tmp_path / "tables" / "_quality" / "index.html"
    (link,) = re.findall(r'href="([^"]+)"', index.read_text())
    page = index.parent / link
    text = page.read_text()
    assert "values must be unique" in text
    assert "20260101T0000Z" in text
    inside = re.findall(r'href="(\.\.[^"]+\.html)"', text)
    assert {(page.parent / link).resolve() for link in inside} == {
        index,
        index.parent / "expectations" / "key_stats.html",
    }
    assert all((page.parent / link).is_file() for link in inside)


def test_only_the_newest_pages_are_kept_and_all_results(tmp_path: Path) -> None:
    pipeline = counted_pipeline(tmp_path, "docs_keep = 3")
    for number in range(5):
        check(pipeline, number)
    assert [interval for interval, _ in listed(pipeline)] == ["20260101T0400Z", "20260101T0300Z", "20260101T0200Z"]
    # The list, the suite, and three pages; no folder of an older one is left.
    assert len(files(pipeline)) == 5
    folders = docs_index(pipeline).parent / "validations" / "key_stats"
    assert sorted(folder.name for folder in folders.iterdir()) == ["20260101T0200Z", "20260101T0300Z", "20260101T0400Z"]
    checked = control.read(pipeline.tables, "quality_runs", columns=["interval_id"])["interval_id"].to_pylist()
    assert len(set(checked)) == 5


def test_fewer_kept_pages_take_effect_with_the_next_check(tmp_path: Path) -> None:
    pipeline = counted_pipeline(tmp_path)
    for number in range(3):
        check(pipeline, number)
    check(counted_pipeline(tmp_path, "docs_keep = 1"), 3)
    assert listed(pipeline) == [("20260101T0300Z", "passed")]


def test_the_list_tells_what_failed_and_what_only_warned(tmp_path: Path) -> None:
    pipeline = counted_pipeline(tmp_path, 'volume = "warn"\nvolume_factor = 2.0')
    check(pipeline, 0)
    check(pipeline, 1, tuples=1000)
    with pytest.raises(QualityError):
        check(pipeline, 2, slot=-1)
    assert [outcome for _, outcome in listed(pipeline)] == ["failed", "warned", "passed"]


def test_an_interval_that_is_checked_again_has_a_page_for_each_time(tmp_path: Path) -> None:
    pipeline = counted_pipeline(tmp_path)
    put_statistics(pipeline, first_interval(pipeline), [key_row("a", slot=-1)])
    for _ in range(2):
        with pytest.raises(QualityError):
            check_quality(pipeline, first_interval(pipeline))
    assert listed(pipeline) == [("20260101T0000Z", "failed")] * 2


def test_a_strange_file_among_the_pages_is_left_alone(tmp_path: Path) -> None:
    pipeline = counted_pipeline(tmp_path, "docs_keep = 1")
    check(pipeline, 0)
    strange = docs_index(pipeline).parent / "validations" / "a" / "b" / "c" / "mine.html"
    strange.parent.mkdir(parents=True)
    strange.write_text("mine")
    check(pipeline, 1)
    assert strange.read_text() == "mine"
    assert [interval for interval, _ in listed(pipeline)] == ["20260101T0100Z"]


def test_data_docs_can_be_elsewhere(tmp_path: Path) -> None:
    pipeline = counted_pipeline(tmp_path, 'docs = "pages"')
    check(pipeline, 0)
    assert (tmp_path / "pages" / "index.html").is_file()
    assert not (tmp_path / "tables" / "_quality").exists()
