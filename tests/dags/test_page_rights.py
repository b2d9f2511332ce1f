"""Who sees what of the page Rebalance, by Airflow's own logins and permissions."""

from __future__ import annotations

import re

from rebalance.pipeline.file import Pipeline
from tests.dags.page_site import Site, listed
from tests.dags.page_site import history as history
from tests.dags.page_site import name as name
from tests.dags.page_site import site as site


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


def test_a_file_that_is_another_pipelines_by_now_is_not_shown_as_this_one(history: Pipeline, site: Site) -> None:
    """Who may see the DAG `ours` has no right to what another DAG's readers may see."""
    history.file.write_text('name = "theirs"\n' + history.file.read_text())
    refused = site.ask(f"/rebalance/api/dags/{history.dag_id}")
    assert refused.status_code == 422
    assert "describes rebalance_theirs now" in refused.json()["message"]
    assert listed(site, history.dag_id)["pipelines"] == []
