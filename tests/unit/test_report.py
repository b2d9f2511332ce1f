"""`rebalance report`: one file that says what was done, true to the documents, with all foreign text escaped and nothing fetched."""

from __future__ import annotations

import re
import shutil
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rebalance.cli import main
from rebalance.documents.over_time import pipeline_over_time
from rebalance.documents.trouble import trouble_document
from rebalance.errors import ConfigError
from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.storage import control
from rebalance.storage.epochs import current_epoch, publish
from rebalance.storage.schemas import SCHEMAS
from rebalance.view.report import report, svg, write_report
from rebalance.view.report.brought import Brought
from rebalance.view.report.html import Html, element, table
from rebalance.view.report.page import page
from tests.support.many_intervals import write_history

NEWEST, BEFORE = "20260101T1100Z", "20260101T1000Z"
EVIL = "<script>alert('1')</script>"
NOW = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """Twelve intervals on eight channels. Only to be read."""
    return write_history(tmp_path_factory.mktemp("reported"), 12, 8, keys=400)


@pytest.fixture
def own(written: Pipeline, tmp_path: Path) -> Pipeline:
    """The same, to be changed."""
    shutil.copytree(written.file.parent, tmp_path, dirs_exist_ok=True)
    return load_pipeline(tmp_path / written.file.name)


class Read(HTMLParser):
    """What a browser would make of a page: elements with their attributes, closed in order, and the text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == [], "every element is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def tags(self) -> set[str]:
        return {tag for tag, _ in self.elements}


def columns(**given: list[Any]) -> dict[str, list[Any]]:
    """The columns over some intervals that sums are made of."""
    count = len(given["hash"])
    usual: dict[str, list[Any]] = {
        "id": ["x"] * count,
        "slowest": [None] * count,
        "moved_keys": [0] * count,
        "moved_bytes": [0.0] * count,
    }
    return usual | given


def test_the_page_says_what_the_documents_say(written: Pipeline) -> None:
    found, read = pipeline_over_time(written, 48), Read(report(written, 48, NOW))
    for number, interval in enumerate(found["intervals"]["id"]):
        assert interval in read.text
        assert str(found["intervals"]["reason"][number] or "not planned") in read.text
    assert f"Intervals {found['intervals']['id'][0]} to {NEWEST}, 12 of 12. Written 2026-01-02 00:00 UTC." in read.text
    assert found["card"]["why"] in read.text
    assert "Every hour, the events of" in read.text
    assert "brought together per user, and windowed_sum works on each" in read.text
    lines = [dict(at) for tag, at in read.elements if tag == "polyline"]
    assert [len(str(line["points"]).split()) for line in lines if line["class"] == "line reached"] == [12]
    bars = [at for tag, at in read.elements if tag == "rect"]
    assert len(bars) == 2 * 8


def test_a_plan_that_waits_is_not_told_as_one_that_was_carried_out(tmp_path: Path) -> None:
    read = Read(report(write_history(tmp_path, 4, 4, keys=200, pending=True), 48))
    assert read.text.count("apply (not carried out) by mixed") == 1
    assert "apply by mixed" in read.text


def test_fewer_intervals_are_reported_if_that_is_asked(written: Pipeline) -> None:
    read = Read(report(written, 3))
    assert "3 of 12" in read.text
    assert "20260101T0800Z" not in read.text


def test_the_page_fetches_nothing_and_runs_nothing(written: Pipeline) -> None:
    text = report(written, 48)
    read = Read(text)
    assert not read.tags() & {"script", "link", "img", "iframe", "object", "embed", "base", "form", "a"}
    assert not any(name.startswith("on") or name in ("src", "href", "style") for _, at in read.elements for name in at)
    assert not re.search(r"https?:|url\(|@import", text)
    (policy,) = [at["content"] for tag, at in read.elements if at.get("http-equiv") == "Content-Security-Policy"]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"


def test_keys_messages_and_paths_are_escaped_wherever_they_stand(own: Pipeline) -> None:
    stats = control.read(own.tables, "key_stats", interval_id=NEWEST)
    heaviest = max(stats.to_pylist(), key=lambda row: float(row["cost"]))["key"]
    keys = pa.array([EVIL if key == heaviest else key for key in stats["key"].to_pylist()])
    changed = stats.set_column(stats.column_names.index("key"), "key", keys)
    control.replace(own.tables, "key_stats", changed.select(SCHEMAS["key_stats"].names), interval_id=NEWEST)
    check = {"suite": EVIL, "expectation": EVIL, "column": EVIL, "severity": "warn", "success": False, "bad_rows": 3}
    control.append(own.tables, "quality_runs", [{"interval_id": NEWEST, **check, "detail": EVIL}])
    text = own.file.read_text()
    own.file.write_text(text.replace('"events"', f'"{EVIL}"').replace('"user"', f'"{EVIL}"'))
    page = report(load_pipeline(own.file), 48)
    assert "<script" not in page
    # Of the heaviest keys, the check three times, the source and the key column.
    assert page.count("&lt;script&gt;") >= 6
    assert Read(page).text.count(EVIL) >= 6


def test_what_did_not_go_well_is_listed_and_what_did_is_said(own: Pipeline) -> None:
    well = Read(report(own, 48)).text
    assert "no row is in quarantine, no event is known to have come late, no interval was left out." in well.lower()
    control.append(
        own.tables,
        "late_events",
        [{"interval_id": BEFORE, "events": 500, "late": -2, "seen_by": NEWEST, "seen_at": NOW}],
    )
    bad = {"raw": "{}", "reason": "null key", "file": "f"}
    names = SCHEMAS["quarantine"].names
    control.append(
        own.tables, "quarantine", [{"interval_id": BEFORE, **{k: v for k, v in bad.items() if k in names}}] * 3
    )
    epoch = current_epoch(own.tables)
    versions = {"function_version": 8, "state_version": -1}
    publish(own.tables, epoch, kind="process", interval_id="20260101T1500Z", skipped_from="20260101T1200Z", **versions)
    found = trouble_document(own, [BEFORE, NEWEST, "20260101T1500Z"])
    assert found["late"] == [{"interval": BEFORE, "late": -2, "events": 500}]
    assert found["quarantined"] == [{"interval": BEFORE, "reason": "null key", "rows": 3}]
    assert found["skipped"] == [{"from": "20260101T1200Z", "to": "20260101T1500Z"}]
    assert found["checks"] == [check for check in found["checks"] if check["interval"] in (BEFORE, NEWEST)]
    over = pipeline_over_time(own, 48)
    said = Read(page("", over, None, found, "now")).text
    assert "-2" in said
    assert "null key" in said
    assert "from 20260101T1200Z to before 20260101T1500Z" in said


def test_a_pipeline_without_intervals_has_a_page_that_says_what_to_do(own: Pipeline) -> None:
    shutil.rmtree(own.tables)
    read = Read(report(own, 48))
    assert "Nothing yet: No interval was processed yet." in read.text
    assert "svg" not in read.tags()


def test_what_was_brought_is_the_mean_and_the_worst_and_the_estimate() -> None:
    found = Brought.of(
        columns(
            hash=[2.0, 3.0, None],
            reached=[1.0, 1.5, 1.2],
            slowest=[10.0, 4.0, 9.0],
            moved_keys=[5, 0, 1],
            moved_bytes=[2e6, 0.0, 5e5],
        )
    )
    assert (found.hash, found.reached, found.worst_hash, found.worst_reached) == (2.5, 1.25, 3.0, 1.5)
    assert (found.slowest_seconds, found.saved_seconds) == (14.0, 10.0 + 4.0)
    assert found.sentences("auto") == [
        "On average the fullest channel would have had 2.50 times the mean load by the hash alone, and had 1.25 times the mean; at worst 3.00 and 1.50.",
        "The slowest tasks took 14.0 s in all; as an estimate, by the hash alone they would have taken 14.0 s longer (100%).",
        "For that, 6 keys with 2.5 MB of state changed their channel, in 2 of 3 intervals.",
    ]


def test_where_nothing_was_gained_or_measured_the_report_says_so() -> None:
    worse = Brought.of(columns(hash=[1.0], reached=[1.25], slowest=[5.0]))
    loads, seconds, moved = worse.sentences("shadow")
    assert loads.endswith("So in these intervals rebalancing did not make the loads more even.")
    assert "they would have taken 1.0 s less (20%)" in seconds
    assert moved == "No state was moved. In mode shadow plans are made and reported, and nothing is ever moved."
    unknown = Brought.of(columns(hash=[None], reached=[None])).sentences("auto")
    assert unknown[0].startswith("Of none of these intervals the loads are known")
    assert unknown[1].startswith("Spark did not measure the tasks")


def test_a_line_is_broken_where_a_value_is_missing_and_a_lonely_one_is_a_dot() -> None:
    read = Read(svg.lines({"hash": [1.0, 2.0, None, 3.0]}, ["a", "b", "c", "d"], 1.08, "words"))
    points = [str(at["points"]).split() for tag, at in read.elements if tag == "polyline"]
    assert [len(run) for run in points] == [2, 1]
    assert sum(tag == "circle" for tag, _ in read.elements) == 1
    (x, low), (_, high) = ([float(number) for number in point.split(",")] for point in points[0])
    assert high < low, "more is higher up"
    assert 0 < x < 900


@pytest.mark.parametrize("highest", [0.2, 1.0, 7.3, 4000.0])
def test_a_picture_holds_what_it_draws_and_its_words_have_room(highest: float) -> None:
    read = Read(svg.lines({"hash": [highest] * 1000}, ["01-01 00:00"] * 1000, 1.08, "words"))
    ys = [
        float(point.split(",")[1])
        for tag, at in read.elements
        if tag == "polyline"
        for point in str(at["points"]).split()
    ]
    assert all(0 <= y <= 260 for y in ys)
    ticks = [at for tag, at in read.elements if tag == "text"]
    assert len([at for at in ticks if at["class"] == "tick below"]) <= 10
    assert len([at for at in ticks if at["class"] == "tick left"]) <= 10


def test_attributes_and_texts_are_escaped_and_html_is_not_escaped_twice() -> None:
    assert element("td", Html("<br>"), '"<', class_='"x') == '<td class="&quot;x"><br>&quot;&lt;</td>'
    assert "&lt;b&gt;" in table(["<b>"], [["<b>"]])


def test_the_file_is_written_whole_or_not_at_all(written: Pipeline, tmp_path: Path) -> None:
    file = write_report(written, 2, tmp_path / "out.html")
    assert file.read_text().endswith("</html>\n")
    assert [path.name for path in tmp_path.iterdir()] == ["out.html"]
    with pytest.raises(
        ConfigError, match=r"cannot be written to .*nowhere/out\.html: No such file or directory\. Name another"
    ):
        write_report(written, 2, tmp_path / "nowhere" / "out.html")
    with pytest.raises(ConfigError, match="needs at least 1 interval"):
        write_report(written, 0)


def test_the_command_says_where_the_report_is(
    written: Pipeline, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["report", str(written.file), "--last", "2"]) == 0
    assert f"Written: {tmp_path / 'many.html'}" in capsys.readouterr().out
    assert (tmp_path / "many.html").read_text().startswith("<!doctype html>")
