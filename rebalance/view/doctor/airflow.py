"""Airflow on this machine: its version, its records, our plugin, the DAGs of pipelines, its API server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from rebalance.pipeline.file import Pipeline
from rebalance.view.doctor.findings import Finding

#: Seconds for the process that asks.
_PATIENCE = 12.0
#: Seconds without a heartbeat after which a scheduler counts as gone; Airflow's own limit is 30.
_GONE = 60.0
_PROBE = "rebalance.view.doctor.airflow_probe"


def airflow(pipeline: Pipeline | None) -> Sequence[Finding]:
    """What Airflow says of itself, asked in another process."""
    try:
        version = metadata.version("apache-airflow")
    except metadata.PackageNotFoundError:
        return [Finding("airflow", "skipped", "not installed here; `rebalance run` does without")]
    home = Path(os.environ.get("AIRFLOW_HOME") or Path.home() / "airflow")
    nowhere = Finding(
        "airflow",
        "skipped",
        f"version {version}; none is set up at {home}",
        "Set AIRFLOW_HOME to the Airflow that is meant.",
    )
    told = "AIRFLOW_HOME" in os.environ or any(name.startswith("AIRFLOW__") for name in os.environ)
    if not (told or (home / "airflow.cfg").is_file()):
        return [nowhere]
    answers = _ask()
    if not told and answers["database"].get("missing"):
        # Airflow writes its configuration whenever it is imported; that alone is no Airflow.
        return [nowhere]
    folder = answers["folder"] if isinstance(answers["folder"], str) else "?"
    first = Finding("airflow", "ok", f"version {version} at {home}, DAG folder {folder}")
    return [
        first,
        _database(answers["database"]),
        _plugin(answers["plugin"]),
        *_dags(answers["database"], pipeline),
        _api(answers["api"]),
    ]


def _ask() -> dict[str, Any]:
    """The answers by question; one that could not be had is a dict with `error`."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", _PROBE], capture_output=True, text=True, check=False, timeout=_PATIENCE
        )
        return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]
    except subprocess.TimeoutExpired:
        error = f"no answer within {_PATIENCE:g} s"
    except (ValueError, IndexError):
        error = (done.stderr.strip() or "it said nothing").splitlines()[-1]
    return {question: {"error": error} for question in ("folder", "plugin", "database", "api")}


def _database(said: dict[str, Any]) -> Finding:
    name, migrate = "airflow database", "Run `airflow db migrate` with this environment."
    if "error" in said:
        return Finding(
            name,
            "fail",
            said["error"],
            "Start the database, install its driver, or correct AIRFLOW__DATABASE__SQL_ALCHEMY_CONN.",
        )
    if said.get("missing") or not said["revision"]:
        return Finding(name, "fail", f"{said['place']} is not there yet", migrate)
    revision = said["revision"][0][0]
    if revision != said["wanted"]:
        return Finding(
            name, "fail", f"{said['place']} is at migration {revision}, this Airflow wants {said['wanted']}", migrate
        )
    return _scheduler(name, said)


def _scheduler(name: str, said: dict[str, Any]) -> Finding:
    seen = f"{said['place']}, migrated"
    if said["scheduler"] is None:
        return Finding(name, "ok", f"{seen}; no scheduler has ever run on it")
    if said["scheduler"] > _GONE:
        return Finding(
            name,
            "warn",
            f"{seen}; no scheduler for {said['scheduler'] / 60:,.0f} min",
            "Start one, or no interval runs: `airflow scheduler`.",
        )
    return Finding(name, "ok", f"{seen}; a scheduler is at work")


def _plugin(said: str | dict[str, Any]) -> Finding:
    if isinstance(said, str):
        return Finding("airflow plugin", "ok", f"{said} loads: runs get their notes")
    mend = "Install this package, not only its folder, where Airflow's parts run: pip install 'PATH[airflow]'."
    return Finding("airflow plugin", "fail", said["error"], mend)


def _dags(said: dict[str, Any], pipeline: Pipeline | None) -> Sequence[Finding]:
    """The DAGs as Airflow has them, which is what its DAG processor has made of the folder."""
    if "dags" not in said:
        return [Finding("airflow DAGs", "skipped", "the database first")]
    broken = [
        Finding("airflow DAGs", "fail", f"{file} cannot be imported", "`airflow dags list-import-errors` shows why.")
        for file in said["broken"]
    ]
    known = {dag: paused for dag, paused, stale in said["dags"] if not stale}
    if pipeline is not None:
        return [*broken, _own_dag(pipeline.dag_id, known)]
    if not known:
        mend = "Put a file into the DAG folder that calls rebalance.airflow.pipelines (dags/README.md), and start a DAG processor."
        return [*broken, Finding("airflow DAGs", "warn", "there are none of pipelines", mend)]
    return [*broken, Finding("airflow DAGs", "ok", f"{len(known)} of pipelines, {sum(known.values())} of them paused")]


def _own_dag(dag_id: str, known: dict[str, bool]) -> Finding:
    if dag_id not in known:
        mend = "Let the file in the DAG folder name the folder of this pipeline (dags/README.md), and start a DAG processor."
        return Finding("airflow DAGs", "warn", f"there is no {dag_id}", mend)
    if known[dag_id]:
        return Finding(
            "airflow DAGs", "warn", f"{dag_id} is paused", f"If it should run: `airflow dags unpause {dag_id}`."
        )
    return Finding("airflow DAGs", "ok", f"{dag_id} is there and not paused")


def _api(said: dict[str, Any] | None) -> Finding:
    name, start = "airflow API", "Start the API server (`airflow api-server`), or correct AIRFLOW__API__BASE_URL."
    if said is None:
        return Finding(name, "skipped", "api.base_url says no address")
    if "error" in said:
        return Finding(name, "fail", said["error"], start)
    if "silent" in said:
        return Finding(name, "warn", f"nothing answers at {said['address']}: {said['silent']}", start)
    ill = [f"{part} is {status}" for part, status in said["parts"].items() if status not in ("healthy", None)]
    if ill:
        return Finding(name, "warn", f"{said['address']}: {', '.join(ill)}", "Start what is not healthy.")
    return Finding(
        name, "ok", f"{said['address']}: {', '.join(part for part, status in said['parts'].items() if status)} healthy"
    )
