"""What pages, reports and `--json` read of a pipeline: plain data, right to the number, and cheap to get."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rebalance.documents.answer import answer_plan
from rebalance.documents.interval import interval_document
from rebalance.documents.key import key_document
from rebalance.documents.over_time import pipeline_over_time
from rebalance.documents.overview import card, overview
from rebalance.documents.plan import plan_document
from rebalance.documents.status import status_document
from rebalance.documents.tables import tables_document
from rebalance.documents.trial import known_planners, try_plan
from rebalance.documents.trouble import trouble_document
from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.storage import control
from rebalance.storage.epochs import current_epoch, publish
from tests.support.many_intervals import write_history
from tests.support.markdown import tables

PROJECT = Path(__file__).resolve().parents[2]
NEWEST = "20260101T1100Z"


def every_document(pipeline: Pipeline) -> dict[str, Any]:
    return {
        "overview": overview([pipeline]),
        "over time": pipeline_over_time(pipeline),
        "interval": interval_document(pipeline, NEWEST),
        "key": key_document(pipeline, "user-0000722"),
        "plan": plan_document(pipeline),
        "trial": try_plan(pipeline, planner="keep"),
        "status": status_document(pipeline),
        "tables": tables_document(pipeline),
        "planners": known_planners(),
        "trouble": trouble_document(pipeline, [NEWEST]),
    }


def test_every_document_is_plain_data_that_json_takes(written: Pipeline) -> None:
    for name, document in every_document(written).items():
        assert json.loads(json.dumps(document, allow_nan=False)) == document, name


def test_a_document_needs_neither_spark_rich_nor_airflow_and_what_is_asked_often_not_even_pandas(
    written: Pipeline,
) -> None:
    code = f"""
import sys
from rebalance.pipeline.file import load_pipeline
from rebalance.documents import answer, interval, key, over_time, overview, plan, status, tables, trial
one = load_pipeline({str(written.file)!r})
overview.overview([one]), over_time.pipeline_over_time(one), status.status_document(one), tables.tables_document(one)
key.key_document(one, "user-0000722")
heavy = {{"pyspark", "airflow", "great_expectations", "matplotlib", "numba", "rich", "pandas"}}
found = [heavy & sys.modules.keys()]
interval.interval_document(one, {NEWEST!r}), plan.plan_document(one)
found.append((heavy - {{"pandas"}}) & sys.modules.keys())
sys.exit(str(found) if any(found) else 0)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_many_intervals_cost_as_many_reads_as_few_and_none_of_what_is_large(
    written: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = write_history(tmp_path, 1000, 100, counted=1)
    opened: Counter[str] = Counter()
    open_table = control.open_table

    def counted(root: str, table: str, version: int | None = None) -> Any:
        opened[table] += 1
        return open_table(root, table, version)

    monkeypatch.setattr(control, "open_table", counted)
    pipeline_over_time(written)
    few, _ = opened.copy(), opened.clear()
    found = pipeline_over_time(many)
    # In mode approve, it is looked up besides whether a plan waits.
    assert set(opened) <= set(few)
    assert all(opened[table] <= few[table] for table in opened)
    assert set(few) == {"epochs", "batches", "channel_stats", "plans", "quality_runs", "functions"}
    assert found["total"] == len(found["intervals"]["id"]) == 1000
    assert {len(column) for column in found["intervals"].values()} == {1000}
    assert pipeline_over_time(many, last=10)["intervals"]["id"] == found["intervals"]["id"][-10:]


def test_a_card_says_what_was_gained_and_that_the_newest_plan_waits(written: Pipeline) -> None:
    found, over_time = card(written), pipeline_over_time(written)["intervals"]
    assert (found["interval"], found["start"]) == (NEWEST, "2026-01-01T11:00:00Z")
    assert found["health"] == "attention"
    assert found["why"] == f"Plan {NEWEST}-f8 waits for an answer: rebalance approve many"
    assert found["pending"]["plan_id"] == f"{NEWEST}-f8"
    assert (found["moved_keys"], found["warned_checks"], found["failed_checks"]) == (0, 1, 0)
    assert [found[name] for name in ("hash", "reached")] == [over_time[name][-1] for name in ("hash", "reached")]
    assert found["saved_seconds"] == pytest.approx(found["slowest"] * (found["hash"] / found["reached"] - 1))


def test_a_pipeline_without_intervals_says_what_to_do_next(tmp_path: Path) -> None:
    file = tmp_path / "many.toml"
    write_history(tmp_path, 1, 2)
    shutil.rmtree(tmp_path / "tables")
    found = card(load_pipeline(file))
    assert (found["health"], found["interval"], found["moved_keys"]) == ("empty", None, 0)
    assert "rebalance run many" in found["why"]
    assert pipeline_over_time(load_pipeline(file))["intervals"]["id"] == []


def test_a_pipeline_that_cannot_be_read_hides_no_other_one(own: Pipeline, written: Pipeline) -> None:
    log = Path(own.tables) / "epochs" / "_delta_log"
    for entry in log.iterdir():
        entry.write_text("no log")
    broken, good = overview([own, written])["pipelines"]
    assert broken["health"] == "attention"
    assert "epochs" in broken["why"]
    assert "cannot be read" in broken["why"]
    assert broken["hash"] is None
    assert good == card(written)


@pytest.mark.parametrize(
    ("table", "rows", "says"),
    [
        (
            "quality_runs",
            {"suite": "key_stats", "expectation": "expect_x", "column": "", "severity": "stop", "success": False},
            "1 check failed on 20260101T1100Z, which was not planned for that: expect_x.",
        ),
        ("late_events", {"events": 100, "late": 3}, "Events of 1 processed interval have changed"),
    ],
)
def test_what_needs_a_person_comes_first(own: Pipeline, table: str, rows: dict[str, Any], says: str) -> None:
    control.append(own.tables, table, [{"interval_id": NEWEST, **rows}])
    found = card(own)
    assert found["health"] == "attention"
    assert found["why"].startswith(says)
    assert found["why"].endswith("And 1 more thing to look at.")


def fields_of(value: Any, inside: str = "", stop: tuple[str, ...] = ()) -> set[str]:
    """Every field of a document as the page writes it, with a dot for one inside."""
    if isinstance(value, list):
        return set().union(*(fields_of(one, inside, stop) for one in value)) or {inside}
    if not isinstance(value, dict) or inside in stop:
        return {inside}
    return set().union(*(fields_of(one, f"{inside}.{name}".lstrip("."), stop) for name, one in value.items()))


def test_the_page_of_documents_has_every_field(written: Pipeline, own: Pipeline) -> None:
    sections = re.split(r"^## ", (PROJECT / "docs" / "documents.md").read_text(), flags=re.MULTILINE)[1:]
    listed = {
        section.splitlines()[0]: {
            name for names, _ in tables(section)[0][1:] for name in re.findall(r"`([\w.]+)`", names)
        }
        for section in sections
    }
    control.append(own.tables, "late_events", [{"interval_id": NEWEST, "events": 5, "late": 1}])
    epoch = current_epoch(own.tables)
    versions = {"function_version": 8, "state_version": -1}
    publish(own.tables, epoch, kind="process", interval_id="20260101T1500Z", skipped_from="20260101T1200Z", **versions)
    moved = control.rows(written.tables, "plan_moves", interval_id="20260101T1000Z")[0]["key"]
    over_time = fields_of(pipeline_over_time(written), stop=("card",))
    status = fields_of(status_document(own), stop=("card", "epoch", "quarantined"))
    parts = ("plan", "flows", "moves", "quarantined")
    assert listed == {
        "Card": fields_of(card(written), stop=("pending",)),
        "Over time": over_time,
        "Status": status - over_time,
        "Interval": fields_of(interval_document(written, NEWEST), stop=parts),
        "Plan": fields_of(plan_document(written), stop=("answer", "epoch")),
        "Key": fields_of(key_document(written, moved), stop=("shares",)),
        "Trial": fields_of(try_plan(written, planner="keep"), stop=("plans.flows",)),
        "Trouble": fields_of(trouble_document(own, [NEWEST]), stop=("checks", "quarantined", "late", "skipped")),
        "Tables": fields_of(tables_document(written), stop=("tables",)),
        "Answer": fields_of(answer_plan(own, f"{NEWEST}-f8", "reject", "Ann"), stop=("plan",)),
    }
