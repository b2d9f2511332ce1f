"""The page Rebalance over HTTP, through Airflow's own API server with its logins: who sees what, and that it is what the documents say."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote
from zlib import crc32

import pytest

from rebalance.documents.interval import interval_document
from rebalance.documents.key import key_document
from rebalance.documents.over_time import pipeline_over_time
from rebalance.documents.overview import overview
from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.quality.docs import docs_index
from rebalance.storage import control
from tests.dags.conftest import WritePipeline
from tests.dags.test_approval import asking as asking
from tests.dags.test_approval import go_on, leave_plan, questions
from tests.dags.test_rules import FIRST, SECOND
from tests.support.many_intervals import write_history

#: Four processed intervals of three channels, the newest with a plan.
INTERVALS, CHANNELS = 4, 3


@dataclass
class Site:
    """Airflow's API server with its users: `ours` may run the pipeline ours, `ours-viewer` may look at it, `theirs` sees neither."""

    client: Any
    tokens: dict[str, str]

    def ask(self, address: str, user: str | None = "ours", method: str = "GET", **more: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.tokens[user]}"} if user else {}
        return self.client.request(method, address, headers=headers, **more)


@pytest.fixture
def site(airflow: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """The API server on the test's own database, with every route of the plugin that is installed."""
    from airflow import plugins_manager
    from airflow.api_fastapi.app import create_app, purge_cached_app
    from fastapi.testclient import TestClient

    users = {"ours": "user", "ours-viewer": "viewer", "theirs": "user", "p": "user"}
    monkeypatch.setenv("AIRFLOW__CORE__AUTH_MANAGER", "tests.support.one_dag_each.OneDagEach")
    monkeypatch.setenv(
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS", ",".join(f"{name}:{role}" for name, role in users.items())
    )
    monkeypatch.setenv(
        "AIRFLOW__API_AUTH__JWT_SECRET", "only of this test, and long enough for its algorithm to like it well"
    )
    purge_cached_app()
    plugins_manager.get_fastapi_plugins.cache_clear()
    client = TestClient(create_app("core"), base_url="http://127.0.0.1:8080")
    passwords = json.loads(Path(os.environ["AIRFLOW_HOME"], "simple_auth_manager_passwords.json.generated").read_text())
    login = {
        name: client.post("/auth/token", json={"username": name, "password": passwords[name]}).json()["access_token"]
        for name in users
    }
    # The cookies of a login would stand in for a missing token.
    client.cookies.clear()
    yield Site(client, login)
    purge_cached_app()
    plugins_manager.get_fastapi_plugins.cache_clear()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A pipeline of the test's own: Airflow records a DAG at most once in half a minute. The user `ours` may see it."""
    return f"ours{crc32(request.node.name.encode())}"


@pytest.fixture
def history(name: str, write_pipeline: WritePipeline, airflow: Any, tmp_path: Path) -> Pipeline:
    """A pipeline with some intervals behind it, known to Airflow."""
    made = write_history(tmp_path / "history", INTERVALS, CHANNELS, keys=40)
    file = tmp_path / "pipelines" / f"{name}.toml"
    file.write_text(made.file.read_text().replace('"tables"', f'"{made.tables}"'))
    airflow.load_dag(f"rebalance_{name}")
    return load_pipeline(file)


def listed(site: Site, dag_id: str, user: str = "ours") -> dict[str, list[dict[str, Any]]]:
    """The pipelines that a user is shown, but for those of other tests, which share Airflow's database."""
    found = site.ask("/rebalance/api/pipelines", user).json()
    return {kind: [one for one in found[kind] if one["dag_id"].startswith(dag_id)] for kind in ("pipelines", "broken")}


def routes(dag_id: str) -> list[tuple[str, str]]:
    """Every route of the plugin's app as a method and an address of a pipeline; what is mounted must be the static files."""
    from fastapi.routing import APIRoute

    from rebalance.airflow.plugin import PREFIX, RebalancePlugin

    (app,) = (made["app"] for made in RebalancePlugin().fastapi_apps)
    others = [route.name for route in app.routes if not isinstance(route, APIRoute)]
    assert others == ["static"]
    parts = {"dag_id": dag_id, "interval_id": "20260101T0000Z", "run_id": "any", "path": "index.html"}
    return [
        (method, PREFIX + re.sub(r"\{(\w+)(:path)?\}", lambda part: parts[part[1]], route.path))
        for route in app.routes
        if isinstance(route, APIRoute)
        for method in sorted(route.methods)
    ]


def test_every_route_refuses_who_is_not_signed_in_and_who_may_not_see_the_pipeline(
    history: Pipeline, site: Site
) -> None:
    asked = routes(history.dag_id)
    assert len(asked) >= 9
    for method, address in asked:
        more = {"json": {}} if method == "POST" else {}
        assert site.ask(address, None, method, **more).status_code == 401, address
        stranger = site.ask(address, "theirs", method, **more)
        if address == "/rebalance/api/pipelines":
            assert stranger.json() == {"pipelines": [], "broken": []}
        else:
            assert stranger.status_code == 403, address
        assert site.ask(address, "ours", method, **more).status_code not in (401, 403), address


def test_a_forged_or_borrowed_dag_id_opens_nothing(history: Pipeline, site: Site) -> None:
    """Permissions are asked for the very DAG whose pipeline is shown, whatever else the address says."""
    for address in (
        f"/rebalance/api/dags/{history.dag_id}?dag_id=rebalance_theirs",
        f"/rebalance/api/dags/{history.dag_id}%2F..%2Frebalance_theirs",
    ):
        assert site.ask(address, "theirs").status_code in (403, 404)
    assert site.ask("/rebalance/api/dags/~", "theirs").status_code == 404


def test_who_may_only_look_sees_everything_and_tries_nothing(history: Pipeline, site: Site) -> None:
    for method, address in routes(history.dag_id):
        if method == "GET":
            assert site.ask(address, "ours-viewer").status_code == site.ask(address, "ours").status_code, address
    trial = f"/rebalance/api/dags/{history.dag_id}/trial"
    assert site.ask(trial, "ours-viewer", "POST", json={}).status_code == 403
    assert site.ask(trial, "ours", "POST", json={}).status_code == 200


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


def test_a_file_that_is_another_pipelines_by_now_is_not_shown_as_this_one(history: Pipeline, site: Site) -> None:
    """Who may see the DAG `ours` has no right to what another DAG's readers may see."""
    history.file.write_text('name = "theirs"\n' + history.file.read_text())
    refused = site.ask(f"/rebalance/api/dags/{history.dag_id}")
    assert refused.status_code == 422
    assert "describes rebalance_theirs now" in refused.json()["message"]
    assert listed(site, history.dag_id)["pipelines"] == []


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


def test_data_docs_are_pages_of_the_pipelines_own_folder_and_may_run_nothing(
    history: Pipeline, site: Site, tmp_path: Path
) -> None:
    folder = docs_index(history).parent
    (folder / "validations").mkdir(parents=True)
    (folder / "index.html").write_text("<p>the list")
    (folder / "validations" / "one.html").write_text("<p>one")
    (folder / "notes.txt").write_text("no page")
    (tmp_path / "secret.html").write_text("not theirs")
    (folder / "out.html").symlink_to(tmp_path / "secret.html")
    docs = f"/rebalance/docs/{history.dag_id}"
    shown = site.ask(f"{docs}/")
    assert (shown.text, site.ask(f"{docs}/validations/one.html").text) == ("<p>the list", "<p>one")
    assert "sandbox" in shown.headers["content-security-policy"]
    assert "script" not in shown.headers["content-security-policy"]
    up = "..%2F" * len(folder.parts)
    for wrong in (
        "none.html",
        "no%00ne.html",
        "notes.txt",
        "out.html",
        "..%2F..%2Fsecret.html",
        f"{up}etc%2Fpasswd",
        "%2Fetc%2Fpasswd",
        "validations",
    ):
        assert site.ask(f"{docs}/{wrong}").status_code == 404, wrong


def test_the_shell_is_the_same_for_everybody_and_asks_for_nothing_from_elsewhere(history: Pipeline, site: Site) -> None:
    from rebalance.airflow.web.app import STATIC

    shell = site.ask("/rebalance/", None)
    assert shell.status_code == 200
    assert shell.headers["x-frame-options"] == "SAMEORIGIN"
    for file in sorted(STATIC.rglob("*.*")):
        name = file.relative_to(STATIC).as_posix()
        answer = site.ask(f"/rebalance/{name}", None)
        assert answer.status_code == 200, name
        assert answer.headers["content-security-policy"].startswith("default-src 'self'")
        if file.suffix in (".js", ".css", ".html") and "vendor" not in name:
            text = file.read_text().replace("http://www.w3.org/2000/svg", "")
            assert not re.search(r"https?://|innerHTML|@import|\bstyle=\"", text), name
    documents = site.ask(f"/rebalance/api/dags/{history.dag_id}")
    assert documents.headers["content-security-policy"].startswith("default-src 'self'")


def test_airflow_offers_the_page_in_the_navigation_on_a_dag_and_on_a_run(site: Site) -> None:
    (plugin,) = (found for found in site.ask("/api/v2/plugins").json()["plugins"] if found["name"] == "rebalance")
    views = {view["destination"]: view["href"] for view in plugin["external_views"]}
    assert views == {
        "nav": "rebalance/#/",
        "dag": "rebalance/#/dag/{DAG_ID}",
        "dag_run": "rebalance/#/dag/{DAG_ID}/run/{RUN_ID}",
    }
    assert [app["url_prefix"] for app in plugin["fastapi_apps"]] == ["/rebalance"]


def test_only_the_api_server_pays_for_the_page_and_nobody_starts_spark_for_it() -> None:
    code = (
        "import sys; from rebalance.airflow.plugin import RebalancePlugin as plugin; made = plugin();"
        "before = 'rebalance.airflow.web.app' in sys.modules; made.fastapi_apps;"
        "print(before, 'rebalance.airflow.web.app' in sys.modules, 'pyspark' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120).stdout
    assert said.splitlines()[-1].split() == ["False", "True", "False"]
