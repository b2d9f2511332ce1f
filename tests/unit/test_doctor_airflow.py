"""What the doctor says of Airflow, and how the command ends."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from deltalake import write_deltalake

from rebalance.cli import main
from rebalance.view.doctor import (
    airflow,
)
from rebalance.view.doctor.findings import Finding
from tests.support.examined import EVENTS, only, pipeline_of, said, write
from tests.support.listening import answering, closed_port


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An Airflow's folder without records."""
    for name in [name for name in os.environ if name.startswith("AIRFLOW__")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    return tmp_path


def test_where_no_airflow_is_set_up_none_is_asked(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW_HOME")
    monkeypatch.setenv("HOME", str(home))
    (found,) = airflow.airflow(None)
    assert (found.state, "Set AIRFLOW_HOME" in found.mend) == ("skipped", True)


def test_an_airflow_without_records_is_told_and_nothing_is_made(home: Path) -> None:
    found = airflow.airflow(None)
    assert said(found) == {
        "airflow": "ok",
        "airflow database": "fail",
        "airflow plugin": "ok",
        "airflow DAGs": "skipped",
        "airflow API": "skipped",
    }
    assert not (home / "airflow.db").exists()


def test_records_of_another_version_and_an_api_server_with_a_sick_part_are_told(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "airflow.db").touch()
    assert "is not there yet" in only(airflow.airflow(None), "airflow database").seen
    with sqlite3.connect(home / "airflow.db") as records:
        records.execute("CREATE TABLE alembic_version (version_num TEXT)")
        records.execute("INSERT INTO alembic_version VALUES ('0123456789ab')")
    records.close()
    parts = {"metadatabase": {"status": "healthy"}, "scheduler": {"status": "unhealthy"}, "triggerer": {"status": None}}
    with answering(lambda method, path: (200, {}, json.dumps(parts).encode())) as address:
        monkeypatch.setenv("AIRFLOW__API__BASE_URL", address.replace("//", "//me:hunter2@"))
        found = airflow.airflow(None)
    assert "is at migration 0123456789ab, this Airflow wants " in only(found, "airflow database").seen
    assert only(found, "airflow API") == Finding(
        "airflow API", "warn", f"{address}: scheduler is unhealthy", "Start what is not healthy."
    )


def test_a_database_that_is_not_there_is_told_without_its_password(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    port = closed_port()
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", f"postgresql://me:hunter2@127.0.0.1:{port}/airflow")
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", f"http://127.0.0.1:{port}")
    found = airflow.airflow(None)
    assert only(found, "airflow database").state == "fail"
    assert only(found, "airflow API").state == "warn"
    assert "hunter2" not in json.dumps([asdict(finding) for finding in found])


def records_with(**changes: Any) -> dict[str, Any]:
    """What Airflow would answer of healthy records."""
    healthy: dict[str, Any] = {
        "place": "sqlite",
        "revision": [["a"]],
        "wanted": "a",
        "dags": [],
        "broken": [],
        "scheduler": 3.0,
    }
    return {**healthy, **changes}


def test_the_dags_of_pipelines_are_counted_and_one_pipeline_s_is_told_with_its_state(tmp_path: Path) -> None:
    dags = [["rebalance_shop", False, False], ["rebalance_other", True, False], ["rebalance_gone", False, True]]
    pipeline = pipeline_of(tmp_path)
    (some,) = airflow._dags(records_with(dags=dags), None)
    assert (some.state, some.seen) == ("ok", "2 of pipelines, 1 of them paused")
    assert airflow._dags(records_with(dags=dags), pipeline)[0].seen == "rebalance_shop is there and not paused"
    assert airflow._dags(records_with(dags=[["rebalance_shop", True, False]]), pipeline)[0].state == "warn"
    assert airflow._dags(records_with(dags=dags[1:]), pipeline)[0].seen == "there is no rebalance_shop"
    assert airflow._dags(records_with(), None)[0].state == "warn"
    broken, _ = airflow._dags(records_with(broken=["dags/x.py"], dags=dags), None)
    assert (broken.state, broken.seen) == ("fail", "dags/x.py cannot be imported")


@pytest.mark.parametrize(("age", "state"), [(None, "ok"), (3.0, "ok"), (600.0, "warn")])
def test_a_scheduler_that_is_gone_is_told(age: float | None, state: str) -> None:
    assert airflow._database(records_with(scheduler=age)).state == state


def test_the_process_that_asks_says_nothing_but_its_answers(home: Path) -> None:
    done = subprocess.run([sys.executable, "-m", airflow._PROBE], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["folder"] == f"{home}/dags"
    assert list(home.iterdir()) in ([], [home / "airflow.cfg"])


def test_the_command_ends_with_1_if_something_fails_and_with_0_if_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(airflow, "airflow", lambda pipeline: [Finding("airflow", "skipped", "not asked")])
    file = str(write(tmp_path))
    assert main(["doctor", file]) == 1
    assert "fail    source" in capsys.readouterr().out
    write_deltalake(str(tmp_path / "events"), EVENTS)
    assert main(["doctor", file, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["well"] is True
    monkeypatch.setenv("REBALANCE_PIPELINES", str(tmp_path))
    assert main(["doctor"]) == 0
    assert "1 valid in" in capsys.readouterr().out
