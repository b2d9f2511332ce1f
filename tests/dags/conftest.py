"""Pipeline files to make DAGs of, and an Airflow of the tests' own to run them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

import pytest

FIRST_START = "2026-01-01T00:00:00Z"

WritePipeline = Callable[..., Path]


@pytest.fixture
def pipelines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder in which the DAG file looks for pipelines."""
    folder = tmp_path / "pipelines"
    folder.mkdir()
    monkeypatch.setenv("REBALANCE_PIPELINES", str(folder))
    return folder


@pytest.fixture
def write_pipeline(pipelines: Path, tmp_path: Path) -> WritePipeline:
    """Writes a small pipeline file."""

    def write(name: str = "small", mode: str = "auto", more: str = "", when: str = "before") -> Path:
        file = pipelines / f"{name}.toml"
        text = f"""\
            tables = "{tmp_path}/tables_{name}"
            [source]
            path = "{tmp_path}/events"
            format = "parquet"
            key = "symbol"
            time = "ts"
            [interval]
            length = "1 h"
            first = {FIRST_START}
            [operator]
            name = "latest_match"
            window = 2
            parameters = {{ kind = "side", value = "price" }}
            [channels]
            count = 4
            replicas = 20
            [planning]
            mode = "{mode}"
            when = "{when}"
            [airflow]
            retries = 1
            retry_delay_seconds = 0
            """
        file.write_text(dedent(text) + dedent(more))
        return file

    return write


@pytest.fixture
def dag_file(project: Path) -> Callable[[], ModuleType]:
    """Reads the DAG file anew, as Airflow does."""

    def read() -> ModuleType:
        import importlib.util

        spec = importlib.util.spec_from_file_location(
            "rebalance_pipelines_under_test", project / "dags" / "rebalance_pipelines.py"
        )
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return read


@pytest.fixture
def airflow() -> Any:
    """Airflow with its database, in the folder of the tests' own."""
    from rebalance.demo import in_process

    in_process.prepare(Path(os.environ["AIRFLOW_HOME"]))
    return in_process


@pytest.fixture
def api(airflow: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """Airflow's API server, asked over HTTP with the token of a person: `ann` may act, `vic` may only look."""
    passwords = tmp_path / "passwords.json"
    for name, value in {
        "API_AUTH__JWT_SECRET": "a secret of the tests' own, long enough to sign tokens with it; nobody else's",
        "CORE__SIMPLE_AUTH_MANAGER_USERS": "ann:op,vic:viewer",
        "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
    }.items():
        monkeypatch.setenv(f"AIRFLOW__{name}", value)
    from airflow.api_fastapi.app import create_app
    from starlette.testclient import TestClient

    app = create_app(apps="core")
    with ExitStack() as opened:

        def of(user: str) -> Any:
            client = opened.enter_context(TestClient(app, base_url="http://127.0.0.1:8080"))
            given = {"username": user, "password": json.loads(passwords.read_text())[user]}
            # As a browser has it: the token is a cookie.
            client.cookies["_token"] = client.post("/auth/token", json=given).json()["access_token"]
            return client

        yield of


@pytest.fixture
def fake_jobs(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The five steps replaced by what the test says; without a word they succeed."""
    says: dict[str, Any] = {}

    def function_of(step: str) -> Callable[..., str]:
        def run(pipeline: object, interval: object, insist: object) -> str:
            answer = says.get(step, f"{step} done")
            if callable(answer):
                answer = answer()
            if isinstance(answer, Exception):
                raise answer
            return str(answer)

        return run

    monkeypatch.setattr("rebalance.steps.function_of", function_of)
    return says
