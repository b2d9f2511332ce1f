"""Airflow's API server with the page Rebalance on it, asked over HTTP by users with different rights; the tests of the page share it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from rebalance.pipeline.file import Pipeline, load_pipeline
from tests.dags.conftest import WritePipeline
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
