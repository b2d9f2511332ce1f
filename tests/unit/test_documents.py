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

import numpy as np
import pytest

from rebalance.documents.interval import interval_document
from rebalance.documents.key import key_document
from rebalance.documents.over_time import pipeline_over_time
from rebalance.documents.overview import card, overview
from rebalance.documents.plan import plan_document
from rebalance.documents.status import status_document
from rebalance.documents.tables import tables_document
from rebalance.documents.trial import known_planners, try_plan
from rebalance.errors import ConfigError, RebalanceError
from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.planners.registry import PLANNERS
from rebalance.storage import control
from rebalance.storage.approvals import answer, pending
from rebalance.storage.epochs import current_epoch, load_function, publish
from rebalance.storage.history import max_over_mean
from tests.support.many_intervals import write_history
from tests.support.markdown import tables

PROJECT = Path(__file__).resolve().parents[2]
NEWEST = "20260101T1100Z"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """Twelve intervals on eight channels; the newest plan waits for an answer. Only to be read."""
    return write_history(tmp_path_factory.mktemp("few"), 12, 8, pending=True)


@pytest.fixture
def own(written: Pipeline, tmp_path: Path) -> Pipeline:
    """The same, to be changed."""
    shutil.copytree(written.file.parent, tmp_path, dirs_exist_ok=True)
    return load_pipeline(tmp_path / written.file.name)


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


def test_an_interval_s_channels_have_what_its_keys_add_up_to(written: Pipeline) -> None:
    found = interval_document(written, NEWEST)
    stats = control.read(written.tables, "key_stats", interval_id=NEWEST).to_pylist()
    function = load_function(written.tables, found["function_version"])
    channels = found["channels"]
    for row, channel in zip(stats, function.channel_of([row["key"] for row in stats]), strict=True):
        row["now"] = int(channel)
    for channel in channels:
        ours = [row for row in stats if row["now"] == channel["channel"]]
        assert channel["keys"] == len(ours)
        assert channel["reached"] == sum(row["cost"] for row in ours)
        assert channel["held_bytes"] == sum(row["held_bytes"] for row in ours)
        assert channel["hash"] == sum(row["cost"] for row in stats if row["hash_channel"] == channel["channel"])
        heaviest = sorted(ours, key=lambda row: (-row["cost"], row["key"]))[:5]
        expected = [row for row in heaviest if row["cost"] >= 0.01 * channel["fair"]]
        assert channel["heavy"] == [{"key": row["key"], "cost": row["cost"]} for row in expected]
    assert found["reached"] == max_over_mean([channel["reached"] for channel in channels])
    assert sum(channel["fair"] for channel in channels) == pytest.approx(sum(row["cost"] for row in stats))
    assert (found["keys"], found["processed"], found["previous"], found["next"]) == (2000, True, "20260101T1000Z", None)
    assert [step["step"] for step in found["steps"]] == ["collect_stats", "make_plan", "process_batch"]


def test_a_plan_s_flows_and_moves_are_its_moves_added_up(written: Pipeline) -> None:
    found = plan_document(written)
    moves = control.rows(written.tables, "plan_moves", plan_id=found["plan_id"])
    assert found["moves_total"] == found["moved_keys"] == len(moves) > len(found["moves"]) == 500
    heaviest = sorted(moves, key=lambda move: (-move["cost"], move["key"]))[:500]
    assert [move["key"] for move in found["moves"]] == [move["key"] for move in heaviest]
    for flow in found["flows"]:
        ours = [m for m in moves if (m["from_channel"], m["to_channel"]) == (flow["from"], flow["to"])]
        assert (flow["keys"], flow["bytes"], flow["cost"]) == (
            len(ours),
            sum(m["state_bytes"] for m in ours),
            sum(m["cost"] for m in ours),
        )
    assert sum(flow["keys"] for flow in found["flows"]) == len(moves)


def test_a_plan_says_what_became_of_it(own: Pipeline) -> None:
    waiting = plan_document(own)
    assert (waiting["pending"], waiting["applied"], waiting["answer"]) == (True, False, None)
    assert waiting["considered"][-1] == "It waits for an answer: rebalance approve many"
    plan = pending(own.tables)
    assert plan is not None
    answer(own.tables, plan["plan_id"], plan["digest"], "approve", "Ann")
    approved = plan_document(own)
    assert (approved["pending"], approved["answer"]["who"]) == (False, "Ann")
    version = plan["function_version"]
    ids = {"function_version": version, "plan_id": plan["plan_id"], "interval_id": NEWEST}
    publish(own.tables, current_epoch(own.tables), kind="migrate", state_version=99, **ids)
    carried_out = interval_document(own, NEWEST)["plan"]
    assert (carried_out["applied"], carried_out["answer"]["answer"]) == (True, "approve")
    assert plan_document(own)["considered"][-1] == "It was carried out."


def test_what_was_asked_for_and_is_not_there_is_said_with_what_is(written: Pipeline) -> None:
    with pytest.raises(RebalanceError, match="there are 12, 20260101T0000Z to 20260101T1100Z"):
        interval_document(written, "20270101T0000Z")
    with pytest.raises(RebalanceError, match=r"no plan 'x'\. The newest is 20260101T1100Z-f8"):
        plan_document(written, "x")


def test_a_key_has_its_history_and_every_move_that_was_carried_out(written: Pipeline) -> None:
    moved = control.rows(written.tables, "plan_moves", interval_id="20260101T1000Z")[0]
    found = key_document(written, moved["key"])
    newest = found["moves"][-1]
    assert (newest["interval"], newest["to"], found["channel"]) == ("20260101T1000Z", moved["to_channel"], newest["to"])
    history = found["history"]
    assert history["id"] == pipeline_over_time(written)["intervals"]["id"]
    for interval_id, cost, share, channel in zip(
        *(history[n] for n in ("id", "cost", "share", "channel")), strict=True
    ):
        (stats,) = control.rows(written.tables, "key_stats", interval_id=interval_id, key=moved["key"])
        (batch,) = control.rows(written.tables, "batches", interval_id=interval_id)
        assert (cost, share) == (stats["cost"], stats["cost"] / np.sum(batch["loads"]))
        assert channel == load_function(written.tables, batch["function_version"]).channel_of([moved["key"]])[0]
    assert found["why"].startswith(f"'{moved['key']}' goes to channel {found['channel']}")


def test_a_trial_puts_the_tried_plan_beside_the_file_s_own_and_writes_nothing(written: Pipeline) -> None:
    before = tables_document(written)
    found = try_plan(written, planner="keep", theta_max=0.5, max_routes=7, channels=4)
    assert [(plan["label"], plan["planner"]) for plan in found["plans"]] == [
        ("as the file says", "mixed"),
        ("tried", "keep"),
    ]
    assert found["knobs"] == {"planner": "keep", "theta_max": 0.5, "max_routes": 7, "channels": 4}
    assert [len(plan["loads"]) for plan in found["plans"]] == [8, 4]
    assert [plan["label"] for plan in try_plan(written, planner="mixed")["plans"]] == ["as the file says"]
    assert tables_document(written) == before


def test_a_trial_refuses_what_the_file_could_not_say(written: Pipeline) -> None:
    with pytest.raises(ConfigError, match="Did you mean 'mixed'"):
        try_plan(written, planner="mixd")
    with pytest.raises(ConfigError, match=r"channels\.count = 0"):
        try_plan(written, channels=0)


def test_every_planner_is_offered_with_a_sentence() -> None:
    found = known_planners()
    assert [planner["name"] for planner in found] == list(PLANNERS)
    assert all(planner["about"].endswith(".") for planner in found)


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
        "Plan": fields_of(plan_document(written), stop=("answer",)),
        "Key": fields_of(key_document(written, moved), stop=("shares",)),
        "Trial": fields_of(try_plan(written, planner="keep"), stop=("plans.flows",)),
        "Tables": fields_of(tables_document(written), stop=("tables",)),
    }
