"""The files of the page Rebalance: its shell, Data Docs, where Airflow offers it, and who loads it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from rebalance.pipeline.file import Pipeline
from rebalance.quality.docs import docs_index
from tests.dags.page_site import Site
from tests.dags.page_site import history as history
from tests.dags.page_site import name as name
from tests.dags.page_site import site as site


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


def test_the_shell_names_every_module_so_that_the_browser_asks_for_all_at_once(site: Site) -> None:
    from rebalance.airflow.web.app import STATIC

    named = re.findall(r'<link rel="modulepreload" href="(\w+\.js)">', site.ask("/rebalance/", None).text)
    assert [*named, "app.js"] == [*sorted({file.name for file in STATIC.glob("*.js")} - {"app.js"}), "app.js"]


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
        answer = site.ask(f"{docs}/{wrong}")
        assert answer.status_code == 404, wrong
        assert answer.headers["content-type"].startswith("text/html"), wrong
        assert f"no such page in the Data Docs of {history.dag_id}" in answer.text, wrong


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
