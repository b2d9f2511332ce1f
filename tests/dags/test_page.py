"""What the page Rebalance shows, over HTTP through Airflow's own API server: it is what the documents say."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

from rebalance.documents.interval import interval_document
from rebalance.documents.key import key_document
from rebalance.documents.over_time import pipeline_over_time
from rebalance.documents.overview import overview
from rebalance.pipeline.file import Pipeline
from rebalance.storage import control
from tests.dags.conftest import WritePipeline
from tests.dags.page_site import CHANNELS, Site, listed
from tests.dags.page_site import history as history
from tests.dags.page_site import name as name
from tests.dags.page_site import site as site
from tests.dags.test_rules import FIRST, SECOND


def test_the_routes_answer_with_the_documents(history: Pipeline, site: Site) -> None:
    from rebalance.documents.trial import try_plan

    newest = control.largest(history.tables, "interval_stats", "interval_id")
    of = f"/rebalance/api/dags/{history.dag_id}"
    key = control.rows(history.tables, "key_stats", columns=["key"], interval_id=newest)[0]["key"]
    assert listed(site, history.dag_id) == {**overview([history]), "broken": []}
    assert listed(site, history.dag_id, "theirs") == {"pipelines": [], "broken": []}
    assert site.ask(of).json() == pipeline_over_time(history)
    assert site.ask(f"{of}?last=2").json()["intervals"]["id"] == pipeline_over_time(history)["intervals"]["id"][-2:]
    assert site.ask(f"{of}/intervals/{newest}").json() == interval_document(history, str(newest))
    assert site.ask(f"{of}/key", params={"key": key}).json() == key_document(history, key)
    knobs = {"planner": "llfd", "theta_max": 0.2}
    tried = site.ask(f"{of}/trial", method="POST", json=knobs).json()
    expected = try_plan(history, **knobs)
    for plan in (*tried["plans"], *expected["plans"]):
        assert plan.pop("seconds") >= 0
    assert tried == expected
    offered = site.ask(f"{of}/trial").json()
    assert offered["knobs"] == {"planner": "mixed", "theta_max": 0.08, "max_routes": 3000, "channels": CHANNELS}
    assert "llfd" in [planner["name"] for planner in offered["planners"]]


def test_trouble_is_a_sentence_with_a_fitting_status(history: Pipeline, site: Site) -> None:
    of = f"/rebalance/api/dags/{history.dag_id}"
    unknown = site.ask(f"{of}/intervals/20300101T0000Z")
    assert unknown.status_code == 404
    assert "20300101T0000Z" in unknown.json()["message"]
    planner = site.ask(f"{of}/trial", method="POST", json={"planner": "nonsense"})
    assert (planner.status_code, planner.json()["error"]) == (422, "ConfigError")
    assert "nonsense" in planner.json()["message"]
    assert site.ask(f"{of}/trial", method="POST", json={"plannner": "llfd"}).status_code == 422
    assert site.ask(f"{of}/runs/none").json() == {"detail": f"{history.dag_id} has no run none."}
    log = next(Path(history.tables, "epochs", "_delta_log").glob("*.json"))
    log.write_text("cut off")
    damaged = site.ask(of)
    assert (damaged.status_code, damaged.json()["error"]) == (500, "DamagedError")
    (card,) = listed(site, history.dag_id)["pipelines"]
    assert card["health"] == "attention"


def test_a_broken_pipeline_file_is_told_and_hides_no_other(history: Pipeline, site: Site, airflow: Any) -> None:
    too = f"{history.dag_id}_too"
    (history.file.parent / f"{history.name}_too.toml").write_text("tables = 7\n")
    airflow.load_dag(history.dag_id)
    found = listed(site, history.dag_id)
    assert [card["dag_id"] for card in found["pipelines"]] == [history.dag_id]
    (broken,) = found["broken"]
    assert broken["dag_id"] == too
    assert "source is missing" in broken["why"]
    # Gone, since Airflow has read it.
    history.file.rename(history.file.with_suffix(".old"))
    assert [broken["dag_id"] for broken in listed(site, history.dag_id)["broken"]] == [history.dag_id, too]


def test_a_dag_that_is_no_pipeline_says_so(history: Pipeline, site: Site) -> None:
    """The tab stands on every DAG's page, also on those that maintain and rewind."""
    answer = site.ask(f"/rebalance/api/dags/{history.dag_id}_rewind")
    assert answer.status_code == 404
    assert "is not the DAG of a pipeline" in answer.json()["detail"]


def test_a_run_is_found_by_its_interval_and_an_interval_by_its_run(
    name: str, write_pipeline: WritePipeline, airflow: Any, fake_jobs: dict[str, Any], site: Site
) -> None:
    write_pipeline(name)
    airflow.run_interval(airflow.load_dag(f"rebalance_{name}"), FIRST)
    of = f"/rebalance/api/dags/rebalance_{name}"
    (run,) = site.ask(f"{of}/intervals/{FIRST.id}/runs").json()["runs"]
    assert run["state"] == "success"
    tasks = {task["task"]: task for task in run["tasks"]}
    assert set(tasks) == {"collect_stats", "check_quality", "make_plan", "migrate_state", "process_batch", "planned"}
    assert all(task["state"] == "success" for task in tasks.values())
    assert tasks["process_batch"]["seconds"] >= 0
    found = site.ask(f"{of}/runs/{quote(run['run_id'], safe='')}").json()
    assert found == {"interval": FIRST.id, "why": None}
    assert site.ask(f"{of}/intervals/{SECOND.id}/runs").json() == {"runs": []}
