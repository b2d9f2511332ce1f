"""What can be done on the page Rebalance, over HTTP: try a plan, answer one, rewind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rebalance.pipeline.file import Pipeline
from rebalance.storage import control
from tests.dags.page_site import CHANNELS, Site
from tests.dags.page_site import history as history
from tests.dags.page_site import name as name
from tests.dags.page_site import site as site
from tests.dags.test_approval import asking as asking
from tests.dags.test_approval import go_on, leave_plan, questions
from tests.dags.test_rules import FIRST


def test_trying_a_plan_writes_nothing(history: Pipeline, site: Site) -> None:
    def files() -> dict[str, int]:
        return {str(file): file.stat().st_mtime_ns for file in Path(history.tables).rglob("*") if file.is_file()}

    before = files()
    answer = site.ask(f"/rebalance/api/dags/{history.dag_id}/trial", method="POST", json={"channels": CHANNELS + 1})
    assert [plan["channels"] for plan in answer.json()["plans"]] == [CHANNELS, CHANNELS + 1]
    assert files() == before


def test_trying_a_plan_runs_no_code_of_the_pipelines(history: Pipeline, site: Site, tmp_path: Path) -> None:
    """Airflow's API server runs what is installed there and nothing that a pipeline file names."""
    left = tmp_path / "was_run"
    (tmp_path / "own.py").write_text(f"open({str(left)!r}, 'w').close()\n")
    own = history.file.read_text()
    trial = f"/rebalance/api/dags/{history.dag_id}/trial"
    history.file.write_text(own.replace('name = "windowed_sum"\nwindow = 2', f'function = "{tmp_path}/own.py"'))
    assert site.ask(trial, method="POST", json={}).status_code == 200
    history.file.write_text(own.replace('name = "windowed_sum"', f'file = "{tmp_path}/own.py"'))
    refused = site.ask(trial, method="POST", json={})
    assert (refused.status_code, refused.json()["error"]) == (422, "ConfigError")
    assert "rebalance plan" in refused.json()["message"]
    assert not left.exists()


def test_an_approval_given_as_the_page_gives_it_is_recorded_with_who_gave_it(asking: Any, site: Site) -> None:
    """Airflow's own API says whether a question is open, and takes the answer. The run is named after what the page shows of the plan."""
    digest = leave_plan(asking.root, "a")
    question = f"/api/v2/dags/{asking.dag.dag_id}_approve/dagRuns/plan__a__{digest[:12]}"
    assert site.ask(f"{question}/hitlDetails", "p").json()["hitl_details"] == []
    asking.airflow.run_interval(asking.dag, FIRST)
    (run,) = questions(asking)
    go_on(asking, run.run_id)
    (shown,) = site.ask(f"{question}/hitlDetails", "p").json()["hitl_details"]
    assert not shown["response_received"]
    answer, given = (
        f"{question}/taskInstances/approve_plan/-1/hitlDetails",
        {"chosen_options": ["Approve"], "params_input": {}},
    )
    assert site.ask(answer, "theirs", "PATCH", json=given).status_code == 403
    assert site.ask(answer, "p", "PATCH", json=given).status_code == 200
    assert site.ask(answer, "p", "PATCH", json=given).status_code == 409
    (shown,) = site.ask(f"{question}/hitlDetails", "p").json()["hitl_details"]
    assert (shown["responded_by_user"]["name"], shown["chosen_options"]) == ("p", ["Approve"])
    go_on(asking, run.run_id)
    (row,) = control.rows(asking.root, "approvals")
    assert (row["plan_id"], row["digest"], row["answer"], row["who"]) == ("a", digest, "approve", "p")


def test_a_rewind_started_as_the_page_starts_it_is_a_run_with_the_interval(history: Pipeline, site: Site) -> None:
    dag = f"/api/v2/dags/{history.dag_id}_rewind"
    assert site.ask(dag).json()["is_paused"]
    unpaused = site.ask(f"{dag}?update_mask=is_paused", method="PATCH", json={"is_paused": False})
    assert not unpaused.json()["is_paused"]
    body = {"logical_date": None, "conf": {"to": "20260101T0200Z"}}
    assert site.ask(f"{dag}/dagRuns", "ours-viewer", "POST", json=body).status_code == 403
    run = site.ask(f"{dag}/dagRuns", method="POST", json=body).json()
    assert (run["conf"], run["triggering_user_name"]) == ({"to": "20260101T0200Z"}, "ours")
